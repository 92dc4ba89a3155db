//! Ways to carry multicast over a network: coded, and by the kernel's own routing along one tree; named data between sites; and a download over DTP beside one over TCP.

mod coded;
pub mod named;
mod ssim;
pub mod tolerant;
mod transfer;

pub use coded::{
    Coded, CodedOptions, coded_frame_octets, configuration, programs_beside_this_one,
    sender_rate as coded_sender_rate,
};
pub use ssim::{Ssim, sender_rate as ssim_sender_rate, ssim_frame_octets};
pub use transfer::{HostResult, Progress, Transfer, TransferResult, transfer};

/// How much of a link's rate a sender fills. There is no feedback, so it must stay below all of it.
pub const LOAD: f64 = 0.985;

/// How much of a link's rate an engine's pacer lets through: more than [`LOAD`], so that it does not hold the sender up, and less
/// than the link, so that no queue builds up there.
pub const PACE: f64 = 0.995;
