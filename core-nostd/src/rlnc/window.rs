//! A sliding window: repair of a stream of blocks without generations.
//!
//! Every block of the stream has a number, which counts up from anywhere and wraps at 2^32. The sender keeps the latest blocks, sends each as it comes
//! and now and then a *repair packet*: a sum of consecutive blocks, each times its coefficient. The receiver keeps
//! the equations that it has of the blocks in its window, oldest first, and gives out every block that they determine. When the window moves on, what is
//! too old is given up. The idea is that of RFC 8681 and RFC 9407; the bytes on the wire are left to the caller.

use super::elimination::{BlockSet, check_vector, is_single, leading};
use super::{RlncError, vector_octets};
use crate::gf::{Field, MAX_VECTOR_OCTETS, Rows, RowsMut};
use core::marker::PhantomData;

/// Sizes that both ends share.
#[derive(Copy, Clone, Debug)]
struct Sizes<F> {
    /// Blocks in the window.
    window: u8,
    block_octets: usize,
    field: PhantomData<F>,
}

impl<F: Field> Sizes<F> {
    const fn new(window: u8, block_octets: usize) -> Result<Self, RlncError> {
        if window == 0 {
            return Err(RlncError::KZero);
        }
        if block_octets == 0 {
            return Err(RlncError::BlockLenZero);
        }
        if block_octets > 1 << 31 || (F::BITS == 16 && !block_octets.is_multiple_of(2)) {
            return Err(RlncError::BlockLen);
        }
        Ok(Self { window, block_octets, field: PhantomData })
    }

    /// The place of block `number` in memory. (Across the wrap at 2^32 two blocks of one window could share a place unless the window is a power of
    /// two; so places count from a number that moves with the window.)
    const fn place(&self, number: u32, origin: u32) -> u8 {
        match number.wrapping_sub(origin).checked_rem(self.window as u32) {
            Some(place) => place as u8,
            None => 0,
        }
    }
}

/// The sender's end: the latest blocks of the stream, in memory of the caller.
#[derive(Debug)]
pub struct WindowEncoder<'m, F> {
    sizes: Sizes<F>,
    memory: &'m mut [u8],
    /// The oldest block held.
    first: u32,
    held: u8,
    /// The block at place 0.
    origin: u32,
}

impl<'m, F: Field> WindowEncoder<'m, F> {
    /// Octets of memory for `window` blocks of `block_octets`.
    pub const fn memory_octets(window: u8, block_octets: usize) -> usize {
        (window as usize).saturating_mul(block_octets)
    }

    /// An encoder whose first block will have the number `first`.
    ///
    /// # Errors
    /// [`RlncError::KZero`], [`RlncError::BlockLenZero`], [`RlncError::BlockLen`], [`RlncError::MemoryTooSmall`].
    pub fn new(
        window: u8,
        block_octets: usize,
        first: u32,
        memory: &'m mut [u8],
    ) -> Result<Self, RlncError> {
        let sizes = Sizes::new(window, block_octets)?;
        if memory.len() < Self::memory_octets(window, block_octets) {
            return Err(RlncError::MemoryTooSmall);
        }
        Ok(Self { sizes, memory, first, held: 0, origin: first })
    }

    /// The oldest block held and how many there are from it on.
    pub const fn held(&self) -> (u32, u8) {
        (self.first, self.held)
    }

    /// Takes the next block in, which is to be sent as it is, and gives its number. The oldest one goes when the window is full.
    ///
    /// # Errors
    /// [`RlncError::PayloadLength`].
    pub fn push(&mut self, block: &[u8]) -> Result<u32, RlncError> {
        if block.len() != self.sizes.block_octets {
            return Err(RlncError::PayloadLength);
        }
        let number = self.first.wrapping_add(self.held.into());
        let place = self.sizes.place(number, self.origin);
        let mut rows = RowsMut::packed(self.memory, self.sizes.block_octets);
        let row = rows.row_mut(place.into());
        if row.len() != block.len() {
            return Err(RlncError::MemoryTooSmall);
        }
        row.copy_from_slice(block);
        if self.held < self.sizes.window {
            self.held += 1;
        } else {
            self.advance(1);
        }
        Ok(number)
    }

