//! The role of an OpenFlow switch.
//!
//! Every worker has all rules, in tables of its own ([`node`], [`memory`]), and its own receive queues; packets meet no lock.
//! One more thread, the [`control`] thread, talks to controllers. It sees the workers as one [`datapath`]: what changes goes to each
//! worker in a ring of [`orders`], and comes back when it is done; frames for controllers come in rings of [`packet_ins`]; rules'
//! [`counters`] are copied when somebody asks. [`programs`] are verified and compiled on the control thread and swapped between
//! two bursts. [`links`] are watched there too.
//!
//! What a worker remembers of packets it remembers alone: the way of a fragmented packet's first fragment, and the choice of a
//! group. Devices with several receive queues keep the frames of one flow in one queue, and so do these.

pub mod control;
pub mod counters;
pub mod datapath;
pub mod links;
pub mod memory;
pub mod node;
pub mod orders;
pub mod packet_ins;
pub mod programs;
mod setup;
