//! A client's transfer from the command line: over a new flow, or over that of a run before which was killed.

use crate::connector::Connector;
use crate::keys::Key;
use crate::stream::DtpStream;
use crate::tickets;
use sha2::{Digest, Sha256};
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{TryRecvError, channel};
use std::time::{Duration, Instant, SystemTime};

/// A server that has not answered a flow of before for this long is asked for a new one besides.
const PATIENCE: Duration = Duration::from_secs(3);

/// Octets of a digest that name a transfer.
const NAME_OCTETS: usize = 12;

/// Tickets that are older than this are of no use to anybody: flows are kept for a week.
const KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 3600);

/// How long to wait for the server to hear of the end.
const GOODBYE: Duration = Duration::from_secs(1);

/// Where the tickets of one transfer are: below `state`, or where the system says that programs keep their state (XDG). Nothing when nobody says where.
pub(crate) fn directory(state: Option<&Path>, transfer: &[&[u8]]) -> Option<PathBuf> {
    let state = match state {
        Some(state) => state.to_owned(),
        None => match std::env::var_os("XDG_STATE_HOME").filter(|path| !path.is_empty()) {
            Some(path) => Path::new(&path).join("heddle/dtp"),
            None => Path::new(&std::env::var_os("HOME")?).join(".local/state/heddle/dtp"),
        },
    };
    let mut digest = Sha256::new();
    for part in transfer {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    let digest: Key = digest.finalize().into();
    Some(state.join(hex::encode(digest.get(..NAME_OCTETS).unwrap_or(&digest))))
}

/// Removes what transfers have left that nobody has gone on with for longer than any server keeps a flow.
pub(crate) fn sweep(state: &Path, now: SystemTime) {
    let entries = std::fs::read_dir(state).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let ours = name.to_str().is_some_and(|name| {
            name.len() == 2 * NAME_OCTETS && name.bytes().all(|octet| octet.is_ascii_hexdigit())
        });
        let written = entry.metadata().and_then(|data| data.modified());
        let is_old = written
            .is_ok_and(|written| now.duration_since(written).is_ok_and(|age| age > KEPT_FOR));
        // The lock tells whether a transfer runs there all the same.
        if ours && is_old && tickets::Store::open(&entry.path()).is_ok() {
            tickets::remove_directory(&entry.path());
        }
    }
}

/// What a transfer has come to, for whoever reads it by program.
#[derive(Default)]
pub(crate) struct Report {
    pub octets: u64,
    flow: (u32, u32),
    restarts: (u32, u32),
    resumed: bool,
    received_octets: u64,
    sent_octets: u64,
}

impl Report {
    /// Writes it as an object of JSON on a line.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let (slot, generation) = self.flow;
        let (own, peer) = self.restarts;
        writeln!(
            out,
            "{{\"octets\":{},\"flow\":\"{slot}.{generation}\",\"resumed\":{},\"restarts\":{own},\"peer_restarts\":{peer},\"received_octets\":{},\"sent_octets\":{}}}",
            self.octets, self.resumed, self.received_octets, self.sent_octets
        )
    }
}

/// The means of a transfer.
pub(crate) struct Session {
    pub connector: Connector,
    pub addresses: Vec<SocketAddr>,
    pub tickets: Option<PathBuf>,
    pub deadline: Option<Instant>,
}

impl Session {
    /// Runs a transfer to its end: over the flow of before if there is one and it goes on, or else over a new one. A server that answers anew but not on the
    /// flow has forgotten it, and the transfer goes over to the new one.
    pub fn run(
        self,
        transfer: &mut dyn FnMut(&DtpStream) -> io::Result<u64>,
    ) -> io::Result<Report> {
        let endpoint = self.connector.endpoint().clone();
        let mut stream = match self.connector.resume() {
            Some(stream) => self.resumed_or_new(stream)?,
            None => self.connector.connect(&self.addresses[..])?,
        };
        let octets = loop {
            let (result, other) = self.watched(&stream, transfer);
            match (result, other) {
                (Ok(octets), _) => break octets,
                (Err(error), Some(other)) => {
                    tracing::warn!(%error, "the server has forgotten the flow: another one");
                    stream = other;
                }
                (Err(error), None)
                    if stream.note().is_some() && error.kind() != ErrorKind::TimedOut =>
                {
                    tracing::warn!(%error, "the flow of before does not go on: another one");
                    drop(stream);
                    stream = self.connector.connect(&self.addresses[..])?;
                }
                (Err(error), None) => return Err(error),
            }
        };
        let counters = endpoint.counters();
        let count = |name| counters.iter().find(|known| known.0 == name).map_or(0, |known| known.1);
        let report = Report {
            octets,
            flow: stream.flow_id(),
            restarts: stream.restarts().unwrap_or_default(),
            resumed: stream.note().is_some(),
            received_octets: count("received_octets"),
            sent_octets: count("sent_octets"),
        };
        drop(stream);
        // The server should hear of the end, or it would keep the flow for as long as it has promised.
        endpoint.wait_idle(GOODBYE);
        if let Some(tickets) = &self.tickets {
            tickets::remove_directory(tickets);
        }
        Ok(report)
    }

