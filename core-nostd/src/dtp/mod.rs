//! DTP, a transport over UDP whose flows have an identity of their own.
//!
//! A flow is named by an id that goes in every packet, not by addresses and ports. When an address changes the
//! flow goes on as soon as the moved end has proven that it holds the flow's secret; while there is no
//! network at all, both ends keep the flow for the keep-alive duration that they agreed on.
//!
//! [`modern`] encrypts and authenticates every packet. [`paper`] is the wire format of the protocol's authors;
//! nothing in it keeps data secret: see its documentation for what it protects and what it does not.
//!
//! Packets, options, frames and parameters are read and written without a check that could panic. The ciphers, hashes and
//! curves are those of well-known crates: no input is known to make them panic, but they keep checks that a compiler cannot remove.

pub mod modern;
pub mod paper;
