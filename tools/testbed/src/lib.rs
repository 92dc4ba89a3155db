//! Networks of namespaces, the schemes that run on them, and what they measured.

pub mod error;
pub mod hosts;
pub mod topology;
pub mod units;

pub use error::{Error, Result};
