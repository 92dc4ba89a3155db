//! UDT, with Debian's library: a small program of its own, built when it is first asked for.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

const SOURCE: &str = include_str!("udt.cpp");

/// The program, beside this one; nothing where there is no compiler or no libudt.
pub fn program() -> Option<&'static PathBuf> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    PROGRAM
        .get_or_init(|| build().inspect_err(|why| println!("compared without UDT: {why}")).ok())
        .as_ref()
}

fn build() -> Result<PathBuf, String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let source = directory.path().join("udt.cpp");
    std::fs::write(&source, SOURCE).map_err(|error| error.to_string())?;
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let program = own.with_file_name("heddle-udt");
    let output = Command::new("g++")
        .args(["-O2", "-I/usr/include/udt", "-o"])
        .arg(&program)
        .arg(&source)
        .args(["-ludt", "-lpthread"])
        .output()
        .map_err(|error| format!("g++ cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(program);
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let first = complaint.lines().find(|line| line.contains("error")).unwrap_or("g++ fails");
    Err(format!("{first} (Debian's package libudt-dev has it)"))
}
