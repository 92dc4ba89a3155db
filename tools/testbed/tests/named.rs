//! Three sites of named data with applications of others, under either controller and with either kind of switch. These tests need root.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use heddle_testbed::hosts::receive::sha256;
use heddle_testbed::schemes::named::{
    ControllerKind, Matching, Mode, NamedOptions, NamedReport, Places, SITES, Sites, SwitchKind,
    run_named,
};
use heddle_testbed::schemes::programs_beside_this_one;
use heddle_testbed::shutdown::Shutdown;

/// The sites are the same in all tests.
static ALONE: Mutex<()> = Mutex::new(());

const PINGS: u32 = 3;

/// cargo builds the programs of this package for its tests, but not those of others.
fn build(programs: &Path) {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--package", "heddle", "--package", "heddle-dpdk", "--target-dir"])
        .arg(programs.parent().unwrap());
    if programs.ends_with("release") {
        cargo.arg("--release");
    }
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn run(
    controller: ControllerKind,
    switches: SwitchKind,
    modes: &[(Mode, Matching)],
) -> Vec<NamedReport> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let programs = programs_beside_this_one();
    build(&programs);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    let content: Vec<u8> = (0..50_000u32).flat_map(|number| number.to_be_bytes()).collect();
    std::fs::write(&file, content).unwrap();
    let right = sha256(&file).unwrap();
    let places = Places {
        applications: programs.join("../named"),
        programs,
        directory: directory.path().to_path_buf(),
    };
    places.prepare().unwrap();
    let shutdown = Shutdown::manual();
    let sites = Sites::set_up("tbnamed", &shutdown).unwrap();
    let mut reports = Vec::new();
    for (mode, matching) in modes {
        let options =
            NamedOptions { mode: *mode, matching: *matching, controller, switches, pings: PINGS };
        let report =
            run_named(&sites, &places, &options, (&file, &right), &shutdown, |_| {}).unwrap();
        assert!(report.right, "{report:#?}");
        assert_eq!(report.pairs.len(), SITES.len() * (SITES.len() - 1));
        assert!(report.announcements > 0, "names come from the islands");
        reports.push(report);
    }
    reports
}

const BOTH: [(Mode, Matching); 2] =
    [(Mode::Proactive, Matching::Program), (Mode::Reactive, Matching::Name)];

fn interests(reports: &[NamedReport]) -> Vec<u64> {
    reports.iter().map(|report| report.interests_at_controller).collect()
}

#[test]
fn our_controller_joins_sites_by_our_switches() {
    let reports = run(ControllerKind::Heddle, SwitchKind::Heddle, &BOTH);
    assert_eq!(
        interests(&reports),
        [0, 6],
        "none in proactive mode, one for each new prefix in reactive mode"
    );
    // Flows went to no switch twice.
    for report in &reports {
        assert_eq!(report.controller["counters"]["flows_added"], 6);
    }
}

#[test]
fn the_same_application_in_os_ken_does_so_too() {
    let reports = run(ControllerKind::OsKen, SwitchKind::Heddle, &BOTH);
    assert_eq!(interests(&reports), [0, 6]);
}

/// It knows no names: each Interest is asked about and goes on all the same.
#[test]
fn either_controller_joins_sites_by_open_vswitch() {
    let modes = [(Mode::Proactive, Matching::Name)];
    for controller in [ControllerKind::Heddle, ControllerKind::OsKen] {
        let reports = run(controller, SwitchKind::OpenVswitch, &modes);
        let least: u64 =
            reports[0].pairs.iter().map(|pair| u64::from(PINGS) + pair.file.segments).sum();
        assert!(interests(&reports)[0] >= least, "{controller:?}");
        assert_eq!(reports[0].flows, [0, 0, 0]);
    }
}
