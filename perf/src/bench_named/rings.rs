//! A switch between two ports made of rings, on one lcore.
//!
//! Frames are put into the input ring and taken out of the output ring outside the measured time. Measured is all between: a burst
//! from the driver, the switch, a burst to the driver.

use std::time::Duration;

use arrayvec::ArrayVec;
use dpdk::{
    Eal, Mbuf, Mempool, Port, PortConfig, RingReceiver, RingSender, RxQueue, Tsc, TxQueue,
    thread_cpu_time,
};
use heddle_core::flow::{Programs, Switch};
use heddle_core::node::{BURST, Engine, Instant, Node, PortId, Verdict};
use heddle_dpdk::frame::MbufFrame;
use miette::{IntoDiagnostic, miette};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::interests::Interest;
use super::report::Figure;
use super::tables::{EAST, WEST};
use crate::allocations;

/// Frames that are on their way at a time: as many as testpmd is given.
pub const FRAMES: usize = 1024;

/// Two ports with the outer ends of their rings.
pub struct Rings {
    west: RxQueue,
    east: TxQueue,
    to_west: RingSender<Mbuf>,
    from_east: RingReceiver<Mbuf>,
    /// Keeps the ports started.
    _ports: Vec<Port<dpdk::Started>>,
}

/// Frames for copies, which the rules that are measured never make.
struct Frames<'p>(&'p Mempool);

impl Engine for Frames<'_> {
    type Frame = MbufFrame;

    fn allocate(&mut self) -> Option<MbufFrame> {
        self.0.allocate().map(MbufFrame)
    }

    fn transmit(&mut self, _: PortId, _: MbufFrame) {}
}

impl Rings {
    /// Makes the ports.
    pub fn new(eal: &Eal, pool: &Mempool) -> miette::Result<Self> {
        let ring = |name: &str| dpdk::ring(eal, name, 2 * FRAMES as u32).into_diagnostic();
        let (to_west, input) = ring("to_west")?;
        let (output, from_east) = ring("from_east")?;
        let (unused_output, unused_input) = ring("unused")?;
        let start = |name, rx, tx| -> miette::Result<_> {
            let port = Port::from_rings(eal, name, vec![rx], vec![tx])
                .and_then(|port| port.configure(&PortConfig::default(), pool)?.start());
            port.into_diagnostic()
        };
        let mut ports =
            vec![start("west", input, unused_output)?, start("east", unused_input, output)?];
        let [west, east] = ports.as_mut_slice() else { return Err(miette!("two ports")) };
        let west = west.take_rx(0).ok_or_else(|| miette!("no receive queue"))?;
        let east = east.take_tx(0).ok_or_else(|| miette!("no transmit queue"))?;
        Ok(Self { west, east, to_west, from_east, _ports: ports })
    }

    /// Runs Interests through the switch for so much CPU time. Each has the name of a random one of `names`.
    pub fn measure<P: Programs>(
        &mut self,
        eal: &Eal,
        pool: &Mempool,
        switch: &mut Switch<'_, P>,
        names: u32,
        cpu: Duration,
        figure: &mut Figure,
    ) -> miette::Result<()> {
        let tsc = Tsc::new(eal);
        let mut interest = Interest::new();
        let mut random = SmallRng::seed_from_u64(1);
        // The first fills warm the caches and the branch predictor up.
        let mut warm_up = 32;
        let mut spent = Duration::ZERO;
        while spent < cpu {
            self.fill(pool, || interest.named(random.random_range(0..names)).to_vec())?;
            let before = (allocations::count(), thread_cpu_time());
            let mut left = FRAMES;
            while left > 0 {
                let mut burst = ArrayVec::<Mbuf, BURST>::new();
                let count = self.west.receive(&mut burst);
                if count == 0 {
                    return Err(miette!("frames were lost on their way in"));
                }
                left -= count;
                let now = Instant::from_nanos(tsc.nanoseconds());
                self.east.send(&mut forward(now, pool, switch, burst));
            }
            let time = thread_cpu_time().saturating_sub(before.1);
            let allocated = allocations::count() - before.0;
            let out = self.drain();
            if out != FRAMES {
                return Err(miette!("{FRAMES} frames went in and {out} came out"));
            }
            if warm_up > 0 {
                warm_up -= 1;
                continue;
            }
            spent += time;
            figure.add(FRAMES as u64, time.as_secs_f64(), allocated);
        }
        Ok(())
    }

    fn fill(&mut self, pool: &Mempool, mut frame: impl FnMut() -> Vec<u8>) -> miette::Result<()> {
        for _ in 0..FRAMES {
            let frame = frame();
            let mut one = ArrayVec::<Mbuf, 1>::new();
            let mut mbuf = pool.allocate().ok_or_else(|| miette!("the pool is empty"))?;
            mbuf.append(frame.len()).into_diagnostic()?.copy_from_slice(&frame);
            one.push(mbuf);
            if self.to_west.send(&mut one) != 1 {
                return Err(miette!("the input ring is full"));
            }
        }
        Ok(())
    }

    /// Takes and frees what has come out.
    fn drain(&mut self) -> usize {
        let mut drained = 0;
        loop {
            let mut burst = ArrayVec::<Mbuf, 64>::new();
            match self.from_east.receive(&mut burst) {
                0 => return drained,
                count => drained += count,
            }
        }
    }
}

/// What a worker does between its queues: a burst from the west through the switch. Gives what goes out east.
#[inline]
pub fn forward<P: Programs>(
    now: Instant,
    pool: &Mempool,
    switch: &mut Switch<'_, P>,
    burst: ArrayVec<Mbuf, BURST>,
) -> ArrayVec<Mbuf, BURST> {
    let mut frames: ArrayVec<MbufFrame, BURST> = burst.into_iter().map(MbufFrame).collect();
    let mut verdicts = [const { Verdict::Consumed }; BURST];
    switch.receive_burst(now, WEST, &mut frames, &mut verdicts, &mut Frames(pool));
    let frames = frames.into_iter().zip(&verdicts);
    frames
        .filter(|(_, verdict)| **verdict == Verdict::Forward(EAST))
        .map(|(frame, _)| frame.0)
        .collect()
}
