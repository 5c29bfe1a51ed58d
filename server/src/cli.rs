//! The command line: words in, one call to the service, words out. Each family of commands has a
//! file; none of them knows rows, events or the engine's state.

mod answers;
mod args;
mod asking;
mod brief;
mod check;
mod config;
mod context;
mod demo;
pub mod demo_tools;
mod detach;
mod diff;
mod doctor;
mod foreground;
mod graph;
mod help;
mod import;
mod inputs;
mod install;
mod journal;
mod list;
mod live;
mod mcp;
mod output;
mod paint;
mod plans;
mod printable;
mod run;
mod serve;
mod session;
mod show;
mod signals;
mod signs;
mod stats;
mod step;
mod store_care;
mod table;
mod tasks;
mod templates;
mod times;
mod tools;
mod trust;

use std::process::ExitCode;

use actbook::error::Error;
use clap::{CommandFactory, Parser};

use args::{Args, Ask};
use output::Output;
use session::Session;

/// How a command ended, as the shell sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Done,
    /// Refused or failed.
    Failed,
    /// The execution waits for an answer.
    Waits,
}

type Ended = Result<Exit, Error>;

/// The command line; a process that was called wrongly says so and ends.
pub fn read() -> Args {
    Args::try_parse().and_then(Args::checked).unwrap_or_else(|error| {
        let said = error.render().to_string();
        if printable::paragraphs(&said) == said {
            error.exit()
        }
        // It quotes words that a terminal would act on.
        output::log_text(&said);
        std::process::exit(error.exit_code())
    })
}

/// A line of the log, or what a panic says.
pub fn log(text: &str) {
    output::log_text(text);
}

pub async fn run(args: Args) -> ExitCode {
    let output = Output::new(args.common.json);
    let ended = answer(args, &output).await;
    let exit = ended.unwrap_or_else(|error| {
        output.error(&error);
        Exit::Failed
    });
    match exit {
        Exit::Done => ExitCode::SUCCESS,
        Exit::Failed => ExitCode::FAILURE,
        Exit::Waits => ExitCode::from(3),
    }
}

async fn answer(args: Args, output: &Output) -> Ended {
    match args.ask {
        Ask::DemoTools { folder, long } => serve_demo_tools(folder, long).await,
        Ask::Demo { keep } => demo::demo(output, keep).await,
        Ask::Completions { shell } => completions(output, shell),
        Ask::Man => man(output),
        Ask::Help { topic } => help::help(output, &topic),
        Ask::Install(asked) => install::install(output, &args.common, &asked),
        Ask::Trust(asked) => trust::trust(output, &args.common, &asked),
        Ask::McpConformance { listen } => serve::conformance(output, listen).await,
        Ask::Verify { file: Some(file) } => journal::verify_file(output, &file),
        Ask::Tools(args::Tools::Import { from, dry_run }) => {
            import::import(output, &args.common, &from, dry_run)
        }
        ask => asked(ask, &args.common, output.clone()).await,
    }
}

async fn asked(ask: Ask, common: &args::Common, output: Output) -> Ended {
    // Before signals are caught: Ctrl-C at its question ends the process.
    let config = config::open(config::Need::of(&ask), common, &output)?;
    signals::end_process_when_asked()?;
    let session = match reads_only(&ask) {
        true => Session::open_existing(common, config, output).await?,
        false => Session::open(common, config, output).await?,
    };
    let ended = dispatch(&session, ask).await;
    session.service.close().await;
    ended
}

fn reads_only(ask: &Ask) -> bool {
    matches!(
        ask,
        Ask::List(_)
            | Ask::Show { .. }
            | Ask::Watch { .. }
            | Ask::Journal(_)
            | Ask::Stats(_)
            | Ask::Verify { .. }
            | Ask::Export { .. }
            | Ask::Backup { .. }
    )
}

