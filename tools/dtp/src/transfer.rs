//! The two directions of a transfer that goes on after a restart: what can be written again, and what is kept.

use crate::restored::Rewound;
use crate::stream::DtpStream;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Octets that are copied at a time.
pub(crate) const PIECE: usize = 256 << 10;

/// What came is synced and committed after this, or after some times what it takes, if that is more.
const COMMIT_EVERY: Duration = Duration::from_millis(250);
const COMMIT_SHARE: u32 = 4;

/// Everything that an end writes to a stream: lines around a part of a file. It can be written from any place on.
#[derive(Default)]
pub(crate) struct Outgoing {
    pub head: Vec<u8>,
    /// A file, where the part begins and its octets.
    pub file: Option<(File, u64, u64)>,
    pub tail: Vec<u8>,
    /// The direction is at its end behind the tail.
    pub ends: bool,
    /// How much of it has been written.
    pub position: u64,
    /// The peer has all of it, whatever is added.
    pub complete: bool,
}

impl Outgoing {
    fn total(&self) -> u64 {
        let file = self.file.as_ref().map_or(0, |(_, _, octets)| *octets);
        self.head.len() as u64 + file + self.tail.len() as u64
    }

    /// Octets of the file that have been written.
    pub fn of_file(&self) -> u64 {
        let most = self.file.as_ref().map_or(0, |(_, _, octets)| *octets);
        self.position.saturating_sub(self.head.len() as u64).min(most)
    }

    /// The octets from `position` on, as many as `buffer` has room for.
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let head = self.head.len() as u64;
        if let Some(rest) = self.head.get(self.position as usize..).filter(|rest| !rest.is_empty())
        {
            return (&*rest).read(buffer);
        }
        let mut behind = self.position - head;
        if let Some((file, start, octets)) = &self.file {
            if behind < *octets {
                let most = usize::try_from(octets - behind).unwrap_or(usize::MAX).min(buffer.len());
                let place = buffer.get_mut(..most).unwrap_or(&mut []);
                return match file.read_at(place, start + behind)? {
                    0 => {
                        Err(io::Error::new(ErrorKind::UnexpectedEof, "the file has become shorter"))
                    }
                    count => Ok(count),
                };
            }
            behind -= octets;
        }
        self.tail.get(behind as usize..).unwrap_or(&[]).read(buffer)
    }

    /// Writes all of it, from where it stands, and again what a restart asks for. `each` is called now and then.
    pub fn send(
        &mut self,
        mut stream: &DtpStream,
        each: &mut dyn FnMut(&Self) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut buffer = vec![0; PIECE];
        while !self.complete {
            if self.position >= self.total() {
                if !self.ends {
                    return Ok(());
                }
                if self.position > self.total() {
                    let what = "the peer has got more than there is";
                    return Err(io::Error::new(ErrorKind::InvalidData, what));
                }
                match stream.shutdown(Shutdown::Write) {
                    Err(error) => self.rewind(error)?,
                    Ok(()) => return Ok(()),
                }
            }
            let start = self.position;
            let count = self.read(&mut buffer)?;
            let mut rest = buffer.get(..count).unwrap_or(&[]);
            while !rest.is_empty() && self.position >= start {
                match stream.write(rest) {
                    Ok(written) => {
                        rest = rest.get(written..).unwrap_or(&[]);
                        self.position += written as u64;
                    }
                    Err(error)
                        if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::TimedOut) => {
                    }
                    Err(error) => {
                        self.rewind(error)?;
                        break;
                    }
                }
                each(self)?;
            }
        }
        Ok(())
    }

    /// Goes to where an error says that writing has to begin again. That may be behind what is there yet: an earlier process has written it.
    pub fn rewind(&mut self, error: io::Error) -> io::Result<()> {
        match Rewound::of(&error) {
            Some(Rewound { offset }) => {
                tracing::debug!(offset, from = self.position, "written again");
                self.position = offset;
                Ok(())
            }
            None => Err(error),
        }
    }

    /// A stream out of a ticket: waits until the peer has said from where it needs what this end writes.
    pub fn resume(
        &mut self,
        stream: &DtpStream,
        each: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        loop {
            match stream.await_peer(Duration::from_millis(200)) {
                Ok(Some(offset)) => return self.rewind(Rewound { offset }.error()),
                Ok(None) => {
                    self.complete = true;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::TimedOut => each()?,
                Err(error) => return Err(error),
            }
        }
    }
}

/// What comes over a stream, beside what goes out over it.
pub(crate) struct Incoming<'s> {
    pub stream: &'s DtpStream,
    pub out: Outgoing,
    /// What goes out is short: it is written again at once if need be. Otherwise the reader is told, and has to do it.
    pub writes_again: bool,
}

