//! DTP over kernel sockets.
//!
//! [`DtpStream`] and [`DtpListener`] have the shapes of `std::net::TcpStream` and `TcpListener`, [`asynchronous`] those of tokio's. A stream
//! outlives its network: addresses may change, the link may be away for hours, and reads and writes wait. One thread for each
//! [`Endpoint`] moves datagrams between the kernel and the protocol (`heddle_core::dtp::modern`), with segmentation offload where the kernel has it,
//! and listens to what the kernel says about links and addresses.
//!
//! With [`Settings::tickets`] flows outlive the process too: [`tickets`] says what is kept, [`DtpStream::commit`] keeps it.
//!
//! [`keys`] are the files that ends know each other by, [`files`] serves and fetches files that go on where they stopped, [`cli`] is `heddle dtp`.

pub mod asynchronous;
pub mod cli;
mod driver;
pub mod files;
mod keeper;
pub mod keys;
mod netlink;
mod restored;
mod session;
mod socket;
mod stream;
pub mod tickets;
mod transfer;
mod upload;

pub use driver::{Endpoint, FlowReport, Settings};
pub use heddle_core::dtp::modern::{CloseReason, Congestion};
pub use restored::Rewound;
pub use stream::{Connector, DtpListener, DtpStream, Trust};
