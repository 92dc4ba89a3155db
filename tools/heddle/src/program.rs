//! `heddle program`: the match programs of a running switch.

use std::io::{Read, Write};
use std::path::PathBuf;

use heddle_host::units;
use heddle_openflow::controller::Prefix;
use serde::Serialize;

use crate::Failure;
use crate::openflow::{Switch, json};

/// The longest program that is read from a file.
const MAX_OCTETS: u64 = 16 << 20;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    switch: Switch,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Send a program; one of the same number gives way to it, under traffic
    Put {
        /// Its number
        program: u32,
        /// The eBPF program, as an ELF file
        file: PathBuf,
    },
    /// Delete a program; flows that ask for it no longer match
    Del {
        /// Its number
        program: u32,
    },
    /// List the programs and what they have counted
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Set a parameter of a program; without a value it is taken away
    Param {
        /// The program's number
        program: u32,
        /// The parameter's number, which flows name: program=PROGRAM:PARAMETER
        parameter: u32,
        /// A name, whose octets are the parameter
        #[arg(long, conflicts_with = "hex")]
        name: Option<Prefix>,
        /// Octets, in hexadecimal
        #[arg(long, value_parser = octets)]
        hex: Option<Octets>,
    },
}

/// Octets given in hexadecimal.
#[derive(Clone)]
struct Octets(Vec<u8>);

fn octets(text: &str) -> Result<Octets, String> {
    let octet = |at| text.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let octets: Option<Vec<u8>> = (0..text.len()).step_by(2).map(octet).collect();
    octets.map(Octets).ok_or_else(|| "it is not pairs of hexadecimal digits".into())
}

/// A program, for programs.
#[derive(Serialize)]
struct Shown {
    program: u32,
    octets: u32,
    runs: u64,
    hits: u64,
    faults: u64,
}

pub fn run(args: &Args, out: &mut impl Write) -> Result<(), Failure> {
    // What is wrong with the file is said before anybody is asked.
    let elf = match &args.command {
        Command::Put { file, .. } => {
            let failed = |reason: String| {
                Failure::Error(format!("cannot read the program {}: {reason}", file.display()))
            };
            // A device may say that it is empty and never end.
            let mut elf = Vec::new();
            std::fs::File::open(file)
                .and_then(|file| file.take(MAX_OCTETS + 1).read_to_end(&mut elf))
                .map_err(|error| failed(error.to_string()))?;
            if elf.len() as u64 > MAX_OCTETS {
                return Err(failed("it is longer than 16 MiB".into()));
            }
            if elf.is_empty() {
                return Err(failed("it is empty".into()));
            }
            elf
        }
        _ => Vec::new(),
    };
    let mut client = args.switch.connect()?;
    match &args.command {
        Command::Put { program, .. } => Ok(client.put_program(*program, &elf)?),
        Command::Del { program } => Ok(client.delete_program(*program)?),
        Command::Param { program, parameter, name, hex } => {
            let value = match (name, hex) {
                (Some(name), _) => name.value(),
                (None, Some(Octets(octets))) => octets,
                (None, None) => &[],
            };
            Ok(client.set_parameter(*program, *parameter, value)?)
        }
        Command::List { json: as_json } => {
            let mut programs = client.programs()?;
            programs.sort_by_key(|program| program.program);
            if *as_json {
                let shown: Vec<Shown> = programs
                    .iter()
                    .map(|stats| Shown {
                        program: stats.program,
                        octets: stats.octets,
                        runs: stats.runs,
                        hits: stats.hits,
                        faults: stats.faults,
                    })
                    .collect();
                return json(&shown, out);
            }
            if programs.is_empty() {
                return Ok(writeln!(out, "there are no programs")?);
            }
            let rows = programs.iter().map(|stats| {
                [
                    stats.program.to_string(),
                    units::octets(stats.octets.into()),
                    units::count(stats.runs),
                    units::count(stats.hits),
                    units::count(stats.faults),
                ]
            });
            let header = ["program", "size", "runs", "hits", "faults"];
            Ok(write!(out, "{}", units::table(&header, rows))?)
        }
    }
}
