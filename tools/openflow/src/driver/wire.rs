//! A socket that does not block, with TLS or without, and what waits to be sent on it.

use mio::net::TcpStream;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;

/// Octets that are read from one socket before the others have their turn.
const READ_OCTETS: usize = 64 * 1024;

/// Why a connection has come to its end.
#[derive(Debug)]
pub(crate) enum End {
    /// The other side says nothing more; it may still listen.
    Finished,
    /// The connection has failed.
    Closed(String),
    /// TLS has failed.
    Tls(String),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Closed(error.to_string())
    }
}

/// What a socket has given.
pub(crate) enum Taken {
    /// Nothing more for now.
    All,
    /// There may be more.
    Some,
}

pub(crate) struct Wire {
    pub stream: TcpStream,
    tls: Option<Box<rustls::Connection>>,
    waiting: VecDeque<u8>,
    /// Octets that have been sent so far, or handed to TLS.
    pub sent: u64,
}

impl Wire {
    pub(crate) fn new(stream: TcpStream, tls: Option<rustls::Connection>) -> Self {
        Self { stream, tls: tls.map(Box::new), waiting: VecDeque::new(), sent: 0 }
    }

    /// Octets that wait to be sent.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn push(&mut self, octets: &[u8]) {
        self.waiting.extend(octets);
    }

    /// Whether there is something to send now that the socket takes octets.
    pub(crate) fn wants_write(&self) -> bool {
        !self.waiting.is_empty() || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Reads what is there, up to a bound.
    pub(crate) fn read(&mut self, take: &mut Vec<u8>) -> Result<Taken, End> {
        let before = take.len();
        let Some(tls) = &mut self.tls else {
            let mut octets = [0; 16 * 1024];
            while take.len() - before < READ_OCTETS {
                match self.stream.read(&mut octets) {
                    Ok(0) => return Err(End::Finished),
                    Ok(count) => take.extend_from_slice(octets.get(..count).unwrap_or_default()),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Taken::All),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error.into()),
                }
            }
            return Ok(Taken::Some);
        };
        while take.len() - before < READ_OCTETS {
            match tls.read_tls(&mut self.stream) {
                Ok(0) => return Err(End::Finished),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Taken::All),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            }
            let state = match tls.process_new_packets() {
                Ok(state) => state,
                Err(error) => {
                    // The alert that says why, as far as the socket takes it: the connection ends in any case.
                    let _ = tls.write_tls(&mut self.stream);
                    return Err(End::Tls(error.to_string()));
                }
            };
            let from = take.len();
            take.resize(from + state.plaintext_bytes_to_read(), 0);
            tls.reader().read_exact(take.get_mut(from..).unwrap_or_default())?;
            if state.peer_has_closed() {
                return Err(End::Finished);
            }
        }
        Ok(Taken::Some)
    }

    /// Sends what the socket takes. Whether all has gone.
    pub(crate) fn write(&mut self) -> Result<bool, End> {
        loop {
            let (first, _) = self.waiting.as_slices();
            let count = match &mut self.tls {
                None if first.is_empty() => return Ok(true),
                None => match self.stream.write(first) {
                    Ok(count) => count,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(error) => return Err(error.into()),
                },
                Some(tls) => {
                    let taken = if first.is_empty() { 0 } else { tls.writer().write(first)? };
                    if taken == 0 && !tls.wants_write() {
                        return Ok(first.is_empty());
                    }
                    match tls.write_tls(&mut self.stream) {
                        Ok(_) => taken,
                        Err(error) if error.kind() == ErrorKind::WouldBlock => {
                            self.take(taken);
                            return Ok(false);
                        }
                        Err(error) if error.kind() == ErrorKind::Interrupted => taken,
                        Err(error) => return Err(error.into()),
                    }
                }
            };
            self.take(count);
        }
    }

    fn take(&mut self, count: usize) {
        self.waiting.drain(..count);
        self.sent += count as u64;
    }

    /// Says that nothing more will be sent.
    pub(crate) fn finish(&mut self) {
        // As far as the socket takes it: the connection ends in any case.
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = tls.write_tls(&mut self.stream);
        }
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}
