//! A safe layer over DPDK 22.11: EAL, memory pools, mbufs, ports, queues, rings, lcores, telemetry.
//!
//! What the types keep true, so that no caller has to:
//!
//! - EAL starts once in a process ([`Eal`]) and is cleaned up when the last thing made from it is gone.
//! - An [`Mbuf`] is one packet buffer that nobody else can reach. Dropping it frees it; handing it to a
//!   queue or a ring takes it, and what a queue does not take stays in the caller's hands.
//!   [`SharedMbuf`] is the read-only, reference-counted form, to send one buffer out on several ports.
//! - A [`Port`] goes from [`Probed`] to [`Configured`] to [`Started`], and each of its queues is handed
//!   out once, so no queue is ever polled by two threads. A port with queues out cannot be stopped.
//! - A [`Compiler`] compiles match programs, which are confined before and cannot be handed over otherwise.
//! - Errors are sentences: what could not be done, DPDK's reason and its own log lines, and what to try.
//!
//! ```no_run
//! use arrayvec::ArrayVec;
//! use dpdk::{Eal, EalConfig, Mbuf, Memory, Mempool, Port, PortConfig};
//!
//! # fn main() -> Result<(), dpdk::Error> {
//! let eal = Eal::init(&EalConfig::new("example").memory(Memory::WithoutHugepages { mib: 64 }))?;
//! let pool = Mempool::new(&eal, "frames", 4096)?;
//! let port = Port::virtual_device(&eal, "net_null0", "")?;
//! let mut port = port.configure(&PortConfig::default(), &pool)?.start()?;
//! if let (Some(mut rx), Some(mut tx)) = (port.take_rx(0), port.take_tx(0)) {
//!     let mut frames = ArrayVec::<Mbuf, 32>::new();
//!     rx.receive(&mut frames);
//!     tx.send(&mut frames);
//! }
//! # Ok(())
//! # }
//! ```

mod bpf;
mod clock;
mod device;
mod eal;
mod error;
mod lcore;
mod logging;
mod mbuf;
mod mempool;
mod port;
mod queue;
mod ring;
mod telemetry;

pub use bpf::Compiler;
pub use clock::{Tsc, thread_cpu_time};
pub use device::{DeviceInfo, Link, MacAddress, PortStats};
pub use eal::{Eal, EalConfig, LogLevel, Memory, free_hugepages};
pub use error::Error;
pub use lcore::{Lcore, RunningLcore, current_lcore};
pub use mbuf::{Buffer, Mbuf, NoRoom, SharedMbuf};
pub use mempool::Mempool;
pub use port::{Configured, NotStopped, Port, PortConfig, Probed, Started};
pub use queue::{RxQueue, TxQueue};
pub use ring::{
    MultiProducer, Producer, RingReceiver, RingSender, SingleProducer, multi_producer_ring, ring,
};
pub use telemetry::{Dict, Value, register_command};
