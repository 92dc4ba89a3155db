//! A program of nothing but the core: no operating system, no standard library, no allocator.
//!
//! Its panic handler calls a function that nobody defines. When the linker can drop the handler, no call
//! made here can panic; when any can, the link fails and names the function. `run` builds it and looks at the result.
#![no_std]
#![no_main]

use core::hint::black_box;
use core::time::Duration;
use heddle_core::coded::{
    CodedNode, Cut, Generation, Memory, PortSettings, Role, SendingRule, Session, SessionRule,
    Settings, generation_octets, session_shard, shard,
};
use heddle_core::node::{Engine, Frame, Instant, NoRoom, Node, PortId, PortSet};

unsafe extern "C" {
    fn the_core_can_panic() -> !;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: nobody defines the function, so a program that contains this call is never linked, let alone run.
    unsafe { the_core_can_panic() }
}

/// A frame in a fixed buffer.
struct FixedFrame {
    octets: [u8; 2048],
    len: usize,
}

impl Frame for FixedFrame {
    fn bytes(&self) -> &[u8] {
        self.octets.get(..self.len).unwrap_or_default()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.octets.get_mut(..self.len).unwrap_or_default()
    }

    fn resize(&mut self, len_octets: usize) -> Result<(), NoRoom> {
        if len_octets > self.octets.len() {
            return Err(NoRoom);
        }
        self.len = len_octets;
        Ok(())
    }

    fn move_head(&mut self, _: isize) -> Result<(), NoRoom> {
        black_box(Err(NoRoom))
    }
}

struct Discard;

impl Engine for Discard {
    type Frame = FixedFrame;

    fn allocate(&mut self) -> Option<FixedFrame> {
        Some(FixedFrame { octets: black_box([0; 2048]), len: 0 })
    }

    fn transmit(&mut self, port: PortId, frame: FixedFrame) {
        black_box((port, frame.bytes()));
    }
}

const GENERATIONS: usize = 4;
static mut SESSIONS: [Session; 2] = [Session::new(), Session::new()];
static mut STATES: [Generation; GENERATIONS] = [const { Generation::vacant() }; GENERATIONS];
static mut OCTETS: [u8; 1 << 18] = [0; 1 << 18];

#[unsafe(no_mangle)]
pub extern "C" fn _start() -> ! {
    coded();
    coding();
    names();
    dtp();
    loop {
        core::hint::spin_loop();
    }
}

/// Every entry of the CODED IP node, with settings and frames that the compiler knows nothing of.
fn coded() {
    let settings: Settings =
        black_box(Settings { sending: SendingRule::Paced, ..Settings::default() });
    black_box(generation_octets(&settings));
    // SAFETY: this function runs once, on the only thread there is, and nothing else names these statics.
    let memory = unsafe {
        Memory {
            sessions: &mut *(&raw mut SESSIONS),
            generations: &mut *(&raw mut STATES),
            octets: &mut *(&raw mut OCTETS),
        }
    };
    let outputs: PortSet = black_box(PortSet::EMPTY.with(PortId(1)));
    let cut = black_box(Cut::Packets { flush_after: Duration::from_millis(20) });
    let roles = [
        Role::Source {
            cut,
            generation_size: black_box(3),
            redundancy: black_box(0),
            udp_port: None,
            outputs,
        },
        Role::Forwarder { outputs },
        Role::Destination { cut, deliver: outputs },
    ];
    let rules: [SessionRule; 3] = black_box(roles.map(|role| SessionRule {
        session_id: 1,
        group: [239, 1, 1, 1],
        source: None,
        inputs: PortSet::EMPTY,
        role,
    }));
    let ports: &[PortSettings] =
        black_box(&[PortSettings { mac: [2; 6], octets_per_second: Some(45_000) }; 2]);
    let Ok(mut node) = CodedNode::new(settings, ports, &rules, memory) else { return };
    let mut frame = FixedFrame { octets: [0; 2048], len: 0 };
    loop {
        let now = Instant::from_nanos(black_box(0));
        frame.len = black_box(0);
        black_box(&mut frame.octets);
        black_box(node.receive(now, PortId(black_box(0)), &mut frame, &mut Discard));
        node.poll(now, &mut Discard);
        black_box((node.deadline(), node.counters(), node.counter(black_box("ttl"))));
        black_box((node.sessions(), node.generations()));
        black_box(shard(frame.bytes(), black_box(2)));
        black_box(session_shard(black_box([0; 4]), black_box([0; 4]), black_box(2)));
        if black_box(true) {
            break;
        }
    }
}

mod coding;
mod dtp;
#[cfg(feature = "endpoint")]
mod endpoint;
mod memory;
mod names;
use coding::coding;
use dtp::dtp;
use names::names;
