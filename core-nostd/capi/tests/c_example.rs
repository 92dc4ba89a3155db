//! The C example is compiled against the header and the library, and run; the header names what the library exports.
#![allow(clippy::unwrap_used, clippy::panic, reason = "this is a test")]

// Makes cargo build the library before this test.
use heddle_coding as _;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where cargo puts libraries and this very program.
fn library_folder() -> PathBuf {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
    assert!(folder.join("libheddle_coding.so").exists(), "no library in {}", folder.display());
    folder
}

#[test]
fn the_c_example_runs() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let libraries = library_folder();
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c_example");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"])
        .arg(package.join("include"))
        .arg(package.join("tests/example.c"))
        .arg("-o")
        .arg(&program)
        .arg(format!("-L{}", libraries.display()))
        .arg("-lheddle_coding")
        .arg(format!("-Wl,-rpath,{}", libraries.display()))
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&program).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert!(String::from_utf8_lossy(&ran.stdout).starts_with("decoded 16 blocks"));
}

#[test]
fn the_header_names_what_the_library_exports() {
    let header = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("include/heddle_coding.h"),
    )
    .unwrap();
    let declared: BTreeSet<&str> = header
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'))
        .filter(|word| word.starts_with("heddle_"))
        .collect();
    let listing = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library_folder().join("libheddle_coding.so"))
        .output()
        .unwrap();
    let listing = String::from_utf8(listing.stdout).unwrap();
    let exported: BTreeSet<&str> = listing
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .filter(|symbol| symbol.starts_with("heddle_"))
        .collect();
    assert!(exported.len() >= 10);
    assert_eq!(declared, exported);
}
