//! What every engine and tool shares off the packet path: configuration, metrics, control, logs.

pub mod config;
