//! C programs are compiled against the installed library and talk over the loopback; the header names what the library exports.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

// Makes cargo build the library before this test.
use heddle_dtp_capi as _;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where cargo puts libraries and this very program.
fn library_folder() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_path_buf()
}

fn well(output: Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// A server that does not outlive its test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn programs_in_c_talk_over_the_loopback() {
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("prefix");
    let install =
        Command::new(package().join("install")).arg(&prefix).arg(library_folder()).output();
    well(install.unwrap());
    assert!(prefix.join("share/man/man3/dtp.3").exists());
    let flags = Command::new("pkg-config")
        .args(["--cflags", "--libs", "heddle-dtp"])
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
        .output();
    let flags = well(flags.unwrap());
    let program = directory.path().join("loopback");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror"])
        .arg(package().join("tests/loopback.c"))
        .arg("-o")
        .arg(&program)
        .args(flags.split_whitespace())
        .arg(format!("-Wl,-rpath,{}", prefix.join("lib").display()))
        .output();
    well(compiled.unwrap());

    let mut server =
        Server(Command::new(&program).arg("server").stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let (port, key) = line.trim().split_once(' ').unwrap();
    let file = directory.path().join("file");
    let octets: Vec<u8> =
        (0..2_000_000u32).map(|place| (place.wrapping_mul(7) >> 3) as u8).collect();
    std::fs::write(&file, octets).unwrap();
    let client = Command::new(&program).args(["client", port, key]).arg(&file).output();
    assert_eq!(well(client.unwrap()), "all well\n");
    assert!(server.0.wait().unwrap().success());
}

#[test]
fn the_header_names_what_the_library_exports() {
    let header = std::fs::read_to_string(package().join("include/dtp.h")).unwrap();
    let declared: BTreeSet<&str> = header
        .lines()
        .filter(|line| line.ends_with(");"))
        .filter_map(|line| line.split('(').next()?.split_whitespace().last())
        .map(|name| name.trim_start_matches('*'))
        .collect();
    let library = library_folder().join("libheddle_dtp_capi.so");
    let listing = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().unwrap();
    let listing = well(listing);
    let exported: BTreeSet<&str> = listing
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .filter(|symbol| symbol.starts_with("dtp_"))
        .collect();
    assert_eq!(declared.len(), 20);
    assert_eq!(declared, exported);
}
