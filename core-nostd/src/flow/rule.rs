//! Rules, as they come from outside and as they lie in memory.

use super::fields::Fields;
use super::instructions::Instructions;
use super::programs::ProgramMatch;
use crate::ndn::Name;
use crate::node::Instant;

/// Components that a rule's name can have, at most.
pub const MAX_NAME_COMPONENTS: usize = 64;

/// Octets of a name that lie in its rule; longer ones go on in chunks.
pub(super) const INLINE_NAME_OCTETS: usize = 36;

/// No place.
pub(super) const NONE: u32 = u32::MAX;

/// What a packet must be.
#[derive(Copy, Clone, Debug, Default)]
pub struct Match<'n> {
    /// The values.
    pub fields: Fields,
    /// Their bits that count.
    pub mask: Fields,
    /// A prefix of the packet's name. The root prefix asks for a packet that has a name.
    pub name: Option<Name<'n>>,
    /// What a program must say of the packet. It runs only when all else matches.
    pub program: Option<ProgramMatch>,
}

/// When a rule ends by itself, in seconds; 0 is never.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// Without a packet for so long.
    pub idle_s: u16,
    /// So long after it was added.
    pub hard_s: u16,
}

/// A rule as it is added.
#[derive(Copy, Clone, Debug)]
pub struct Flow<'n, 'i> {
    /// The table it is for.
    pub table: u8,
    /// Higher ones win.
    pub priority: u16,
    /// What it matches.
    pub matching: Match<'n>,
    /// What is done with packets that it matches.
    pub instructions: &'i Instructions,
    /// The controller's own number for it.
    pub cookie: u64,
    /// When it ends.
    pub timeouts: Timeouts,
    /// The controller's flags, kept for it.
    pub flags: u16,
}

/// A rule, for as long as it is there: a handle of a removed one finds nothing.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId {
    pub(super) at: u32,
    pub(super) generation: u32,
}

impl RuleId {
    /// The number of the rule's place among [`super::TableMemory::rules`]; a later rule can have the same.
    pub const fn place(self) -> u32 {
        self.at
    }

    /// How often the place has been freed before the rule got it, modulo 2^32.
    pub const fn generation(self) -> u32 {
        self.generation
    }
}

/// A place for a rule, on memory of the caller: 256 octets. With its share of [`super::RuleBucket`]s (64 octets for every four rules, as
/// recommended), a prefix of up to 36 octets takes 272; a longer one 64 more for every 60 octets beyond.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Rule {
    // The first cache line is what a look-up compares; the second what a packet changes and the fields that most rules name. The
    // others are for those who manage rules.
    pub(super) hash: u64,
    pub(super) name: [u8; INLINE_NAME_OCTETS],
    /// Octets of the name.
    pub(super) name_octets: u16,
    /// The mask and the number of components, by number.
    pub(super) subtable: u16,
    pub(super) more_name: u32,
    /// The next rule of the same bucket, or the next free place.
    pub(super) next: u32,
    /// The next rule that differs in priority or program only: they hang together from the highest priority down.
    pub(super) alike: u32,
    pub(super) priority: u16,
    pub(super) is_live: bool,
    pub(super) has_program: bool,
    pub(super) packets: u64,
    pub(super) octets: u64,
    pub(super) used: Instant,
    pub(super) instructions: u32,
    pub(super) generation: u32,
    pub(super) fields: Fields,
    pub(super) cookie: u64,
    pub(super) added: Instant,
    pub(super) program: Option<ProgramMatch>,
    pub(super) timeouts: Timeouts,
    pub(super) flags: u16,
}

const _: () = assert!(size_of::<Rule>() == 256);

impl Rule {
    /// A free place.
    pub const fn vacant() -> Self {
        Self {
            hash: 0,
            name: [0; INLINE_NAME_OCTETS],
            name_octets: 0,
            subtable: 0,
            more_name: NONE,
            next: NONE,
            alike: NONE,
            priority: 0,
            is_live: false,
            has_program: false,
            fields: Fields::NONE,
            generation: 0,
            instructions: NONE,
            timeouts: Timeouts { idle_s: 0, hard_s: 0 },
            flags: 0,
            cookie: 0,
            program: None,
            packets: 0,
            octets: 0,
            added: Instant::ZERO,
            used: Instant::ZERO,
        }
    }

    /// The rule's priority.
    pub const fn priority(&self) -> u16 {
        self.priority
    }

    /// The controller's number for it.
    pub const fn cookie(&self) -> u64 {
        self.cookie
    }

    /// The values that it matches, zero where they do not count.
    pub const fn fields(&self) -> &Fields {
        &self.fields
    }

    /// What a program must say of packets.
    pub const fn program(&self) -> Option<&ProgramMatch> {
        self.program.as_ref()
    }

    /// When it ends.
    pub const fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    /// The controller's flags.
    pub const fn flags(&self) -> u16 {
        self.flags
    }

    /// Packets that it has matched.
    pub const fn packets(&self) -> u64 {
        self.packets
    }

    /// Octets of those packets.
    pub const fn octets(&self) -> u64 {
        self.octets
    }

    /// When it was added.
    pub const fn added(&self) -> Instant {
        self.added
    }

    /// What rules that are alike are in order of: the highest priority first and, within it, those with a program.
    pub(super) const fn rank(&self) -> (u16, bool) {
        (self.priority, self.has_program)
    }

    /// When it last matched a packet, or when it was added.
    pub const fn used(&self) -> Instant {
        self.used
    }

    /// Whether it has ended by one of its time-outs.
    pub fn has_ended(&self, now: Instant) -> bool {
        let over = |limit_s: u16, since: Instant| {
            limit_s != 0 && now.since(since).as_secs() >= u64::from(limit_s)
        };
        over(self.timeouts.hard_s, self.added) || over(self.timeouts.idle_s, self.used)
    }
}

/// A place for octets of names that are too long for their rules.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct NameChunk {
    pub(super) octets: [u8; CHUNK_OCTETS],
    pub(super) next: u32,
}

/// Octets of a name in each chunk.
pub(super) const CHUNK_OCTETS: usize = 60;

impl NameChunk {
    /// A free place.
    pub const fn vacant() -> Self {
        Self { octets: [0; CHUNK_OCTETS], next: NONE }
    }
}
