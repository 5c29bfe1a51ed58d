//! Which config a command uses, and what happens if a config found in the working folder is not trusted.

use crate::config::{
    Config, ConfigError, ConfigLocation, ConfigStatus, TrustStore, UnknownWord, WithheldConfig, locate_config,
};
use crate::error::Error;
use crate::error::cures::trust_cure;
use actbook_engine::policy::StepAnswer;

use super::args::{
    CliCommand, CommonArgs, PlanSubcommand, TaskSubcommand, TemplateSubcommand, ToolsSubcommand,
};
use super::output::Output;
use super::status_style::{ATTENTION, painted};
use super::trust;

/// What a command requires of the config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigNeed {
    /// The command starts servers or sends something, so an untrusted config is an error. `may_ask`: on a
    /// terminal ask first whether to trust it (`run` and `rerun`).
    InEffect { may_ask: bool },
    /// The command serves agents: it always starts, with the config's last trusted version or with none.
    Trusted,
    /// The command starts and sends nothing, so it runs with any config, trusted or not.
    Nothing,
}

impl ConfigNeed {
    /// What an untrusted config means to a command: an error, the last trusted version or none instead, or nothing.
    pub fn for_command(command: &CliCommand) -> Self {
        let unless_offline =
            |offline: bool| if offline { Self::Nothing } else { Self::InEffect { may_ask: false } };
        match command {
            CliCommand::Run(_) | CliCommand::Rerun(_) => Self::InEffect { may_ask: true },
            CliCommand::Mcp { .. } | CliCommand::Serve(_) | CliCommand::Hook(_) => Self::Trusted,
            CliCommand::Check { offline, .. } | CliCommand::Plan(PlanSubcommand::Save { offline, .. }) => unless_offline(*offline),
            CliCommand::Undo(args) => unless_offline(args.dry_run),
            // A retry first asks the server for the tool's current definition.
            CliCommand::Decide(args) => unless_offline(!matches!(args.steps_and_answer(), Ok((_, StepAnswer::Retry)))),
            CliCommand::Template(TemplateSubcommand::Use(args)) => unless_offline(args.offline),
            CliCommand::Resume { .. }
            | CliCommand::Policy(_)
            | CliCommand::Tools(ToolsSubcommand::List { .. } | ToolsSubcommand::Show { .. } | ToolsSubcommand::Call(_) | ToolsSubcommand::Accept { .. })
            // A rule of the config may start a plan for the new task.
            | CliCommand::Task(TaskSubcommand::Add { .. })
            | CliCommand::Doctor
            | CliCommand::Drive { .. } => unless_offline(false),
            CliCommand::Plan(
                PlanSubcommand::List(_) | PlanSubcommand::Show { .. } | PlanSubcommand::Diff { .. } | PlanSubcommand::Graph { .. } | PlanSubcommand::Delete { .. },
            )
            | CliCommand::List(_)
            | CliCommand::Show { .. }
            | CliCommand::Watch { .. }
            | CliCommand::Pause { .. }
            | CliCommand::Cancel { .. }
            | CliCommand::Approve { .. }
            | CliCommand::Session(_)
            | CliCommand::Reject { .. }
            | CliCommand::Record(_)
            | CliCommand::Journal(_)
            | CliCommand::Stats(_)
            | CliCommand::Verify { .. }
            | CliCommand::Export { .. }
            | CliCommand::Rebuild
            | CliCommand::Backup { .. }
            | CliCommand::Cleanup { .. }
            | CliCommand::Tools(ToolsSubcommand::Import { .. })
            | CliCommand::Context(_)
            | CliCommand::Task(TaskSubcommand::List { .. } | TaskSubcommand::Show { .. } | TaskSubcommand::Split { .. } | TaskSubcommand::Set { .. } | TaskSubcommand::Done { .. })
            | CliCommand::Template(
                TemplateSubcommand::List
                | TemplateSubcommand::Show { .. }
                | TemplateSubcommand::Save { .. }
                | TemplateSubcommand::From { .. }
                | TemplateSubcommand::Delete { .. },
            )
            | CliCommand::Trust(_)
            | CliCommand::Install(_)
            | CliCommand::Uninstall(_)
            | CliCommand::Open
            | CliCommand::Token(_)
            | CliCommand::Demo { .. }
            | CliCommand::DemoTools { .. }
            | CliCommand::Completions { .. }
            | CliCommand::Help { .. }
            | CliCommand::Man => Self::Nothing,
        }
    }
}

/// The record of the configs that the user has trusted, in the data folder.
pub fn trust_store() -> TrustStore {
    TrustStore::new(&crate::folders::data_folder())
}

