//! Errors of the rooms below, as errors of the interfaces.

use super::{AgentError, ClosedPart, CommandLineError, Corruption, Error};
use crate::config::WithheldConfig;
use crate::{ledger, runner};

impl From<&WithheldConfig> for Error {
    fn from(withheld: &WithheldConfig) -> Self {
        Self::UntrustedConfig(withheld.without_content())
    }
}

impl From<ledger::Error> for Error {
    fn from(error: ledger::Error) -> Self {
        match error {
            ledger::Error::Refused(refusal) => refusal.into(),
            ledger::Error::Store(error) => error.into(),
            ledger::Error::Corrupt(why) => Self::Corrupt(Corruption::Fold(why)),
            ledger::Error::Closed => Self::Closed(ClosedPart::Ledger),
        }
    }
}

impl From<runner::Error> for Error {
    fn from(error: runner::Error) -> Self {
        match error {
            runner::Error::Ledger(error) => error.into(),
            runner::Error::Store(error) => error.into(),
            runner::Error::NodeLock(error) => Self::NodeLock(error),
            runner::Error::Task(_) => Self::Bug(error.to_string()),
        }
    }
}

impl From<CommandLineError> for Error {
    fn from(error: CommandLineError) -> Self {
        Self::CommandLine(Box::new(error))
    }
}

impl From<AgentError> for Error {
    fn from(error: AgentError) -> Self {
        Self::Agent(Box::new(error))
    }
}
