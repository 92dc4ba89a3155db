//! The kernel's TCP and MPTCP.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use socket2::{Domain, Protocol, Socket, Type};

use super::{Role, client, ready, server};

/// `congestion` is the kernel's name; without it the connection may have several paths.
pub fn run(congestion: Option<&[u8]>, address: SocketAddr, role: Role) -> io::Result<Instant> {
    let protocol = if congestion.is_some() { Protocol::TCP } else { Protocol::MPTCP };
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(protocol))?;
    if let Some(name) = congestion {
        socket.set_tcp_congestion(name)?;
    }
    match role {
        Role::Server => {
            socket.set_reuse_address(true)?;
            socket.bind(&address.into())?;
            socket.listen(1)?;
            ready();
            let (socket, _) = socket.accept()?;
            server(&mut TcpStream::from(socket))
        }
        Role::Client(task) => {
            socket.connect(&address.into())?;
            client(&mut TcpStream::from(socket), task)
        }
    }
}
