//! The memory that a program runs on: one block for each program and parameter, prepared when the parameter is set.
//!
//! | octets from the beginning | what | who writes it |
//! |---|---|---|
//! | 0 | u64 address of the packet | the switch, for each run |
//! | 8 | u64 octets of the packet | the switch, for each run |
//! | 16 | u64 fault: 0 none, 1 an access outside, 2 the budget of instructions is used up, 3 unrolled loops are not long enough | the program's checks |
//! | 24 | u64 octets of context and parameter | when the parameter is set |
//! | 32 | 16 words that the checks use | the program's checks |
//! | 160 | 512 octets: the program's stack | the program |
//! | 672 | 40 octets: the context | below |
//! | 712 | the parameter | when it is set |
//!
//! A program sees the last two as its context, with addresses that mean nothing to the machine. All numbers are in the machine's order:
//!
//! | offset in the context | what |
//! |---|---|
//! | 0 | u8 the table |
//! | 4 | u32 the port that the packet came in on, by its OpenFlow number: from 1 on, 0xffff_fffd for the controller |
//! | 8 | u8 octets of the parameter; 255 where it has more |
//! | 12 | u32 octets of the parameter |
//! | 16 | u64 octets of the packet |
//! | 24 | u64 pointer to the parameter |
//! | 32 | u64 pointer to the packet, which begins with its Ethernet header |

use heddle_core::flow::ProgramPlace;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Octets of a parameter, at most: an NDN packet's.
pub const MAX_PARAMETER: usize = 8800;
/// Octets of a packet, at most.
pub const MAX_PACKET: usize = 65_535;

/// Octets of the context.
pub(super) const CONTEXT: i64 = 40;
/// Where in the context the length of the packet is.
pub(super) const PACKET_LENGTH: i64 = 16;
/// Where in the context the pointer to the parameter is.
pub(super) const PARAMETER_POINTER: i64 = 24;
/// Where in the context the pointer to the packet is.
pub(super) const PACKET_POINTER: i64 = 32;

/// Where in a block the packet's address is.
pub(super) const AT_PACKET: i16 = 0;
/// Where in a block the packet's length is.
pub(super) const AT_LENGTH: i16 = 8;
/// Where in a block a fault is noted.
pub(super) const AT_FAULT: i16 = 16;
/// Where in a block the length of context and parameter is.
pub(super) const AT_CONTEXT_LENGTH: i16 = 24;
/// Where in a block the checks' own words are.
pub(super) const AT_SCRATCH: i16 = 32;
/// Where in a block the stack ends, which is where R10 points.
pub(super) const AT_STACK_END: i16 = 672;
/// Where in a block the context is.
pub(super) const AT_CONTEXT: i16 = 672;

/// The controller as a port (OpenFlow 1.3.5, A.2.1).
const CONTROLLER: u32 = 0xffff_fffd;

/// Words before the parameter.
const HEAD: usize = 89;

/// What a program takes for the address of its context. Addresses count modulo 2^31.
pub(super) const CONTEXT_ADDRESS: u32 = 0x4000_0000;
/// What a program takes for the address of the packet: 0 modulo 2^31.
pub(super) const PACKET_ADDRESS: u32 = 0x8000_0000;
/// What a program takes for the end of its stack.
pub(super) const STACK_ADDRESS: u32 = 0x6000_0000;

/// The memory of one program with one parameter.
#[derive(Debug)]
pub struct Block {
    // Programs write here through an address, so the words are atomic: nothing may be assumed of them.
    words: Box<[AtomicU64]>,
}

