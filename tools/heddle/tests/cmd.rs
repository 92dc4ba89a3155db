//! Runs the commands in `tests/cmd` and compares what they print; the long pages are only looked into.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;

use assert_cmd::Command;

#[test]
fn the_commands_print_what_the_examples_show() {
    trycmd::TestCases::new().case("tests/cmd/*.trycmd");
}

#[test]
fn each_shell_gets_a_script_that_knows_the_commands() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output =
            Command::cargo_bin("heddle").unwrap().args(["completions", shell]).output().unwrap();
        assert!(output.status.success(), "{shell}");
        let script = String::from_utf8(output.stdout).unwrap();
        for word in ["check", "stats", "--json", "--watch"] {
            // Scripts of fish name options without their dashes.
            let word = if shell == "fish" { word.trim_start_matches('-') } else { word };
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn each_command_has_a_manual_page() {
    let directory = tempfile::tempdir().unwrap();
    let man = |args: &[&str]| {
        let output = Command::cargo_bin("heddle").unwrap().arg("man").args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(man(&[]).contains("heddle\\-check(1)"));
    assert!(man(&["--out", directory.path().to_str().unwrap()]).is_empty());
    let page = fs::read_to_string(directory.path().join("heddle-stats.1")).unwrap();
    assert!(page.contains("Show what running engines have counted"));
}
