//! The core of Heddle: field arithmetic, network coding, the bytes of packets, and protocol state.
//!
//! Everything here is `no_std`, allocates nothing, does no input or output and has no clock: an engine
//! hands frames and the time in ([`node`]). No call panics, whatever the input.
#![cfg_attr(not(test), no_std)]
#![deny(missing_docs, unsafe_code)]

pub mod coded;
pub mod dtp;
pub mod flow;
pub mod gf;
mod named;
pub mod ndn;
pub mod node;
mod prefetch;
pub mod rlnc;
pub mod wire;
