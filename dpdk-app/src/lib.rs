//! `heddle-dpdk`: drives Heddle's protocol state with frames of DPDK ports.
//!
//! A frame's way, file by file: [`worker`] takes bursts from the ports and hands each frame to the protocol state, or through a
//! ring to the worker that has its session; [`frame`] is how the state sees an mbuf; [`outbox`] collects what the state sends and
//! gives it to the ports. [`engine`] sets all of that up, runs and stops it; [`settings`] makes the state's settings of a
//! configuration; [`published`] is where counters can be read while the workers run. [`role`] is what differs between the kinds
//! of state: coded sessions, of which each is one worker's, or a [`switch`].

pub mod engine;
pub mod frame;
pub mod outbox;
pub mod published;
pub mod role;
pub mod settings;
pub mod switch;
pub mod worker;