impl Read for Incoming<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match { self.stream }.read(buffer) {
                Err(error) if self.writes_again && Rewound::of(&error).is_some() => {
                    self.out.rewind(error)?;
                    self.out.send(self.stream, &mut |_| Ok(()))?;
                }
                other => return other,
            }
        }
    }
}

impl Incoming<'_> {
    /// Stays until the peer has what was sent and says goodbye: should it restart, it may need the last octets again.
    pub fn linger(&mut self) -> io::Result<()> {
        self.stream.set_read_timeout(None);
        self.writes_again = true;
        let mut buffer = [0; 512];
        loop {
            match self.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Syncs a file and commits what came of a stream, while more comes.
pub(crate) struct Committer<'a> {
    stream: &'a DtpStream,
    file: File,
    note: Vec<u8>,
    /// Octets of the stream that have been written to the file.
    received: AtomicU64,
    done: Mutex<bool>,
    changed: Condvar,
}

impl<'a> Committer<'a> {
    /// Runs `work`, which gives the stream's octets that it has put into `file` to its argument; what is there at the end is committed too.
    pub fn run<T>(
        stream: &'a DtpStream,
        file: &File,
        note: Vec<u8>,
        received: u64,
        work: impl FnOnce(&dyn Fn(u64)) -> io::Result<T>,
    ) -> io::Result<T> {
        if !stream.keeps_tickets() {
            return work(&|_| ());
        }
        let committer = Committer {
            stream,
            file: file.try_clone()?,
            note,
            received: AtomicU64::new(received),
            done: Mutex::new(false),
            changed: Condvar::new(),
        };
        std::thread::scope(|scope| {
            scope.spawn(|| committer.loop_until_done());
            let result = work(&|received| committer.received.store(received, Ordering::Release));
            *committer.done.lock().unwrap_or_else(PoisonError::into_inner) = true;
            committer.changed.notify_all();
            result
        })
    }

    fn loop_until_done(&self) {
        let mut committed = None;
        let mut wait = Duration::ZERO;
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if !*done {
                done = self
                    .changed
                    .wait_timeout_while(done, wait, |done| !*done)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
            let last = *done;
            drop(done);
            let began = Instant::now();
            let received = self.received.load(Ordering::Acquire);
            if committed != Some(received) {
                let result =
                    self.file.sync_data().and_then(|()| self.stream.commit(received, &self.note));
                match result {
                    Ok(()) => committed = Some(received),
                    // The flow may be gone just now, which the transfer itself will tell.
                    Err(error) if error.kind() == ErrorKind::NotConnected => {}
                    Err(error) => tracing::warn!(%error, "a restart would not go on from here"),
                }
            }
            if last {
                return;
            }
            wait = COMMIT_EVERY.max(began.elapsed() * COMMIT_SHARE);
            done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A note: the request, and numbers that go with it.
pub(crate) fn note(request: &str, numbers: &[u64]) -> Vec<u8> {
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    format!("{request}\n{}", numbers.join(" ")).into_bytes()
}

/// The parts of a note.
pub(crate) fn parse_note<const COUNT: usize>(note: &[u8]) -> io::Result<(String, [u64; COUNT])> {
    let parts = || {
        let (request, numbers) = std::str::from_utf8(note).ok()?.split_once('\n')?;
        let numbers = numbers.split(' ').map(|number| number.parse().ok());
        let numbers: Vec<u64> = numbers.collect::<Option<_>>()?;
        Some((request.to_owned(), numbers.try_into().ok()?))
    };
    parts().ok_or_else(|| {
        io::Error::new(ErrorKind::InvalidData, "a ticket's note that this version does not know")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_back() {
        let text = note("GET 0 a name", &[1, 2]);
        assert_eq!(parse_note(&text).unwrap(), ("GET 0 a name".into(), [1, 2]));
        assert!(parse_note::<1>(&text).is_err() && parse_note::<1>(b"GET 0 a").is_err());
    }

    #[test]
    fn what_goes_out_can_begin_anywhere() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, b"0123456789").unwrap();
        let mut out = Outgoing {
            head: b"OK 8\n".to_vec(),
            file: Some((File::open(&path).unwrap(), 2, 8)),
            tail: b"DONE\n".to_vec(),
            ..Outgoing::default()
        };
        let all = b"OK 8\n23456789DONE\n";
        for start in 0..=all.len() {
            out.rewind(Rewound { offset: start as u64 }.error()).unwrap();
            let mut got = Vec::new();
            let mut buffer = [0; 3];
            loop {
                let count = out.read(&mut buffer).unwrap();
                got.extend_from_slice(&buffer[..count]);
                out.position += count as u64;
                if count == 0 {
                    break;
                }
            }
            assert_eq!(got, &all[start..]);
            assert_eq!(out.of_file(), 8);
        }
        assert!(out.rewind(ErrorKind::BrokenPipe.into()).is_err());
        std::fs::write(&path, b"0123").unwrap();
        out.position = 8;
        assert_eq!(out.read(&mut [0; 9]).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }
}