async fn dispatch(session: &Session, ask: Ask) -> Ended {
    match ask {
        Ask::Run(asked) => run::run(session, asked).await,
        Ask::Rerun(asked) => run::rerun(session, asked).await,
        Ask::Check { plan, offline } => check::check(session, &plan, offline).await,
        Ask::Plan(asked) => plans::plans(session, asked).await,
        Ask::List(asked) => list::list(session, asked).await,
        Ask::Show { execution, step: None } => show::show(session, &execution).await,
        Ask::Show { execution, step: Some(step) } => step::show(session, &execution, &step).await,
        Ask::Watch { execution } => foreground::watch(session, &execution).await,
        Ask::Pause { execution, reason } => answers::pause(session, &execution, reason).await,
        Ask::Resume { execution, here, detach } => {
            answers::resume(session, &execution, here, detach.detach).await
        }
        Ask::Cancel { execution, reason } => answers::cancel(session, &execution, reason).await,
        Ask::Undo { execution, dry_run, reason, here, detach } => match dry_run {
            true => answers::would_undo(session, &execution).await,
            false => answers::undo(session, &execution, reason, here, detach.detach).await,
        },
        Ask::Decide(asked) => answers::decide(session, asked).await,
        Ask::Approve { execution, step, reason } => answers::approve(session, &execution, step, reason).await,
        Ask::Reject { execution, step, reason } => answers::reject(session, &execution, step, reason).await,
        Ask::Record(asked) => answers::record(session, asked).await,
        Ask::Journal(asked) => journal::journal(session, asked).await,
        Ask::Stats(asked) => stats::stats(session, asked).await,
        Ask::Verify { .. } => journal::verify(session).await,
        Ask::Export { execution, output } => store_care::export(session, &execution, output.as_deref()).await,
        Ask::Rebuild => store_care::rebuild(session).await,
        Ask::Backup { file } => store_care::backup(session, &file).await,
        Ask::Cleanup { older_than, dry_run } => store_care::cleanup(session, older_than, dry_run).await,
        Ask::Context(asked) => context::context(session, asked).await,
        Ask::Task(asked) => tasks::tasks(session, asked).await,
        Ask::Template(asked) => templates::templates(session, asked).await,
        Ask::Tools(asked) => tools::tools(session, asked).await,
        Ask::Mcp { tools } => mcp::mcp(session, tools).await,
        Ask::Serve(asked) => serve::serve(session, asked).await,
        Ask::Doctor => doctor::doctor(session).await,
        Ask::Drive { execution } => detach::drive(session, &execution).await,
        Ask::DemoTools { .. }
        | Ask::Demo { .. }
        | Ask::Completions { .. }
        | Ask::Man
        | Ask::Help { .. }
        | Ask::Install(_)
        | Ask::Trust(_)
        | Ask::McpConformance { .. } => {
            unreachable!("what needs no database is answered before one is opened")
        }
    }
}

async fn serve_demo_tools(folder: std::path::PathBuf, long: bool) -> Ended {
    let failed =
        |error: anyhow::Error| Error::new("demo_tools", error.to_string(), "choose another --folder");
    demo_tools::serve(folder, long).await.map_err(failed).map(|()| Exit::Done)
}

fn completions(output: &Output, shell: clap_complete::Shell) -> Ended {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "actbook", &mut text);
    output.raw(&text);
    Ok(Exit::Done)
}

/// One page with every command on it.
fn man(output: &Output) -> Ended {
    let failed = |error: std::io::Error| Error::new("io", error.to_string(), "try again");
    let mut text = Vec::new();
    let mut command = Args::command().disable_help_subcommand(true);
    command.build();
    clap_mangen::Man::new(command.clone()).render(&mut text).map_err(failed)?;
    for part in command.get_subcommands().filter(|part| !part.is_hide_set()) {
        let man = clap_mangen::Man::new(part.clone());
        let name = part.get_name().to_uppercase();
        text.extend_from_slice(format!(".SH \"ACTBOOK {name}\"\n").as_bytes());
        man.render_description_section(&mut text).map_err(failed)?;
        man.render_synopsis_section(&mut text).map_err(failed)?;
        man.render_options_section(&mut text).map_err(failed)?;
    }
    output.raw(&text);
    Ok(Exit::Done)
}