    /// Runs a transfer. While its stream waits for the network, a new one is asked for besides; if the server answers that and the old one still waits
    /// afterwards, the old one is given up, and the new one is given.
    fn watched(
        &self,
        stream: &DtpStream,
        transfer: &mut dyn FnMut(&DtpStream) -> io::Result<u64>,
    ) -> (io::Result<u64>, Option<DtpStream>) {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| self.watch(stream, &done));
            let result = transfer(stream);
            done.store(true, Ordering::Release);
            watcher.thread().unpark();
            (result, watcher.join().ok().flatten())
        })
    }

    fn watch(&self, stream: &DtpStream, done: &AtomicBool) -> Option<DtpStream> {
        // Waits until the stream works, the transfer is done (gives false) or the time is over.
        let still_waits = |most: Duration| {
            let end = Instant::now() + most;
            while Instant::now() < end {
                if done.load(Ordering::Acquire) || !stream.is_suspended() {
                    return false;
                }
                std::thread::park_timeout(Duration::from_millis(100));
            }
            true
        };
        let (sender, receiver) = channel();
        let mut asked = false;
        while !done.load(Ordering::Acquire) {
            if let Ok(answer) = receiver.try_recv() {
                asked = false;
                // The way is free, so the old stream goes on by its next probe, if the server has it.
                if let Ok(other) = answer
                    && still_waits(PATIENCE)
                {
                    stream.give_up();
                    return Some(other);
                }
            }
            if !asked && still_waits(PATIENCE) {
                asked = true;
                let (sender, connector) = (sender.clone(), self.connector.clone());
                let addresses = self.addresses.clone();
                let ask = move || {
                    // The old stream may go on meanwhile; this one says goodbye then.
                    let _ = sender.send(connector.connect(&addresses[..]));
                };
                std::thread::Builder::new().name("dtp-connect".into()).spawn(ask).ok()?;
            }
            std::thread::park_timeout(Duration::from_millis(100));
        }
        None
    }

    /// The flow of before as soon as its peer has answered; another one if the server answers that first, since it does not know the old one then.
    fn resumed_or_new(&self, stream: DtpStream) -> io::Result<DtpStream> {
        if let Some(&address) = self.addresses.first()
            && stream.peer_addr().is_ok_and(|peer| !self.addresses.contains(&peer))
        {
            stream.redirect(address);
        }
        let mut ask = Instant::now() + PATIENCE;
        let (sender, receiver) = channel();
        let mut asked = false;
        loop {
            crate::files::past(self.deadline)?;
            if stream.is_closed() && !asked {
                return self.connector.connect(&self.addresses[..]);
            }
            if !stream.is_resuming() && !stream.is_closed() {
                return Ok(stream);
            }
            match receiver.try_recv() {
                Ok(Ok(other)) => return Ok(other),
                Ok(Err(error)) => {
                    tracing::debug!(%error, "no new flow either");
                    asked = false;
                    ask = Instant::now() + PATIENCE;
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => {}
            }
            if !asked && Instant::now() >= ask {
                asked = true;
                let (sender, connector) = (sender.clone(), self.connector.clone());
                let addresses = self.addresses.clone();
                std::thread::Builder::new().name("dtp-connect".into()).spawn(move || {
                    // The old flow may go on meanwhile; this one says goodbye then.
                    let _ = sender.send(connector.connect(&addresses[..]));
                })?;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_transfer_has_a_directory_of_its_own() {
        let state = Path::new("/state");
        let of = |parts: &[&[u8]]| directory(Some(state), parts).unwrap();
        assert_eq!(of(&[b"get", b"a:1", b"b"]), of(&[b"get", b"a:1", b"b"]));
        assert_ne!(of(&[b"get", b"a:1", b"b"]), of(&[b"get", b"a:1b", b""]));
        assert!(of(&[b"x"]).starts_with("/state"));
    }

    #[test]
    fn what_was_left_goes_after_a_month() {
        let state = tempfile::tempdir().unwrap();
        let of = |name: &str| directory(Some(state.path()), &[name.as_bytes()]).unwrap();
        let stores = ["used", "left"].map(|name| tickets::Store::open(&of(name)).unwrap());
        std::fs::create_dir(state.path().join("serve")).unwrap();
        let [_used, left] = stores;
        drop(left);
        let later = |days: u64| SystemTime::now() + Duration::from_secs(days * 24 * 3600);
        sweep(state.path(), later(29));
        assert!(of("left").exists());
        sweep(state.path(), later(31));
        assert!(!of("left").exists() && of("used").exists());
        assert!(state.path().join("serve").exists());
    }

    #[test]
    fn a_report_is_json() {
        let mut out = Vec::new();
        let report = Report {
            octets: 5,
            flow: (0, 3),
            restarts: (1, 2),
            resumed: true,
            ..Report::default()
        };
        report.write(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with(
            "{\"octets\":5,\"flow\":\"0.3\",\"resumed\":true,\"restarts\":1,\"peer_restarts\":2,"
        ));
    }
}
