//! The command line: parses the arguments, calls the service, prints the result. Each family of commands has
//! a file; none of them knows rows, events or the engine's state.
//!
//! A command reads and writes its files, and runs programs, on the main thread and blocks it: the process has
//! no other command, and calls and requests run on other threads.

mod approval_prompt;
mod args;
mod brief;
mod catch_up;
mod check;
mod config;
mod context;
mod control;
mod demo;
pub mod demo_tools;
mod detach;
mod diff;
mod doctor;
mod foreground;
mod graph_text;
mod help;
mod hook;
mod hook_checks;
mod import;
mod inputs;
mod install;
mod install_hooks;
mod install_url;
mod journal;
mod json_document;
mod list;
mod live_progress;
mod mcp;
mod open;
mod output;
mod paint;
mod plans;
mod policy;
mod printable;
mod run;
mod serve;
mod session;
mod show;
mod signals;
mod stats;
mod status_style;
mod step;
mod store_care;
mod table;
mod tasks;
mod templates;
mod times;
mod token;
mod tools;
mod trust;
mod undo;

use std::process::ExitCode;

use crate::error::{CommandLineCode, Error};
use clap::{CommandFactory, Parser};

use args::{CliArgs, CliCommand};
use output::Output;
use session::Session;

/// How a command ended; `run` maps it to the exit code of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Exit code 0.
    Done,
    /// Refused or failed: exit code 1.
    Failed,
    /// A hook denies the call of its client: exit code 2.
    Blocks,
    /// The execution waits for an answer: exit code 3.
    Waits,
}

/// What every command returns; an `Err` is printed by `run` and ends the process with exit code 1.
type CommandResult = Result<Exit, Error>;

/// Parses the process's arguments. On a usage error, prints it and exits the process; with `--json` the error is
/// a document on stdout besides.
pub fn parse_args() -> CliArgs {
    CliArgs::try_parse().and_then(CliArgs::validate).unwrap_or_else(|error| {
        let error = CliArgs::without_hidden_suggestions(error);
        let message = error.render().to_string();
        let asks_for_json = std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json");
        if asks_for_json && error.use_stderr() {
            Output::new(true).document(&usage_error(&message));
        }
        if printable::escape_text(&message) == message {
            error.exit()
        }
        // The message quotes arguments with control characters, which clap would print raw.
        output::write_log_line(&message);
        std::process::exit(error.exit_code())
    })
}

/// Clap's message as an error: its first paragraph, and behind it the tips and the usage.
fn usage_error(message: &str) -> Error {
    let (what, rest) = message.split_once("\n\n").unwrap_or((message, ""));
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let message = words(what.strip_prefix("error: ").unwrap_or(what));
    Error::command_line(CommandLineCode::Usage, message, words(rest))
}

/// Writes a log line or a panic message to stderr, with control characters escaped.
pub fn write_log(text: &str) {
    output::write_log_line(text);
}

/// Runs the command, prints its error if it has one, and returns the exit code of the process.
///
/// This blocks instead of returning a future: a future is compiled in the crate that polls it, and the binary
/// would compile again what the library has compiled for the futures that it spawns.
pub fn run(runtime: &tokio::runtime::Runtime, args: CliArgs) -> ExitCode {
    runtime.block_on(run_to_exit_code(args))
}

async fn run_to_exit_code(args: CliArgs) -> ExitCode {
    let output = Output::new(args.common.json);
    let ended = run_command(args, &output).await;
    let exit = ended.unwrap_or_else(|error| {
        output.error(&error);
        Exit::Failed
    });
    match exit {
        Exit::Done => ExitCode::SUCCESS,
        Exit::Failed => ExitCode::FAILURE,
        Exit::Blocks => ExitCode::from(2),
        Exit::Waits => ExitCode::from(3),
    }
}

