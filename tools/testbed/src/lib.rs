//! Networks of namespaces, the schemes that run on them, and what they measured.
//!
//! [`topology`] says what a network is and what it can carry in theory; [`network`] lays it out in namespaces; [`schemes`] carries a file
//! over it, coded or along one tree; [`hosts`] are the ordinary programs at the ends; [`report`] compares and shows; [`cli`] is what a person
//! runs. [`link`] is a single link, with delay and loss.

pub mod cli;
mod cli_link;
mod cli_named;
mod cli_tolerant;
pub mod error;
pub mod hosts;
pub mod layout;
pub mod link;
pub mod namespace;
pub mod network;
pub mod process;
pub mod report;
pub mod schemes;
pub mod shutdown;
pub mod topology;
pub mod units;

pub use error::{Error, Result};
