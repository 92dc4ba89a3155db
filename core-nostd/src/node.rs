//! The contract between protocol state and whatever moves frames.
//!
//! Protocol state is sans-IO: it has no clock, no socket and no buffer of its own. An engine (a DPDK
//! core, an AF_XDP loop, the simulator of the tests) owns the frames and calls [`Node::receive`] for
//! each frame that came in and [`Node::poll`] when [`Node::deadline`] has passed. The state answers
//! each frame with a [`Verdict`] and may ask the engine for further frames to fill and send.
//!
//! One core's state is one core's: nothing here is shared between threads, so nothing is locked.

use core::time::Duration;

/// Frames that an engine hands over in one burst, at most.
pub const BURST: usize = 32;

/// Ports that one node can have, at most ([`PortSet`] holds one bit for each).
pub const MAX_PORTS: usize = 32;

/// A moment in nanoseconds since an origin that the engine chooses. It never runs backwards.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The engine's origin of time.
    pub const ZERO: Self = Self(0);

    /// A moment `nanoseconds` after the engine's origin.
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// Nanoseconds since the engine's origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to this moment; zero when `earlier` is in fact later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The moment `duration` later; the end of time when that does not fit.
    pub const fn after(self, duration: Duration) -> Self {
        let nanoseconds = duration.as_secs().saturating_mul(1_000_000_000);
        Self(self.0.saturating_add(nanoseconds.saturating_add(duration.subsec_nanos() as u64)))
    }
}

/// A port of a node: a number below [`MAX_PORTS`] that the engine gives.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u8);

/// A set of ports, one bit for each.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PortSet(u32);

impl PortSet {
    /// The set with no port in it.
    pub const EMPTY: Self = Self(0);

    /// This set and `port`; a port of [`MAX_PORTS`] or more changes nothing.
    #[must_use]
    pub const fn with(self, port: PortId) -> Self {
        match 1u32.checked_shl(port.0 as u32) {
            Some(bit) => Self(self.0 | bit),
            None => self,
        }
    }

    /// This set without `port`.
    #[must_use]
    pub const fn without(self, port: PortId) -> Self {
        match 1u32.checked_shl(port.0 as u32) {
            Some(bit) => Self(self.0 & !bit),
            None => self,
        }
    }

    /// Whether every port of this set is in `other` too.
    pub const fn is_subset_of(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Whether `port` is in the set.
    pub const fn contains(self, port: PortId) -> bool {
        match 1u32.checked_shl(port.0 as u32) {
            Some(bit) => self.0 & bit != 0,
            None => false,
        }
    }

    /// The number of ports in the set.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether no port is in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The ports in the set, lowest first.
    pub fn iter(self) -> impl Iterator<Item = PortId> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            let port = rest.trailing_zeros();
            rest &= rest.wrapping_sub(1);
            (port < 32).then_some(PortId(port as u8))
        })
    }
}

impl FromIterator<PortId> for PortSet {
    fn from_iter<I: IntoIterator<Item = PortId>>(ports: I) -> Self {
        ports.into_iter().fold(Self::EMPTY, Self::with)
    }
}

/// A frame's buffer has no room for what was asked.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// A frame in a buffer that the engine owns: octets from the Ethernet header on, without the FCS.
pub trait Frame {
    /// The frame's octets.
    fn bytes(&self) -> &[u8];

    /// The frame's octets, to change in place.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// Sets the frame's length in octets. Octets that come new at the tail hold anything.
    ///
    /// # Errors
    /// [`NoRoom`] when the buffer ends before; the frame is then as it was.
    fn resize(&mut self, len_octets: usize) -> Result<(), NoRoom>;

    /// Moves the first octet: a positive count grows the frame into its headroom, a negative one strips octets.
    ///
    /// # Errors
    /// [`NoRoom`] when the headroom or the frame is too short; the frame is then as it was.
    fn move_head(&mut self, octets: isize) -> Result<(), NoRoom>;
}

/// What protocol state can ask of the engine that drives it.
pub trait Engine {
    /// The engine's frames.
    type Frame: Frame;

    /// An empty frame (length 0) to fill, or nothing when the engine has none left. The state counts that as a drop.
    fn allocate(&mut self) -> Option<Self::Frame>;

    /// Sends `frame` out on `port`. What a full queue does with it is the engine's affair, and its counter.
    fn transmit(&mut self, port: PortId, frame: Self::Frame);

    /// Sends `frame` out on each of `ports`. An engine that can share one buffer between ports should.
    fn replicate(&mut self, ports: PortSet, frame: Self::Frame) {
        let mut ports = ports.iter().peekable();
        while let Some(port) = ports.next() {
            if ports.peek().is_none() {
                self.transmit(port, frame);
                return;
            }
            if let Some(mut copy) = self.allocate()
                && copy.resize(frame.bytes().len()).is_ok()
            {
                copy.bytes_mut().copy_from_slice(frame.bytes());
                self.transmit(port, copy);
            }
        }
    }
}

/// What becomes of a frame that was handed to a node. `R` is the node's reason to drop, also the name of a counter.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Verdict<R> {
    /// Send this very frame, as the node has left it, out on the port.
    Forward(PortId),
    /// Free the frame; the node has counted the reason.
    Drop(R),
    /// Free the frame; the node has taken from it what it needs.
    Consumed,
}

/// Protocol state that lives on one core.
pub trait Node {
    /// Why a frame is dropped.
    type DropReason: Copy;

    /// The names of [`Node::counters`], in their order.
    const COUNTER_NAMES: &'static [&'static str];

    /// Takes one frame that came in on `port`.
    fn receive<E: Engine>(
        &mut self,
        now: Instant,
        port: PortId,
        frame: &mut E::Frame,
        engine: &mut E,
    ) -> Verdict<Self::DropReason>;

    /// Takes frames that came in on `port`, in their order, and says in `verdicts` what becomes of each: as many as the shorter of the two
    /// slices. State that knows how to work on several frames at once is faster this way.
    fn receive_burst<E: Engine>(
        &mut self,
        now: Instant,
        port: PortId,
        frames: &mut [E::Frame],
        verdicts: &mut [Verdict<Self::DropReason>],
        engine: &mut E,
    ) {
        for (frame, verdict) in frames.iter_mut().zip(verdicts) {
            *verdict = self.receive(now, port, frame, engine);
        }
    }

    /// Does what has become due: paced sending, time-outs. Calling it early or often does no harm.
    fn poll<E: Engine>(&mut self, now: Instant, engine: &mut E);

    /// When [`Node::poll`] next has something to do, if ever without a further frame.
    fn deadline(&self) -> Option<Instant>;

    /// All counters since the start, in the order of [`Node::COUNTER_NAMES`].
    fn counters(&self) -> &[u64];
}
