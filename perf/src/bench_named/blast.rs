//! Frames into a network interface, as many as the kernel takes: what feeds a switch over veth.

use std::fs::File;
use std::io::Write;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::parent_id;

use super::interests::Interest;
use super::setups::PREFIXES;

/// Where to.
#[derive(Debug, clap::Args)]
pub struct BlastArguments {
    /// The interface, by its number.
    #[arg(long)]
    interface: u32,
}

/// Sends Interests until it, or the process that started it, is ended.
///
/// # Errors
/// The socket cannot be made or the interface is gone.
pub fn run(arguments: &BlastArguments) -> std::io::Result<()> {
    let mut socket = packet_socket(arguments.interface)?;
    let mut interest = Interest::new();
    let frames: Vec<_> =
        (0..PREFIXES).map(|number| interest.named(number * 7 % PREFIXES).to_vec()).collect();
    // Whoever started this may end without a word.
    let parent = parent_id();
    while parent_id() == parent {
        for frame in &frames {
            match socket.write(frame) {
                Ok(_) => {}
                // The interface's queue is full: another one will find room.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// A socket that sends whole frames.
fn packet_socket(interface: u32) -> std::io::Result<File> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: 0,
        sll_ifindex: interface as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the call takes numbers only and gives a descriptor that nobody else has, or -1.
    let socket = unsafe {
        match libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) {
            -1 => return Err(std::io::Error::last_os_error()),
            descriptor => OwnedFd::from_raw_fd(descriptor),
        }
    };
    // SAFETY: the address is a sockaddr_ll of the size that is given, and lives until after the call.
    let bound = unsafe {
        libc::bind(
            std::os::fd::AsRawFd::as_raw_fd(&socket),
            (&raw const address).cast(),
            size_of_val(&address) as u32,
        )
    };
    if bound == -1 { Err(std::io::Error::last_os_error()) } else { Ok(File::from(socket)) }
}
