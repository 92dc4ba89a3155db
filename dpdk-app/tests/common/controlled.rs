//! A switch between rings that is controlled over TCP, and its controllers' side.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dpdk::{Eal, Mempool, Tsc};
use heddle_dpdk::engine::{Engine, Parts};
use heddle_dpdk::switch::control::{self, Control, ControlStats};
use heddle_host::config::Config;
use heddle_host::metrics::Stats;
use heddle_openflow::client::Client;
use heddle_openflow::driver::Settings;
use heddle_openflow::{
    Action, Address, Field, FlowMod, Instruction, Match, Oxm, Parameter, PortNumber, Transport,
};

use super::{Host, name, ports};

/// How long an answer may take on a machine with other things to do.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// What a test of a controlled switch has.
pub struct Bench {
    /// The outer ends of ports a, b and c.
    pub hosts: [Host; 3],
    /// Where the switch listens.
    pub address: SocketAddr,
    published: Arc<heddle_dpdk::published::Published>,
}

impl Bench {
    pub fn client(&self) -> Client {
        Client::connect(&tcp(self.address), None, PATIENCE).unwrap()
    }

    /// What has been counted so far.
    pub fn stats(&self) -> Stats {
        self.published.stats()
    }
}

pub fn tcp(address: SocketAddr) -> Address {
    let (host, port) = (address.ip().to_string(), address.port());
    Address { transport: Transport::Tcp, host, port }
}

/// Runs a switch and its control thread while `test` works on them from another thread. What was counted in the end.
pub fn with_controlled(
    eal: &Eal,
    pool: &Mempool,
    config: &Config,
    settings: impl FnOnce(&mut Settings),
    test: impl FnOnce(&mut Bench) + Send + 'static,
) -> Stats {
    let stop = Arc::new(AtomicBool::new(false));
    let (ports, hosts) = ports(eal, pool);
    let parts = Parts { eal: eal.clone(), pool: pool.clone(), ports };
    let switch = config.switch.as_ref().unwrap();
    let (mut engine, workers) = Engine::switch(config, switch, parts, &stop).unwrap();
    let stats = ControlStats::default();
    engine.published().also_tell(stats.clone());
    let mut all = control::settings(switch);
    // Whatever port is free.
    all.listen = vec!["tcp:127.0.0.1:0".parse().unwrap()];
    settings(&mut all);
    let control = Control {
        workers,
        settings: all,
        agent: control::agent(config, switch, &[[2, 0, 0, 0, 0, 0xa]; 3]),
        tsc: Tsc::new(eal),
        cpus: None,
        stats,
        stop: Arc::clone(&stop),
    };
    let (thread, addresses) = control.start().unwrap();
    engine.set_companion(thread);
    let mut bench = Bench { hosts, address: addresses[0], published: engine.published() };
    /// Stops the engine whatever becomes of the test.
    struct StopOnDrop(Arc<AtomicBool>);
    impl Drop for StopOnDrop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let outside = {
        let stop = StopOnDrop(Arc::clone(&stop));
        std::thread::spawn(move || {
            let _stop = stop;
            test(&mut bench);
        })
    };
    let stats = engine.run(&stop).unwrap();
    if let Err(panic) = outside.join() {
        eprintln!("{}", stats.tables());
        std::panic::resume_unwind(panic);
    }
    stats
}

pub fn output(port: u32) -> Action {
    Action::Output { port: PortNumber(port), max_len: 0xffff }
}

pub fn set_ipv4_destination(address: [u8; 4]) -> Action {
    Action::SetField(Oxm::Basic { field: Field::Ipv4Dst, value: address.to_vec(), mask: None })
}

/// A flow of table 0.
pub fn flow(priority: u16, fields: Vec<Oxm>, actions: Vec<Action>) -> FlowMod {
    FlowMod::add(0, priority, Match { fields }, vec![Instruction::ApplyActions(actions)])
}

pub fn in_port(port: u32) -> Oxm {
    Oxm::Basic { field: Field::InPort, value: port.to_be_bytes().to_vec(), mask: None }
}

pub fn under(components: &[&str]) -> Oxm {
    Oxm::Name(name(components))
}

/// What a program must return.
pub fn verdict(program: u32, result: u64) -> Oxm {
    Oxm::Program { program, result, masks: None, parameter: Parameter::NONE }
}

/// A program that returns a number after some instructions without effect.
pub fn program(result: i32, idle: usize) -> Vec<u8> {
    let mov = |register: u8, value: i32| {
        let mut instruction = vec![0xb7, register, 0, 0];
        instruction.extend(value.to_le_bytes());
        instruction
    };
    let mut code: Vec<u8> = (0..idle).flat_map(|at| mov(1, at as i32)).collect();
    code.extend(mov(0, result));
    code.extend([0x95, 0, 0, 0, 0, 0, 0, 0]);
    code
}