    /// Forgets the blocks before `number`, because the receiver has them. A number that is not held changes nothing.
    pub fn acknowledge(&mut self, number: u32) {
        let count = number.wrapping_sub(self.first);
        if let Ok(count) = u8::try_from(count)
            && count <= self.held
        {
            self.held -= count;
            self.advance(count);
        }
    }

    fn advance(&mut self, blocks: u8) {
        self.first = self.first.wrapping_add(blocks.into());
        // Keeps the origin near: its distance never wraps.
        while self.first.wrapping_sub(self.origin) >= u32::from(self.sizes.window) {
            self.origin = self.origin.wrapping_add(self.sizes.window.into());
        }
    }

    /// The payload of the repair packet of all blocks held, the oldest first, with the coefficients `vector` (packed, one for each).
    /// The packet must say the number of the oldest and how many there are ([`held`](Self::held)), and the vector or the seed that gives it.
    ///
    /// # Errors
    /// [`RlncError::NothingHeld`], [`RlncError::VectorLength`], [`RlncError::VectorPadding`], [`RlncError::ZeroVector`], [`RlncError::PayloadLength`].
    pub fn repair(&self, vector: &[u8], payload: &mut [u8]) -> Result<(), RlncError> {
        if self.held == 0 {
            return Err(RlncError::NothingHeld);
        }
        check_vector::<F>(vector, self.held)?;
        if vector.iter().all(|octet| *octet == 0) {
            return Err(RlncError::ZeroVector);
        }
        if payload.len() != self.sizes.block_octets {
            return Err(RlncError::PayloadLength);
        }
        let mut placed = [0; MAX_VECTOR_OCTETS];
        for index in 0..self.held {
            let number = self.first.wrapping_add(index.into());
            let place = self.sizes.place(number, self.origin);
            F::set(&mut placed, place.into(), F::get(vector, index.into()));
        }
        let used = vector_octets::<F>(self.sizes.window.into());
        let rows =
            Rows::packed(self.memory, self.sizes.block_octets).first(self.sizes.window.into());
        F::dot(payload, placed.get(..used).unwrap_or_default(), &rows);
        Ok(())
    }
}

/// What a packet was worth to a [`WindowDecoder`].
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum WindowArrival {
    /// It says something new of the blocks in the window.
    Innovative,
    /// It says nothing new.
    Redundant,
    /// All that it speaks of is too old.
    Late,
}

/// The receiver's end: the equations between the blocks in the window, in memory of the caller.
///
/// Blocks come out in order: [`next`](Self::next) gives each block once it is known and all before it have been given or were lost. A block may also
/// be looked at before its turn ([`block`](Self::block)). A block that was given stays in the window, for repair packets that speak of it, until the
/// window moves past it.
///
/// The window moves on whenever a packet speaks of a newer block than it reaches. So a forged packet can move it anywhere: whoever takes packets
/// from strangers authenticates them first.
#[derive(Debug)]
pub struct WindowDecoder<'m, F> {
    sizes: Sizes<F>,
    memory: &'m mut [u8],
    /// The oldest block of the window.
    first: u32,
    /// The next block to be given, not before `first`.
    next: u32,
    /// One after the newest block that any packet spoke of.
    end: u32,
    /// The block at place 0.
    origin: u32,
    /// Places that have a row: the equation whose oldest block is there.
    pivots: BlockSet,
    /// Places whose block is known.
    known: BlockSet,
    /// Blocks given up since the start.
    lost: u64,
}

impl<'m, F: Field> WindowDecoder<'m, F> {
    /// Octets of memory for `window` blocks of `block_octets`.
    pub const fn memory_octets(window: u8, block_octets: usize) -> usize {
        let row = vector_octets::<F>(window as usize).next_multiple_of(64);
        (window as usize + 1).saturating_mul(row.saturating_add(block_octets))
    }

