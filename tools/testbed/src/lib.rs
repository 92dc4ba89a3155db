//! Networks of namespaces, the schemes that run on them, and what they measured.

pub mod error;
pub mod topology;

pub use error::{Error, Result};
