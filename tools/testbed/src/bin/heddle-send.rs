//! Sends a file as UDP datagrams to a multicast group.

use std::process::ExitCode;

use clap::Parser;
use heddle_testbed::hosts::send::{Args, run};

fn main() -> ExitCode {
    let result = run(&Args::parse()).map_err(|error| error.to_string());
    match result.and_then(|sent| serde_json::to_string(&sent).map_err(|error| error.to_string())) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("heddle-send: {error}");
            ExitCode::FAILURE
        }
    }
}