/// Runs a command that needs no database, or passes it on to the commands that do.
async fn run_command(args: CliArgs, output: &Output) -> CommandResult {
    match args.command {
        CliCommand::DemoTools { folder, long } => serve_demo_tools(folder, long).await,
        CliCommand::Demo { keep, guard: true, .. } => demo::demo_guard(output, keep),
        CliCommand::Demo { keep, serve, .. } => demo::demo(output, keep, serve).await,
        CliCommand::Completions { shell } => print_completions(output, shell),
        CliCommand::Man => print_man_page(output),
        CliCommand::Help { topic } => help::help(output, &topic),
        CliCommand::Install(install_args) if install_args.hooks => {
            install_hooks::install(output, &args.common, &install_args)
        }
        CliCommand::Uninstall(uninstall_args) => install_hooks::uninstall(output, &uninstall_args),
        CliCommand::Install(install_args) if install_args.url.is_none() => {
            install::install(output, &args.common, &install_args)
        }
        CliCommand::Hook(hook_args) => hook::hook(output, &args.common, &hook_args).await,
        CliCommand::Trust(trust_args) => trust::trust(output, &args.common, &trust_args),
        CliCommand::Verify { file: Some(file) } => journal::verify_file(output, &file),
        CliCommand::Tools(args::ToolsSubcommand::Import { from, dry_run }) => {
            import::import(output, &args.common, &from, dry_run)
        }
        command => run_with_session(command, &args.common, output.clone()).await,
    }
}

/// Opens the config and the database, runs the command, and closes the service whatever the result.
async fn run_with_session(command: CliCommand, common: &args::CommonArgs, output: Output) -> CommandResult {
    // Before signals are caught: Ctrl-C at the question whether to trust a config ends the process.
    let need = config::ConfigNeed::for_command(&command);
    let config = config::load_config(need, common, &output)?;
    if need != config::ConfigNeed::Nothing && !reports_config(&command) {
        config::print_unknown_words(&output, &config);
    }
    signals::start_signal_task()?;
    let session = if is_read_only(&command) {
        Session::open_existing(common, config, output).await?
    } else {
        Session::open(common, config, output).await?
    };
    let ended = dispatch(&session, command).await;
    session.service.close().await;
    ended
}

/// Whether the command reports the config's unknown words in its own result, as warnings of a plan's check.
fn reports_config(command: &CliCommand) -> bool {
    matches!(
        command,
        CliCommand::Run(_)
            | CliCommand::Rerun(_)
            | CliCommand::Check { .. }
            | CliCommand::Plan(_)
            | CliCommand::Template(_)
            | CliCommand::Doctor
    )
}

/// Whether the command only reads, so that a missing database file is an error rather than created.
fn is_read_only(command: &CliCommand) -> bool {
    matches!(
        command,
        CliCommand::List(_)
            | CliCommand::Show { .. }
            | CliCommand::Watch { .. }
            | CliCommand::Journal(_)
            | CliCommand::Stats(_)
            | CliCommand::Verify { .. }
            | CliCommand::Export { .. }
            | CliCommand::Backup { .. }
            | CliCommand::Open
    )
}

