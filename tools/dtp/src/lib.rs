//! DTP over kernel sockets.
//!
//! [`DtpStream`] and [`DtpListener`] have the shapes of `std::net::TcpStream` and `TcpListener`, [`asynchronous`] those of tokio's. A stream
//! outlives its network: addresses may change, the link may be away for hours, and reads and writes wait. One thread for each
//! [`Endpoint`] moves datagrams between the kernel and the protocol (`heddle_core::dtp::modern`), with segmentation offload where the kernel has it,
//! and listens to what the kernel says about links and addresses.
//!
//! With [`Settings::tickets`] flows outlive the process too: [`tickets`] says what is kept, [`DtpStream::commit`] keeps it.
//! A server that appends what comes to a file, and may be killed and started again at any moment:
//!
//! ```no_run
//! # fn serve(settings: heddle_dtp::Settings) -> std::io::Result<()> {
//! use heddle_dtp::{DtpListener, Settings};
//! use std::io::{Read, Write};
//!
//! let settings = Settings { tickets: Some("/var/lib/example".into()), ..settings };
//! let listener = DtpListener::bind(([0, 0, 0, 0], 4433).into(), &settings)?;
//! loop {
//!     // Streams of before come first.
//!     let (mut stream, _) = listener.accept()?;
//!     let mut file = std::fs::OpenOptions::new().create(true).append(true).open("what-came")?;
//!     let mut received = stream.received().unwrap_or(0);
//!     // What was written after the last commit comes again.
//!     file.set_len(received)?;
//!     let mut buffer = [0; 65536];
//!     while let count @ 1.. = stream.read(&mut buffer)? {
//!         file.write_all(&buffer[..count])?;
//!         received += count as u64;
//!         file.sync_data()?;
//!         stream.commit(received, b"a note of the application's")?;
//!     }
//! }
//! # }
//! ```
//!
//! [`keys`] are the files that ends know each other by, [`files`] serves and fetches files that go on where they stopped, [`cli`] is `heddle dtp`.

pub mod asynchronous;
pub mod cli;
mod connector;
mod driver;
mod endpoint;
pub mod files;
pub mod gateway;
mod keeper;
pub mod keys;
mod listener;
pub mod live;
mod messages;
mod netlink;
mod outlet;
mod resolve;
mod restored;
mod run;
mod session;
mod settings;
mod shared;
mod socket;
mod stream;
pub mod tickets;
mod transfer;
mod upload;

pub use connector::{Connector, Trust};
pub use endpoint::{Endpoint, FlowReport};
pub use heddle_core::dtp::modern::{CloseReason, Congestion};
pub use listener::DtpListener;
pub use restored::Rewound;
pub use settings::{Settings, Steered};
pub use stream::DtpStream;
