//! The ordinary programs at the ends: one writes a file as UDP to a multicast group, one reads it.
//!
//! They know nothing of coding and nothing of the testbed; they work between any two machines that multicast reaches.

pub mod datagram;
pub mod receive;
pub mod send;
