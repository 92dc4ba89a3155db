//! dtn7, a daemon of the Bundle Protocol (RFC 9171) and its tools: `cargo install` puts them beside this program when they are first asked for.

use std::fs::{File, create_dir_all, remove_dir_all};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The version that was compared.
const VERSION: &str = "0.21.0";

/// It takes two minutes with two cores.
const BUILT_WITHIN: Duration = Duration::from_secs(900);

/// The directory of `dtnd`, `dtnsend`, `dtnrecv` and `dtnquery`; nothing where they cannot be built, which is said once.
pub fn programs() -> Option<&'static PathBuf> {
    static PROGRAMS: OnceLock<Option<PathBuf>> = OnceLock::new();
    PROGRAMS
        .get_or_init(|| build().inspect_err(|why| println!("dtn7: not built: {why}")).ok())
        .as_ref()
}

/// Where they are installed.
fn root() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    Ok(own.with_file_name("heddle-dtn7").join(VERSION))
}

/// The directory if the programs are there.
pub fn installed() -> Result<PathBuf, String> {
    let programs = root()?.join("bin");
    match programs.join("dtnd").exists() {
        true => Ok(programs),
        false => Err(format!("no dtnd in {}", programs.display())),
    }
}

fn build() -> Result<PathBuf, String> {
    // Daemons must not outlive the end that they belong to.
    let ends_with_parent = Command::new("setpriv").arg("--version").output();
    ends_with_parent.map_err(|error| format!("setpriv (util-linux) cannot be run: {error}"))?;
    if let Ok(programs) = installed() {
        return Ok(programs);
    }
    let root = root()?;
    create_dir_all(&root).map_err(|error| format!("{}: {error}", root.display()))?;
    println!("building dtn7 {VERSION}: once, some minutes");
    let (built, log) = (root.join("target"), root.join("build.log"));
    let done = install(&root, &built, &log);
    let _ = remove_dir_all(&built);
    done.and_then(|()| installed())
}

/// Runs `cargo install` with a time limit, all that it says in `log`.
fn install(root: &Path, built: &Path, log: &Path) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
    let mut child = Command::new(cargo)
        .args(["install", "dtn7", "--version", VERSION, "--locked", "--root"])
        .arg(root)
        .arg("--target-dir")
        .arg(built)
        // Those of the workspace are not meant for it.
        .env_remove("RUSTFLAGS")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(output)
        .spawn()
        .map_err(|error| format!("cargo cannot be run: {error}"))?;
    let begin = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if begin.elapsed() < BUILT_WITHIN => {
                std::thread::sleep(Duration::from_millis(100));
            }
            outcome => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(match outcome {
                    Err(error) => format!("cargo cannot be waited for: {error}"),
                    Ok(_) => format!("not done within {} s", BUILT_WITHIN.as_secs()),
                });
            }
        }
    };
    if status.success() {
        return Ok(());
    }
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let first =
        text.lines().find(|line| line.starts_with("error")).unwrap_or("cargo install fails");
    Err(format!("{first} (all of it in {})", log.display()))
}
