//! Receives a file from a multicast group. The exit status is 0 only when all of it came.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;
use heddle_testbed::hosts::receive::{Args, Status, run};
use heddle_testbed::units;

fn main() -> ExitCode {
    let args = Args::parse();
    let watched = std::io::stderr().is_terminal() && !args.status;
    let received = run(&args, |status| {
        if args.status {
            say(status);
        }
        if let (true, Status::Receiving { bytes, total }) = (watched, status) {
            eprint!("\r{} of {} ", units::size(*bytes), units::size(*total));
        }
    });
    if watched {
        eprintln!();
    }
    match received {
        Ok(received) => {
            let complete = received.complete;
            say(&Status::Done(received));
            if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("heddle-receive: {error}");
            ExitCode::FAILURE
        }
    }
}

/// One line, at once. Nobody who reads any more is no reason to stop receiving.
fn say(status: &Status) {
    if let Ok(line) = serde_json::to_string(status) {
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}