async fn dispatch(session: &Session, command: CliCommand) -> CommandResult {
    match command {
        CliCommand::Run(args) => run::run(session, args).await,
        CliCommand::Rerun(args) => run::rerun(session, args).await,
        CliCommand::Check { plan, offline } => check::check(session, &plan, offline).await,
        CliCommand::Plan(subcommand) => plans::plans(session, subcommand).await,
        CliCommand::List(args) => list::list(session, args).await,
        CliCommand::Show { execution, step: None } => show::show(session, &execution).await,
        CliCommand::Show { execution, step: Some(step) } => step::show(session, &execution, &step).await,
        CliCommand::Watch { execution } => foreground::watch(session, &execution).await,
        CliCommand::Pause { execution, reason } => control::pause(session, &execution, reason).await,
        CliCommand::Resume { execution, here, detach } => {
            control::resume(session, &execution, here, detach.detach).await
        }
        CliCommand::Cancel { execution, reason } => control::cancel(session, &execution, reason).await,
        CliCommand::Undo(args) if args.dry_run => undo::preview_undo(session, &args).await,
        CliCommand::Undo(args) => undo::undo(session, &args).await,
        CliCommand::Decide(args) => control::decide(session, args).await,
        CliCommand::Approve { execution, step, scope, reason } => {
            control::approve(session, &execution, step, scope.is_for_session(), reason).await
        }
        CliCommand::Reject { execution, step, reason } => {
            control::reject(session, &execution, step, reason).await
        }
        CliCommand::Record(args) => control::record(session, args).await,
        CliCommand::Journal(args) => journal::journal(session, args).await,
        CliCommand::Stats(args) => stats::stats(session, args).await,
        CliCommand::Verify { .. } => journal::verify(session).await,
        CliCommand::Export { execution, file, output } => {
            store_care::export(session, &execution, file.or(output).as_deref()).await
        }
        CliCommand::Rebuild => store_care::rebuild(session).await,
        CliCommand::Backup { file } => store_care::backup(session, &file).await,
        CliCommand::Cleanup { older_than, dry_run } => {
            store_care::cleanup(session, older_than, dry_run).await
        }
        CliCommand::Context(subcommand) => context::context(session, subcommand).await,
        CliCommand::Task(subcommand) => tasks::tasks(session, subcommand).await,
        CliCommand::Template(subcommand) => templates::templates(session, subcommand).await,
        CliCommand::Tools(subcommand) => tools::tools(session, subcommand).await,
        CliCommand::Mcp { tools, guard } => mcp::mcp(session, tools, guard).await,
        CliCommand::Serve(args) => serve::serve(session, args).await,
        CliCommand::Open => open::open(session).await,
        CliCommand::Token(subcommand) => token::token(session, subcommand).await,
        CliCommand::Install(args) => install_url::install(session, &args).await,
        CliCommand::Policy(subcommand) => policy::policy(session, &subcommand).await,
        CliCommand::Session(args::SessionSubcommand::ClearLabel { execution, label, reason }) => {
            control::clear_label(session, &execution, label, reason).await
        }
        CliCommand::Doctor => doctor::doctor(session).await,
        CliCommand::Drive { execution } => detach::drive_in_background(session, &execution).await,
        CliCommand::DemoTools { .. }
        | CliCommand::Demo { .. }
        | CliCommand::Completions { .. }
        | CliCommand::Man
        | CliCommand::Help { .. }
        | CliCommand::Hook(_)
        | CliCommand::Uninstall(_)
        | CliCommand::Trust(_) => {
            unreachable!("commands without a database run before one is opened")
        }
    }
}

async fn serve_demo_tools(folder: std::path::PathBuf, long: bool) -> CommandResult {
    let failed = |error: anyhow::Error| {
        Error::command_line(CommandLineCode::DemoTools, error.to_string(), "choose another --folder")
    };
    demo_tools::serve(folder, long).await.map_err(failed).map(|()| Exit::Done)
}

fn print_completions(output: &Output, shell: clap_complete::Shell) -> CommandResult {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut CliArgs::command(), "actbook", &mut text);
    output.raw(&text);
    Ok(Exit::Done)
}

/// Prints the man page, with a section for each subcommand.
fn print_man_page(output: &Output) -> CommandResult {
    let failed =
        |error: std::io::Error| Error::command_line(CommandLineCode::Io, error.to_string(), "try again");
    let mut text = Vec::new();
    let mut command = CliArgs::command().disable_help_subcommand(true);
    command.build();
    clap_mangen::Man::new(command.clone()).render(&mut text).map_err(failed)?;
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        let man = clap_mangen::Man::new(subcommand.clone());
        let name = subcommand.get_name().to_uppercase();
        text.extend_from_slice(format!(".SH \"ACTBOOK {name}\"\n").as_bytes());
        man.render_description_section(&mut text).map_err(failed)?;
        man.render_synopsis_section(&mut text).map_err(failed)?;
        man.render_options_section(&mut text).map_err(failed)?;
    }
    output.raw(&text);
    Ok(Exit::Done)
}
