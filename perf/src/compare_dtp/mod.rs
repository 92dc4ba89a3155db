//! `compare dtp`: DTP beside TCP, MPTCP and quinn, between two network namespaces.

mod ends;
mod site;

pub use ends::{Arguments as EndArguments, run as end};
