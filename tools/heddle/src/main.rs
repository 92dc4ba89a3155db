//! The command line of Heddle.

mod check;
mod controller;
mod dtp;
mod flow;
mod name;
mod openflow;
mod pages;
mod program;
mod stats;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use heddle_testbed::cli as testbed;

/// Heddle carries content over plain IP networks: coded, named, or tolerant of outages.
#[derive(Parser)]
#[command(name = "heddle", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check a configuration and show what it means
    Check(check::Args),
    /// Show what running engines have counted
    Stats(stats::Args),
    /// Join islands of named data by the OpenFlow switches before them
    Controller(controller::Args),
    /// Where a running switch sends Interests
    Name(name::Args),
    /// The flows of a running switch
    Flow(flow::Args),
    /// The match programs of a running switch
    Program(program::Args),
    /// Files over a transport that outlives outages and changes of address
    #[command(subcommand)]
    Dtp(heddle_dtp::cli::Command),
    /// A network of namespaces to try Heddle on
    #[command(subcommand)]
    Testbed(testbed::Args),
    /// Print the script that completes this command in a shell
    Completions(pages::Completions),
    /// Print the manual page, or write all of them
    Man(pages::Man),
}

/// Why a command did not end well.
enum Failure {
    /// The sentence is still to be printed.
    Error(String),
    /// Everything has been said.
    Reported,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // Whoever read our output, `head` for example, has seen enough.
            io::ErrorKind::BrokenPipe => Self::Reported,
            _ => Self::Error(format!("cannot write the output: {error}")),
        }
    }
}

fn main() -> ExitCode {
    let mut out = io::stdout().lock();
    let result = match Cli::parse().command {
        Command::Check(args) => check::run(&args, &mut out),
        Command::Stats(args) => stats::run(&args, &mut out),
        Command::Controller(args) => controller::run(&args, &mut out),
        Command::Name(args) => name::run(&args, &mut out),
        Command::Flow(args) => flow::run(&args, &mut out),
        Command::Program(args) => program::run(&args, &mut out),
        Command::Dtp(command) => dtp::run(&command, &mut out),
        Command::Testbed(args) => {
            testbed::run(&args).map_err(|error| Failure::Error(error.to_string()))
        }
        Command::Completions(args) => pages::completions(&args, &mut Cli::command(), &mut out),
        Command::Man(args) => pages::man(&args, Cli::command(), &mut out),
    };
    match result.and_then(|()| out.flush().map_err(Failure::from)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Error(sentence)) => {
            eprintln!("error: {sentence}");
            ExitCode::FAILURE
        }
        Err(Failure::Reported) => ExitCode::FAILURE,
    }
}