/// Loads the config for a command. `Err`: the command requires a valid and trusted config, and this one is
/// not; or a file that was named does not exist.
pub fn load_config(need: ConfigNeed, common: &CommonArgs, output: &Output) -> Result<Config, Error> {
    let named = common.config.as_deref();
    let standing = match ConfigStatus::determine(named, &trust_store()) {
        Ok(standing) => standing,
        // A named file that cannot be read is a typing error, whatever the command needs.
        Err(error @ ConfigError::Unreadable { .. }) => return Err(error.into()),
        Err(error) => match (need, named) {
            (ConfigNeed::InEffect { .. }, _) | (ConfigNeed::Trusted, Some(_)) => return Err(error.into()),
            (ConfigNeed::Trusted, None) | (ConfigNeed::Nothing, _) => {
                return Ok(warn_and_use_empty(output, withhold_broken(named, &error)));
            }
        },
    };
    match standing {
        ConfigStatus::InEffect(config) => Ok(*config),
        ConfigStatus::Withheld { withheld, trusted, candidate } => match need {
            ConfigNeed::InEffect { may_ask } => match candidate.filter(|_| may_ask && output.can_ask()) {
                Some(candidate) if trust::ask_to_trust(output, &candidate)? => Ok(candidate.config),
                Some(_) | None => Err((&withheld).into()),
            },
            ConfigNeed::Trusted => Ok(use_trusted_version(output, withheld, trusted.map(|config| *config))),
            ConfigNeed::Nothing => Ok(use_empty(output, withheld)),
        },
    }
}

/// For `install`: offers to trust the config now, because the client will start Actbook without a terminal.
pub fn offer_trust(output: &Output) -> Result<(), Error> {
    let Ok(ConfigStatus::Withheld { withheld, candidate: Some(candidate), .. }) =
        ConfigStatus::determine(None, &trust_store())
    else {
        return Ok(());
    };
    if !output.can_ask() || !trust::ask_to_trust(output, &candidate)? {
        print_warning(output, format_args!("{withheld}; the client would start without it"));
        output.notice(format_args!("  → {}", trust_cure(&withheld)));
    }
    Ok(())
}

/// A config that cannot be parsed, as withheld; its file is the named one, or the one that was found.
fn withhold_broken(named: Option<&std::path::Path>, error: &ConfigError) -> WithheldConfig {
    let file = match (named, error) {
        (Some(named), _) => named.to_owned(),
        (None, ConfigError::Ambiguous { one, .. }) => one.clone(),
        (None, _) => match locate_config(None) {
            Ok(
                ConfigLocation::User(file)
                | ConfigLocation::WorkingFolder(file)
                | ConfigLocation::Named(file),
            ) => file,
            Ok(ConfigLocation::Nowhere(_)) | Err(_) => crate::config::FILE_NAMES[0].into(),
        },
    };
    WithheldConfig::broken(file, error)
}

/// The last trusted version, with a warning that it differs from the file; an empty config if there is none.
fn use_trusted_version(output: &Output, withheld: WithheldConfig, trusted: Option<Config>) -> Config {
    let Some(trusted) = trusted else { return warn_and_use_empty(output, withheld) };
    let advice =
        "continuing with the trusted version; `actbook trust` accepts the new one, then start this again";
    print_warning(output, format_args!("{withheld}; {advice}"));
    trusted
}

/// A config without servers, with a warning.
fn warn_and_use_empty(output: &Output, withheld: WithheldConfig) -> Config {
    print_warning(output, format_args!("{withheld}; continuing without it"));
    output.notice(format_args!("  → {}", trust_cure(&withheld)));
    withheld.into_config()
}

/// A config without servers. Warns only if the file is broken: trust does not matter to a command that starts
/// nothing.
fn use_empty(output: &Output, withheld: WithheldConfig) -> Config {
    match withheld.reason {
        crate::config::WithheldReason::Broken(_) => warn_and_use_empty(output, withheld),
        crate::config::WithheldReason::NeverTrusted | crate::config::WithheldReason::ChangedSince => {
            withheld.into_config()
        }
    }
}

/// Warns of the config's keys that have no effect.
pub fn print_unknown_words(output: &Output, config: &Config) {
    for word in &config.unknown_words {
        print_warning(output, format_args!("`{}` {}; {}", word.path, UnknownWord::MESSAGE, word.cure()));
    }
}

fn print_warning(output: &Output, text: impl std::fmt::Display) {
    output.notice(format_args!("{} {text}", painted(ATTENTION, "warning:")));
}