    /// A decoder of a stream whose first block has the number `first`.
    ///
    /// # Errors
    /// [`RlncError::KZero`], [`RlncError::BlockLenZero`], [`RlncError::BlockLen`], [`RlncError::MemoryTooSmall`].
    pub fn new(
        window: u8,
        block_octets: usize,
        first: u32,
        memory: &'m mut [u8],
    ) -> Result<Self, RlncError> {
        let sizes = Sizes::new(window, block_octets)?;
        if memory.len() < Self::memory_octets(window, block_octets) {
            return Err(RlncError::MemoryTooSmall);
        }
        Ok(Self {
            sizes,
            memory,
            first,
            next: first,
            end: first,
            origin: first,
            pivots: BlockSet::EMPTY,
            known: BlockSet::EMPTY,
            lost: 0,
        })
    }

    /// The number of the next block that [`next`](Self::next) will give.
    pub const fn next_number(&self) -> u32 {
        self.next
    }

    /// Blocks given up since the start: the window moved past them, or they were skipped.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    const fn head_octets(&self) -> usize {
        vector_octets::<F>(self.sizes.window as usize).next_multiple_of(64)
    }

    const fn row_octets(&self) -> usize {
        self.head_octets() + self.sizes.block_octets
    }

    /// Takes in block `number` as it was sent. When it is newer than the window reaches, the window moves on and gives up what falls out.
    ///
    /// # Errors
    /// [`RlncError::PayloadLength`].
    pub fn source(&mut self, number: u32, payload: &[u8]) -> Result<WindowArrival, RlncError> {
        let mut one = [0; 2];
        F::set(&mut one, 0, F::ONE);
        let vector = one.get(..vector_octets::<F>(1)).unwrap_or_default();
        self.repair(number, 1, vector, payload)
    }

    /// Takes in a repair packet: the sum of `count` blocks from `number` on with the coefficients `vector` (packed).
    ///
    /// A packet that speaks of a block before the window is of no use and counts as late, whatever else it speaks of.
    ///
    /// # Errors
    /// [`RlncError::OutsideWindow`] when `count` is more than the window or zero; [`RlncError::VectorLength`], [`RlncError::VectorPadding`],
    /// [`RlncError::ZeroVector`], [`RlncError::PayloadLength`].
    pub fn repair(
        &mut self,
        number: u32,
        count: u8,
        vector: &[u8],
        payload: &[u8],
    ) -> Result<WindowArrival, RlncError> {
        if count == 0 || count > self.sizes.window {
            return Err(RlncError::OutsideWindow);
        }
        check_vector::<F>(vector, count)?;
        if payload.len() != self.sizes.block_octets {
            return Err(RlncError::PayloadLength);
        }
        if vector.iter().all(|octet| *octet == 0) {
            return Err(RlncError::ZeroVector);
        }
        // Distances beyond half of all numbers are to blocks before the window.
        if number.wrapping_sub(self.first) >= 1 << 31 {
            return Ok(WindowArrival::Late);
        }
        let end = number.wrapping_add(count.into());
        let reach = end.wrapping_sub(self.first);
        if let Some(beyond) = reach.checked_sub(self.sizes.window.into()) {
            // The packet speaks of no more blocks than the window holds, so its first is within it afterwards.
            self.move_on(beyond);
        }
        if end.wrapping_sub(self.end) < 1 << 31 {
            self.end = end;
        }

        let mut placed = [0; MAX_VECTOR_OCTETS];
        for index in 0..count {
            let place = self.sizes.place(number.wrapping_add(index.into()), self.origin);
            F::set(&mut placed, place.into(), F::get(vector, index.into()));
        }
        Ok(self.insert(&placed, payload))
    }

    /// Eliminates with an equation whose coefficients stand at the places of their blocks.
    fn insert(&mut self, placed: &[u8; MAX_VECTOR_OCTETS], payload: &[u8]) -> WindowArrival {
        let (window, head, octets) = (self.sizes.window, self.head_octets(), self.row_octets());
        let vector_octets = vector_octets::<F>(window.into());
        let Some((rows, work)) = self.memory.split_at_mut_checked(octets * usize::from(window))
        else {
            return WindowArrival::Redundant;
        };
        let Some(work) = work.get_mut(..octets) else { return WindowArrival::Redundant };
        for (to, from) in work.iter_mut().zip(placed) {
            *to = *from;
        }
        for octet in work.iter_mut().take(head).skip(vector_octets) {
            *octet = 0;
        }
        for (to, from) in work.iter_mut().skip(head).zip(payload) {
            *to = *from;
        }
        let mut coefficients = [0; MAX_VECTOR_OCTETS];
        for pivot in self.pivots.iter() {
            F::set(&mut coefficients, pivot.into(), F::get(placed, pivot.into()));
        }
        let used = coefficients.get(..vector_octets).unwrap_or_default();
        F::combine(work, used, &Rows::packed(rows, octets).first(window.into()), true);

        // The oldest block that is left becomes the row's own.
        let start = self.sizes.place(self.first, self.origin);
        let Some(pivot) = (start..window)
            .chain(0..start)
            .find(|place| F::get(work, usize::from(*place)) != F::ZERO)
        else {
            return WindowArrival::Redundant;
        };
        if let Some(inverse) = F::inv(F::get(work, pivot.into())) {
            F::scale(work, inverse);
        }
        let mut coefficients = [0; MAX_VECTOR_OCTETS];
        for row in self.pivots.without(&self.known).iter() {
            let symbol = F::get(Rows::packed(rows, octets).get(row.into()), pivot.into());
            F::set(&mut coefficients, row.into(), symbol);
        }
        let mut rows = RowsMut::packed(rows, octets);
        F::add_outer(&mut rows, coefficients.get(..vector_octets).unwrap_or_default(), work);
        for (to, from) in rows.row_mut(pivot.into()).iter_mut().zip(work.iter()) {
            *to = *from;
        }
        self.pivots.insert(pivot);
        for row in self.pivots.without(&self.known).iter() {
            let vector = rows.row_mut(row.into()).get(..vector_octets).unwrap_or_default();
            if leading::<F>(vector).is_some_and(|(first, _)| is_single::<F>(vector, first)) {
                self.known.insert(row);
            }
        }
        WindowArrival::Innovative
    }

    /// The octets of block `number`, when it is known and in the window.
    pub fn block(&self, number: u32) -> Option<&[u8]> {
        if number.wrapping_sub(self.first) >= self.sizes.window.into() {
            return None;
        }
        let place = self.sizes.place(number, self.origin);
        if !self.known.contains(place) {
            return None;
        }
        Rows::packed(self.memory, self.row_octets()).get(place.into()).get(self.head_octets()..)
    }

    /// Writes the next block in order into `output` and gives its number. Nothing, and `output` as it was, when it is not known yet.
    ///
    /// # Errors
    /// [`RlncError::OutputLength`].
    #[allow(clippy::should_implement_trait, reason = "it fills a buffer and may fail")]
    pub fn next(&mut self, output: &mut [u8]) -> Result<Option<u32>, RlncError> {
        if output.len() != self.sizes.block_octets {
            return Err(RlncError::OutputLength);
        }
        let number = self.next;
        let Some(block) = self.block(number) else { return Ok(None) };
        if block.len() != output.len() {
            return Ok(None);
        }
        output.copy_from_slice(block);
        self.next = number.wrapping_add(1);
        Ok(Some(number))
    }

    /// Gives up the next block because its time is over. False when no packet has spoken of it or of a later one.
    pub fn skip(&mut self) -> bool {
        if self.next == self.end {
            return false;
        }
        self.next = self.next.wrapping_add(1);
        self.lost = self.lost.saturating_add(1);
        true
    }

    /// Moves the window on by `blocks`.
    fn move_on(&mut self, blocks: u32) {
        let window = u32::from(self.sizes.window);
        if blocks >= window {
            self.first = self.first.wrapping_add(blocks);
            self.origin = self.first;
            (self.pivots, self.known) = (BlockSet::EMPTY, BlockSet::EMPTY);
        } else {
            for _ in 0..blocks {
                // Only the row of that block's own has a part of it, since it was the oldest.
                let gone = BlockSet::single(self.sizes.place(self.first, self.origin));
                self.pivots = self.pivots.without(&gone);
                self.known = self.known.without(&gone);
                self.first = self.first.wrapping_add(1);
            }
            if self.first.wrapping_sub(self.origin) >= window {
                self.origin = self.origin.wrapping_add(window);
            }
        }
        let passed = self.first.wrapping_sub(self.next);
        if passed < 1 << 31 {
            self.lost = self.lost.saturating_add(passed.into());
            self.next = self.first;
        }
    }
}
