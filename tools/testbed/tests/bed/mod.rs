//! A coded network that stands in namespaces, with a file to carry over it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use heddle_host::metrics::Stats;
use heddle_testbed::hosts::receive::sha256;
use heddle_testbed::layout::Layout;
use heddle_testbed::network::Network;
use heddle_testbed::schemes::{
    Coded, CodedOptions, Progress, Transfer, TransferResult, coded_sender_rate,
    programs_beside_this_one, transfer,
};
use heddle_testbed::shutdown::Shutdown;
use heddle_testbed::topology::Topology;
use tempfile::TempDir;

/// Octets of UDP payload in a datagram: with K = 3 the blocks need no padding.
pub const PAYLOAD: usize = 1408;

/// K.
pub const GENERATION_SIZE: u8 = 3;

/// Ethernet octets a second on each link. Engines that no compiler has optimised still keep up on a slow machine.
pub const RATE: u64 = 150_000;

/// Engines at every node of the 22-node network, and a file.
pub struct Bed {
    /// Goes first when this goes: its engines run inside the network.
    pub coded: Coded,
    pub network: Network,
    shutdown: Shutdown,
    programs: PathBuf,
    directory: TempDir,
    file: PathBuf,
    sha256: String,
}

impl Bed {
    /// Lays the network out in namespaces of `prefix`, starts the engines and makes a file of `octets`.
    pub fn new(prefix: &str, octets: usize) -> Self {
        let programs = programs_beside_this_one();
        build_engine(&programs);
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, noise(octets)).unwrap();
        let shutdown = Shutdown::manual();
        let topology = Topology::testbed_22().unwrap().at_rate(RATE).unwrap();
        let network = Network::set_up(Layout::new(topology, prefix), &shutdown).unwrap();
        let options = CodedOptions {
            programs: programs.clone(),
            directory: directory.path().to_path_buf(),
            generation_size: GENERATION_SIZE,
        };
        let coded = Coded::start(&network, options, &shutdown).unwrap();
        let sha256 = sha256(&file).unwrap();
        Self { coded, network, shutdown, programs, directory, file, sha256 }
    }

    /// Carries the file to all hosts; `meanwhile` is called a few times a second.
    pub fn carry(&mut self, mut meanwhile: impl FnMut(&mut Coded, Progress)) -> TransferResult {
        let what = Transfer {
            file: &self.file,
            sha256: &self.sha256,
            payload: PAYLOAD,
            rate: coded_sender_rate(&self.network.layout().topology, PAYLOAD, GENERATION_SIZE),
            programs: &self.programs,
            directory: self.directory.path(),
        };
        let coded = &mut self.coded;
        transfer(&self.network, &what, &self.shutdown, |progress| meanwhile(coded, progress))
            .unwrap()
    }

    /// Ends the engines in good order, and then the network; what the engine of each node has counted in the end. A running
    /// engine publishes its counters only now and then, so that the last ones may be missing there.
    pub fn stop(self) -> BTreeMap<String, Stats> {
        let stats = self.coded.stop().unwrap();
        let nodes: Vec<&str> = self.network.layout().topology.nodes().collect();
        assert_eq!(nodes.len(), stats.len());
        nodes.into_iter().map(str::to_owned).zip(stats).collect()
    }
}

/// cargo builds the programs of this package for its tests, but not those of others.
fn build_engine(programs: &std::path::Path) {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--package", "heddle-dpdk", "--bin", "heddle-dpdk", "--target-dir"])
        .arg(programs.parent().unwrap());
    if programs.ends_with("release") {
        cargo.arg("--release");
    }
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Octets without a pattern that could hide a block in another's place.
fn noise(octets: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(&mut next).flatten().take(octets).collect()
}
