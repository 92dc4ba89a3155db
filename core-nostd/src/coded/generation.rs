//! The memory of generations (section III.C): a fixed number of equal places in octets that the caller gave.

use super::header::CodedHeader;
use super::list::{List, Neighbours, Slot};
use super::settings::Settings;
use crate::gf::{Gf256, Rows, RowsMut};
use crate::node::{Instant, MAX_PORTS, PortSet};
use crate::rlnc::{DecoderState, RecoderState};
use crate::wire::{Ipv4Fields, Ipv4Flags};

/// What a place's octets hold.
#[derive(Copy, Clone, Debug)]
pub(super) enum Coding {
    /// The original blocks, at a source: so many of them, one to a row of [`BlockRows`].
    Source {
        /// Blocks held.
        blocks: u8,
    },
    /// Innovative packets, at a forwarder.
    Forwarder(RecoderState<Gf256>),
    /// Innovative packets and how to solve for the blocks, at a destination.
    Destination(DecoderState<Gf256>),
}

/// The state of one generation beside its octets.
#[derive(Clone, Debug)]
pub struct Generation {
    /// The header that all its packets share.
    pub(super) header: CodedHeader,
    /// The IP header's fields of the newest packet, with the lowest TTL seen.
    pub(super) ip: Ipv4Fields,
    /// The session's place in the session table.
    pub(super) session: u16,
    /// The ports that packets of it came in on.
    pub(super) seen_on: PortSet,
    /// Until when it is held back, at most, for all inputs to bring something.
    pub(super) held_back: Option<Instant>,
    /// Its place among the generations that are held back.
    pub(super) holding: Neighbours,
    /// What is held of it (`gen_buf_pointer` points there).
    pub(super) coding: Coding,
    /// `gen_last_updated_time`: when the newest innovative packet came.
    pub(super) gen_last_updated_time: Instant,
    /// Its place among the session's generations, in the order of `gen_last_updated_time`.
    pub(super) by_update: Neighbours,
    /// The links that have not yet sent what the newest packet brought.
    pub(super) fresh_on: PortSet,
    pub(super) fresh: [Neighbours; MAX_PORTS],
    /// The links that remember that it owes them packets.
    pub(super) owing_on: PortSet,
    /// Packets sent on each link.
    pub(super) sent: [u8; MAX_PORTS],
}

impl Generation {
    /// A place that holds no generation, to make [`super::Memory`] from.
    pub const fn vacant() -> Self {
        Self {
            header: CodedHeader::VACANT,
            ip: Ipv4Fields {
                traffic_class: 0,
                identification: 0,
                flags: Ipv4Flags::empty(),
                ttl: 0,
                protocol: 0,
                source: [0; 4],
                destination: [0; 4],
            },
            session: u16::MAX,
            seen_on: PortSet::EMPTY,
            held_back: None,
            holding: Neighbours::NONE,
            coding: Coding::Source { blocks: 0 },
            gen_last_updated_time: Instant::ZERO,
            by_update: Neighbours::NONE,
            fresh_on: PortSet::EMPTY,
            fresh: [Neighbours::NONE; MAX_PORTS],
            owing_on: PortSet::EMPTY,
            sent: [0; MAX_PORTS],
        }
    }

    /// Whether a destination still lacks packets of it.
    pub(super) fn is_undecoded(&self) -> bool {
        matches!(&self.coding, Coding::Destination(decoder) if !decoder.is_complete())
    }

    /// Whether anything of it was sent, or is about to be.
    pub(super) fn was_sent(&self) -> bool {
        !self.fresh_on.is_empty() || self.sent.iter().any(|sent| *sent > 0)
    }

    /// Packets or blocks held.
    pub(super) fn held(&self) -> u8 {
        match &self.coding {
            Coding::Source { blocks } => *blocks,
            Coding::Forwarder(recoder) => recoder.rank(),
            Coding::Destination(decoder) => decoder.rank(),
        }
    }
}

