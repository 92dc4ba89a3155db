//! What every engine and tool shares off the packet path.
//!
//! - [`config`]: `heddle.toml`, read, checked and written;
//! - [`metrics`]: what an engine counted, as JSON and as a table;
//! - [`control`]: finds running engines and asks them;
//! - [`logs`]: messages on stderr;
//! - [`program`]: programs that a controller sends and that switches match packets by;
//! - [`units`]: numbers and tables for people.

pub mod config;
pub mod control;
pub mod logs;
pub mod metrics;
pub mod program;
pub mod units;
