//! What a run is reported as: figures for programs, and text for people.

mod figures;
mod named;
mod text;

pub use figures::{
    Comparison, Conditions, Report, SchemeReport, SwitchBandwidth, Theory, conditions,
    scheme_report, theory,
};
pub use named::{named_control_table, named_picture, named_table};
pub use text::{comparison, host_table, picture, switch_table};
