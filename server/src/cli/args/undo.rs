//! The arguments of `undo`.

use clap::Args as ClapArgs;
use clap::ValueEnum;

use super::DetachFlag;
use crate::service::{UndoPart, UndoSelection};

#[derive(Debug, ClapArgs)]
pub struct UndoArgs {
    /// Its id, or a unique beginning of it
    pub execution: String,
    /// In a session: undo this call and those that started later
    #[arg(long, value_name = "CALL")]
    pub from: Option<String>,
    /// In a session: restore files alone, or make the calls alone
    #[arg(long)]
    pub only: Option<UndoPartArg>,
    /// Say what it would do, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Why; it is journaled
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Adopt this config's definitions of its servers; that is journaled
    #[arg(long)]
    pub here: bool,
    #[command(flatten)]
    pub detach: DetachFlag,
}

/// What `--only` limits an undo to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UndoPartArg {
    Files,
    Calls,
}

impl UndoArgs {
    /// Which part of a session is undone.
    pub fn selection(&self) -> UndoSelection {
        let only = self.only.map(|only| match only {
            UndoPartArg::Files => UndoPart::Files,
            UndoPartArg::Calls => UndoPart::Calls,
        });
        UndoSelection { from: self.from.clone(), only }
    }
}
