//! Which config a command goes by, and what becomes of one that was found in the working folder and is not trusted.

use actbook::config::{Config, ConfigError, Location, Standing, TrustStore, Withheld, locate};
use actbook::error::Error;
use actbook_engine::policy::Answer;

use super::args::{Ask, Common, Plan, Task, Template, Tools};
use super::output::Output;
use super::signs::{ASKS, painted};
use super::trust;

/// What a command needs of the config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It starts servers or sends something. On a terminal, `run` and `rerun` ask whether the config is to be trusted.
    InEffect { may_ask: bool },
    /// It serves agents: it starts whatever the config holds, with what was trusted.
    Trusted,
    /// It starts nothing and sends nothing, so no config can stop it.
    Nothing,
}

impl Need {
    pub fn of(ask: &Ask) -> Self {
        let online = |offline: bool| if offline { Self::Nothing } else { Self::InEffect { may_ask: false } };
        match ask {
            Ask::Run(_) | Ask::Rerun(_) => Self::InEffect { may_ask: true },
            Ask::Mcp { .. } | Ask::Serve(_) => Self::Trusted,
            Ask::Check { offline, .. } | Ask::Plan(Plan::Save { offline, .. }) => online(*offline),
            Ask::Undo { dry_run, .. } => online(*dry_run),
            // Before a retry the server is asked for the tool as it is.
            Ask::Decide(asked) => online(!matches!(asked.parts(), Ok((_, Answer::Retry)))),
            Ask::Template(Template::Use(asked)) => online(asked.offline),
            Ask::Resume { .. }
            | Ask::Tools(Tools::List { .. } | Tools::Show { .. } | Tools::Call { .. } | Tools::Accept { .. })
            // A rule of the config may start a plan for it.
            | Ask::Task(Task::Add { .. })
            | Ask::Doctor
            | Ask::Drive { .. } => online(false),
            Ask::Plan(
                Plan::List(_) | Plan::Show { .. } | Plan::Diff { .. } | Plan::Graph { .. } | Plan::Delete { .. },
            )
            | Ask::List(_)
            | Ask::Show { .. }
            | Ask::Watch { .. }
            | Ask::Pause { .. }
            | Ask::Cancel { .. }
            | Ask::Approve { .. }
            | Ask::Reject { .. }
            | Ask::Record(_)
            | Ask::Journal(_)
            | Ask::Stats(_)
            | Ask::Verify { .. }
            | Ask::Export { .. }
            | Ask::Rebuild
            | Ask::Backup { .. }
            | Ask::Cleanup { .. }
            | Ask::Tools(Tools::Import { .. })
            | Ask::Context(_)
            | Ask::Task(Task::List { .. } | Task::Show { .. } | Task::Split { .. } | Task::Set { .. } | Task::Done { .. })
            | Ask::Template(
                Template::List
                | Template::Show { .. }
                | Template::Save { .. }
                | Template::From { .. }
                | Template::Delete { .. },
            )
            | Ask::Trust(_)
            | Ask::Install(_)
            | Ask::Demo { .. }
            | Ask::DemoTools { .. }
            | Ask::Completions { .. }
            | Ask::McpConformance { .. }
            | Ask::Help { .. }
            | Ask::Man => Self::Nothing,
        }
    }
}

/// What the user has trusted.
pub fn store() -> TrustStore {
    TrustStore::new(&actbook::folders::data())
}

/// The config that a command goes by. Refused where the command needs one that is trusted, and this one is not.
pub fn open(need: Need, common: &Common, output: &Output) -> Result<Config, Error> {
    let named = common.config.as_deref();
    let standing = match Standing::of(named, &store()) {
        Ok(standing) => standing,
        // A file that was named and is not there is a slip of the pen, whatever the command.
        Err(error @ ConfigError::Unreadable { .. }) => return Err(error.into()),
        Err(error) => match (need, named) {
            (Need::InEffect { .. }, _) | (Need::Trusted, Some(_)) => return Err(error.into()),
            (Need::Trusted, None) | (Need::Nothing, _) => return Ok(without(output, broken(named, &error))),
        },
    };
    match standing {
        Standing::InEffect(config) => Ok(*config),
        Standing::Withheld { withheld, trusted, candidate } => match need {
            Need::InEffect { may_ask } => match candidate.filter(|_| may_ask && output.can_ask()) {
                Some(candidate) if trust::ask(output, &candidate)? => Ok(candidate.config),
                Some(_) | None => Err((&withheld).into()),
            },
            Need::Trusted => Ok(as_trusted(output, withheld, trusted.map(|config| *config))),
            Need::Nothing => Ok(quietly_without(output, withheld)),
        },
    }
}

/// For `install`: the client will start Actbook where nobody is there to be asked.
pub fn offer_trust(output: &Output) -> Result<(), Error> {
    let Ok(Standing::Withheld { withheld, candidate: Some(candidate), .. }) = Standing::of(None, &store())
    else {
        return Ok(());
    };
    if !output.can_ask() || !trust::ask(output, &candidate)? {
        let refused = Error::from(&withheld);
        warn(output, format_args!("{}; the client would start without it", refused.message));
        output.aside(format_args!("  → {}", refused.cure));
    }
    Ok(())
}

fn broken(named: Option<&std::path::Path>, error: &ConfigError) -> Withheld {
    let file = match (named, error) {
        (Some(named), _) => named.to_owned(),
        (None, ConfigError::Ambiguous { one, .. }) => one.clone(),
        (None, _) => match locate(None) {
            Ok(Location::User(file) | Location::WorkingFolder(file) | Location::Named(file)) => file,
            Ok(Location::Nowhere(_)) | Err(_) => actbook::config::FILE_NAMES[0].into(),
        },
    };
    Withheld::broken(file, error)
}

/// Goes on with the text that was trusted, where there is one.
fn as_trusted(output: &Output, withheld: Withheld, trusted: Option<Config>) -> Config {
    let Some(trusted) = trusted else { return without(output, withheld) };
    let says = "going on as it was; `actbook trust` takes it as it is, then start this again";
    warn(output, format_args!("{withheld}; {says}"));
    trusted
}

/// Goes on without any server, and says so.
fn without(output: &Output, withheld: Withheld) -> Config {
    warn(output, format_args!("{withheld}; going on without it"));
    output.aside(format_args!("  → {}", Error::from(&withheld).cure));
    withheld.into_config()
}

/// What starts nothing has no need to speak of trust; a broken file is worth a word.
fn quietly_without(output: &Output, withheld: Withheld) -> Config {
    match withheld.reason {
        actbook::config::Reason::Broken(_) => without(output, withheld),
        actbook::config::Reason::NeverTrusted | actbook::config::Reason::ChangedSince => {
            withheld.into_config()
        }
    }
}

fn warn(output: &Output, text: impl std::fmt::Display) {
    output.aside(format_args!("{} {text}", painted(ASKS, "warning:")));
}