/// The blocks of a generation at a source: rows in the octets of its place.
#[derive(Copy, Clone, Debug)]
pub(super) struct BlockRows {
    stride_octets: usize,
}

impl BlockRows {
    fn new(settings: &Settings) -> Self {
        // An odd number of cache lines: rows at a power-of-two stride would fall on the same few cache sets.
        let lines = settings.max_block_octets().div_ceil(64) | 1;
        Self { stride_octets: lines * 64 }
    }

    /// The first `block_octets` of each row.
    pub fn read<'a>(&self, octets: &'a [u8], block_octets: usize) -> Rows<'a> {
        Rows::new(octets, block_octets, self.stride_octets)
    }

    /// Puts `block` into row `index` and zeros behind it.
    pub fn put(&self, octets: &mut [u8], index: u8, block: &[u8]) -> Option<()> {
        let mut rows = RowsMut::new(octets, self.stride_octets, self.stride_octets);
        let (data, padding) = rows.row_mut(usize::from(index)).split_at_mut_checked(block.len())?;
        data.copy_from_slice(block);
        padding.fill(0);
        Some(())
    }
}

/// Octets of memory that one generation takes under `settings`.
pub fn generation_octets(settings: &Settings) -> usize {
    let (k, block_octets) = (settings.max_generation_size, settings.max_block_octets());
    let source = BlockRows::new(settings).stride_octets * usize::from(k);
    // A decoder's memory holds a recoder's.
    DecoderState::<Gf256>::memory_octets(k, block_octets).max(source).next_multiple_of(64)
}

/// All places for generations of one node.
#[derive(Debug)]
pub(super) struct Pool<'m> {
    pub(super) states: &'m mut [Generation],
    pub(super) block_rows: BlockRows,
    octets: &'m mut [u8],
    place_octets: usize,
    vacant: List,
}

/// Where the list of a session's generations, or that of vacant places, has its neighbours.
pub(super) fn by_update(generation: &mut Generation) -> Option<&mut Neighbours> {
    Some(&mut generation.by_update)
}

impl<'m> Pool<'m> {
    /// As many places as both slices have room for.
    pub fn new(settings: &Settings, states: &'m mut [Generation], octets: &'m mut [u8]) -> Self {
        let place_octets = generation_octets(settings);
        let places = states
            .len()
            .min(octets.len().checked_div(place_octets).unwrap_or(0))
            .min(usize::from(Slot::MAX));
        let mut vacant = List::EMPTY;
        for slot in 0..places {
            vacant.push_back(states, slot as Slot, by_update);
        }
        Self { states, block_rows: BlockRows::new(settings), octets, place_octets, vacant }
    }

    /// Places that hold no generation.
    pub fn vacant(&self) -> u16 {
        self.vacant.len()
    }

    /// Takes a vacant place and puts an empty generation there.
    pub fn take(&mut self) -> Option<Slot> {
        let slot = self.vacant.first()?;
        self.vacant.remove(self.states, slot, by_update);
        *self.states.get_mut(usize::from(slot))? = Generation::vacant();
        Some(slot)
    }

    /// Makes the place of `slot`, which is in no list any more, vacant again.
    pub fn give_back(&mut self, slot: Slot) {
        self.vacant.push_back(self.states, slot, by_update);
    }

    /// The state of a generation.
    pub fn get(&self, slot: Slot) -> Option<&Generation> {
        self.states.get(usize::from(slot))
    }

    /// The state of a generation, to change.
    pub fn get_mut(&mut self, slot: Slot) -> Option<&mut Generation> {
        self.states.get_mut(usize::from(slot))
    }

    /// A generation's state and the octets of its place.
    pub fn parts(&mut self, slot: Slot) -> Option<(&mut Generation, &mut [u8])> {
        let index = usize::from(slot);
        let place =
            self.octets.get_mut(index * self.place_octets..)?.get_mut(..self.place_octets)?;
        Some((self.states.get_mut(index)?, place))
    }
}
