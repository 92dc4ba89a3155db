//! `heddle completions` and `heddle man`: what a package puts beside the program.

use std::io::Write;
use std::path::PathBuf;

use clap::Command;
use clap_complete::Shell;

use crate::Failure;

#[derive(clap::Args)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

#[derive(clap::Args)]
pub struct Man {
    /// Write the page of each command into this directory
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

pub fn completions(
    args: &Completions,
    command: &mut Command,
    out: &mut impl Write,
) -> Result<(), Failure> {
    // The generator panics when it cannot write, and memory takes everything.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "heddle", &mut script);
    Ok(out.write_all(&script)?)
}

pub fn man(args: &Man, command: Command, out: &mut impl Write) -> Result<(), Failure> {
    match &args.out {
        None => Ok(clap_mangen::Man::new(command).render(out)?),
        Some(directory) => clap_mangen::generate_to(command, directory).map_err(|error| {
            Failure::Error(format!("cannot write pages into {}: {error}", directory.display()))
        }),
    }
}