impl Block {
    /// A block with this parameter; nothing if it is longer than [`MAX_PARAMETER`].
    pub fn new(parameter: &[u8]) -> Option<Self> {
        if parameter.len() > MAX_PARAMETER {
            return None;
        }
        let length = u32::try_from(parameter.len()).ok()?;
        let words: Box<[AtomicU64]> =
            (0..HEAD + parameter.len().div_ceil(8)).map(|_| AtomicU64::new(0)).collect();
        let block = Self { words };
        block.set(word(AT_CONTEXT_LENGTH), u64::from(length) + CONTEXT.cast_unsigned());
        block.set(word(AT_CONTEXT) + 3, u64::from(CONTEXT_ADDRESS) + CONTEXT.cast_unsigned());
        block.set(word(AT_CONTEXT) + 4, u64::from(PACKET_ADDRESS));
        let short = u8::try_from(length).unwrap_or(u8::MAX);
        block.set(word(AT_CONTEXT) + 1, native(&[short, 0, 0, 0], &length.to_ne_bytes()));
        for (place, octets) in block.words.iter().skip(HEAD).zip(parameter.chunks(8)) {
            let mut word = [0; 8];
            for (to, from) in word.iter_mut().zip(octets) {
                *to = *from;
            }
            place.store(u64::from_ne_bytes(word), Relaxed);
        }
        Some(block)
    }

    /// Octets of memory that it takes.
    pub fn octets(&self) -> usize {
        self.words.len() * 8
    }

    /// Sets the block up for a packet; nothing if that has more than [`MAX_PACKET`] octets.
    pub fn arm<'p>(&'p mut self, place: ProgramPlace, packet: &'p [u8]) -> Option<Armed<'p>> {
        if packet.len() > MAX_PACKET {
            return None;
        }
        let length = packet.len() as u64;
        // An address that is handed to code which the compiler does not see: its provenance is exposed.
        self.set(word(AT_PACKET), packet.as_ptr().expose_provenance() as u64);
        self.set(word(AT_LENGTH), length);
        self.set(word(AT_FAULT), 0);
        let in_port = match place.in_port.0 {
            u8::MAX => CONTROLLER,
            port => u32::from(port) + 1,
        };
        self.set(word(AT_CONTEXT), native(&[place.table, 0, 0, 0], &in_port.to_ne_bytes()));
        self.set(word(AT_CONTEXT) + 2, length);
        Some(Armed { block: self, packet })
    }

    fn set(&self, index: usize, value: u64) {
        if let Some(word) = self.words.get(index) {
            word.store(value, Relaxed);
        }
    }
}

/// The number of the word at this place in a block.
const fn word(at: i16) -> usize {
    at.unsigned_abs() as usize / 8
}

/// Two halves of a word, as they lie in memory.
fn native(first: &[u8; 4], second: &[u8; 4]) -> u64 {
    let [a, b, c, d] = *first;
    let [e, f, g, h] = *second;
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

/// A block that says where one packet is. While it is there the packet stays where it is, and the block is nobody else's.
#[derive(Debug)]
pub struct Armed<'p> {
    block: &'p mut Block,
    packet: &'p [u8],
}

impl Armed<'_> {
    /// The address of the block, which is the program's argument. Its provenance is exposed.
    pub fn address(&self) -> usize {
        self.block.words.as_ptr().expose_provenance()
    }

    /// Octets of the block.
    pub fn octets(&self) -> usize {
        self.block.octets()
    }

    /// The packet.
    pub fn packet(&self) -> &[u8] {
        self.packet
    }

    /// Whether a compiled program's loops were not long enough, so that the interpreter has to run it. If so, the block is as it was before the run.
    pub fn begins_again(&self) -> bool {
        let again =
            self.block.words.get(word(AT_FAULT)).is_some_and(|word| word.load(Relaxed) == 3);
        if again {
            self.block.set(word(AT_FAULT), 0);
        }
        again
    }

    /// What went wrong in the run, if anything.
    pub fn fault(&self) -> Option<Fault> {
        match self.block.words.get(word(AT_FAULT)).map(|word| word.load(Relaxed)) {
            Some(0) => None,
            Some(2) => Some(Fault::Budget),
            _ => Some(Fault::Outside),
        }
    }
}

/// Why a run of a program came to nothing.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It read outside the packet, the context and the parameter.
    Outside,
    /// It went round its loops too often.
    Budget,
}
