//! Sending over a socket that may fail: what is given up, what is tried again, and when another socket takes its place.
//!
//! | what the kernel says | what is done |
//! |---|---|
//! | no room (`EAGAIN`) | wait for room, once and briefly; then it is lost as on the network |
//! | no route (`ENETUNREACH`, `EHOSTUNREACH`) | the flows wait until links, addresses or routes change |
//! | `EIO`, `EINVAL`, `EMSGSIZE` for a train of datagrams | each goes by itself |
//! | `EIO`, `EINVAL` for one datagram | once more without the mark of ECN, which stays off if that helps |
//! | `EPIPE`, `ENETDOWN`, `EBADF`, `ENOTCONN`, `ESHUTDOWN`, and `EIO` that nothing helps against | another socket at the same address: the flows are the same |

use heddle_core::dtp::modern::PathAddress;
use heddle_core::node::Instant;
use rustix::io::Errno;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Sockets are reopened at most this often: one that can never be used is no reason to do nothing else.
const REOPEN_EVERY: Duration = Duration::from_millis(100);

/// What sending needs of a socket.
pub(crate) trait Socket: Sized {
    /// Another one: at that address, or wherever the system likes.
    fn open(bind: Option<SocketAddr>) -> io::Result<Self>;
    /// Sends `octets`, cut into datagrams of `segment`; with marks that say that this end knows ECN.
    fn send(&self, path: PathAddress, octets: &[u8], segment: usize, marks: bool)
    -> io::Result<()>;
    /// Waits until there is room, for some milliseconds at most.
    fn wait_for_room(&self);
}

/// What went wrong, counted.
#[derive(Default)]
pub(crate) struct SendCounters {
    reopened: AtomicU64,
    not_reopened: AtomicU64,
    one_by_one: AtomicU64,
    without_marks: AtomicU64,
    unsent: AtomicU64,
}

impl SendCounters {
    pub fn list(&self) -> [(&'static str, u64); 5] {
        [
            ("socket_reopened", &self.reopened),
            ("socket_not_reopened", &self.not_reopened),
            ("train_sent_one_by_one", &self.one_by_one),
            ("ecn_marks_given_up", &self.without_marks),
            ("socket_send_failed", &self.unsent),
        ]
        .map(|(name, counter)| (name, counter.load(Ordering::Relaxed)))
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// What became of what was to be sent.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// It went to the kernel, or was lost as it could have been on the network.
    Done,
    /// There is no way to the peer.
    NoRoute,
    /// Another socket has taken this one's place: paths have to be looked at anew.
    Reopened,
}

/// A socket with what has been found out about it.
pub(crate) struct Outlet<S> {
    pub socket: S,
    bind: Option<SocketAddr>,
    marks: bool,
    /// The socket is not at the address that it should be at.
    astray: bool,
    reopened: Option<Instant>,
}

impl<S: Socket> Outlet<S> {
    pub const fn new(socket: S, bind: Option<SocketAddr>) -> Self {
        Self { socket, bind, marks: true, astray: false, reopened: None }
    }

    pub fn send(
        &mut self,
        now: Instant,
        path: PathAddress,
        octets: &[u8],
        segment: usize,
        counters: &SendCounters,
    ) -> Outcome {
        if self.astray && self.reopen(now, counters) {
            let _ = self.socket.send(path, octets, segment, self.marks);
            return Outcome::Reopened;
        }
        let Err(error) = self.socket.send(path, octets, segment, self.marks) else {
            return Outcome::Done;
        };
        match errno(&error) {
            Some(Errno::IO | Errno::INVAL | Errno::MSGSIZE) if octets.len() > segment => {
                count(&counters.one_by_one);
                let mut worst = Outcome::Done;
                for datagram in octets.chunks(segment.max(1)) {
                    match self.send_one(now, path, datagram, counters) {
                        Outcome::Done => {}
                        other => worst = other,
                    }
                }
                worst
            }
            _ if octets.len() > segment => self.failed(now, path, octets, segment, error, counters),
            _ => self.one_failed(now, path, octets, error, counters),
        }
    }

    fn send_one(
        &mut self,
        now: Instant,
        path: PathAddress,
        datagram: &[u8],
        counters: &SendCounters,
    ) -> Outcome {
        match self.socket.send(path, datagram, datagram.len(), self.marks) {
            Ok(()) => Outcome::Done,
            Err(error) => self.one_failed(now, path, datagram, error, counters),
        }
    }

    fn one_failed(
        &mut self,
        now: Instant,
        path: PathAddress,
        datagram: &[u8],
        error: io::Error,
        counters: &SendCounters,
    ) -> Outcome {
        let may_be_marks = matches!(errno(&error), Some(Errno::IO | Errno::INVAL)) && self.marks;
        if may_be_marks && self.socket.send(path, datagram, datagram.len(), false).is_ok() {
            count(&counters.without_marks);
            self.marks = false;
            return Outcome::Done;
        }
        self.failed(now, path, datagram, datagram.len(), error, counters)
    }

    fn failed(
        &mut self,
        now: Instant,
        path: PathAddress,
        octets: &[u8],
        segment: usize,
        error: io::Error,
        counters: &SendCounters,
    ) -> Outcome {
        let sent = match errno(&error) {
            Some(Errno::AGAIN) => {
                self.socket.wait_for_room();
                self.socket.send(path, octets, segment, self.marks)
            }
            Some(Errno::NETUNREACH | Errno::HOSTUNREACH) => {
                count(&counters.unsent);
                return Outcome::NoRoute;
            }
            Some(
                Errno::PIPE
                | Errno::NETDOWN
                | Errno::BADF
                | Errno::NOTCONN
                | Errno::SHUTDOWN
                | Errno::IO,
            ) if self.reopen(now, counters) => {
                tracing::debug!(%error, "another socket");
                if self.socket.send(path, octets, segment, self.marks).is_err() {
                    count(&counters.unsent);
                }
                return Outcome::Reopened;
            }
            _ => Err(error),
        };
        if let Err(error) = sent {
            count(&counters.unsent);
            tracing::debug!(%error, "not sent");
        }
        Outcome::Done
    }

    /// Puts another socket in this one's place; gives whether there is one.
    fn reopen(&mut self, now: Instant, counters: &SendCounters) -> bool {
        if self.reopened.is_some_and(|last| now.since(last) < REOPEN_EVERY) {
            return false;
        }
        self.reopened = Some(now);
        let mut result = Ok(());
        if self.bind.is_some() && !self.astray {
            // The address is free only when the old socket is closed, so one at any address takes its place meanwhile.
            result = S::open(None).map(|socket| self.socket = socket);
            self.astray = result.is_ok();
        }
        match result.and_then(|()| S::open(self.bind)) {
            Ok(socket) => {
                self.socket = socket;
                self.astray = false;
                self.marks = true;
                count(&counters.reopened);
                true
            }
            Err(error) => {
                count(&counters.not_reopened);
                tracing::debug!(%error, "no other socket");
                false
            }
        }
    }
}

fn errno(error: &io::Error) -> Option<Errno> {
    match error.kind() {
        io::ErrorKind::WouldBlock => Some(Errno::AGAIN),
        _ => error.raw_os_error().map(Errno::from_raw_os_error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::VecDeque;

    /// What happened, and the answers to calls of `send` and `open` that come next.
    #[derive(Default)]
    struct Script {
        log: Vec<String>,
        sends: VecDeque<Option<Errno>>,
        opens: VecDeque<Option<Errno>>,
    }

    thread_local! {
        static SCRIPT: RefCell<Script> = RefCell::default();
    }

    struct Scripted;

    fn answer(answer: Option<Option<Errno>>) -> io::Result<()> {
        answer.flatten().map_or(Ok(()), |errno| Err(errno.into()))
    }

    impl Socket for Scripted {
        fn open(bind: Option<SocketAddr>) -> io::Result<Self> {
            SCRIPT.with_borrow_mut(|script| {
                script.log.push(bind.map_or("open".into(), |bind| format!("open {bind}")));
                answer(script.opens.pop_front()).map(|()| Self)
            })
        }

        fn send(
            &self,
            _path: PathAddress,
            octets: &[u8],
            _segment: usize,
            marks: bool,
        ) -> io::Result<()> {
            SCRIPT.with_borrow_mut(|script| {
                let result = answer(script.sends.pop_front());
                let ok = if result.is_ok() { "sent" } else { "not" };
                script.log.push(format!(
                    "{ok} {}{}",
                    octets.len(),
                    if marks { "" } else { " plain" }
                ));
                result
            })
        }

        fn wait_for_room(&self) {
            SCRIPT.with_borrow_mut(|script| script.log.push("wait".into()));
        }
    }

    struct Bench {
        outlet: Outlet<Scripted>,
        counters: SendCounters,
        ms: u64,
    }

    impl Bench {
        fn new(bind: Option<&str>) -> Self {
            SCRIPT.with_borrow_mut(|script| *script = Script::default());
            let bind = bind.map(|address| address.parse().unwrap());
            Self {
                outlet: Outlet::new(Scripted, bind),
                counters: SendCounters::default(),
                ms: 1000,
            }
        }

        /// Sends 30 octets in datagrams of `segment`; gives what came of it and what was done.
        fn send(
            &mut self,
            segment: usize,
            sends: &[Option<Errno>],
            opens: &[Option<Errno>],
        ) -> (Outcome, Vec<String>) {
            SCRIPT.with_borrow_mut(|script| {
                script.log.clear();
                script.sends = sends.iter().copied().collect();
                script.opens = opens.iter().copied().collect();
            });
            let path = PathAddress::default();
            let now = Instant::from_nanos(self.ms * 1_000_000);
            let outcome = self.outlet.send(now, path, &[0; 30], segment, &self.counters);
            (outcome, SCRIPT.with_borrow(|script| script.log.clone()))
        }

        fn counted(&self, name: &str) -> u64 {
            self.counters.list().iter().find(|(known, _)| *known == name).unwrap().1
        }
    }

    #[test]
    fn a_train_that_fails_goes_one_by_one() {
        for error in [Errno::IO, Errno::INVAL, Errno::MSGSIZE] {
            let mut bench = Bench::new(None);
            let (outcome, log) = bench.send(12, &[Some(error)], &[]);
            assert_eq!(outcome, Outcome::Done);
            assert_eq!(log, ["not 30", "sent 12", "sent 12", "sent 6"]);
            assert_eq!(bench.counted("train_sent_one_by_one"), 1);
            assert_eq!(bench.counted("socket_send_failed"), 0);
        }
    }

    #[test]
    fn marks_that_fail_are_given_up_for_good() {
        for error in [Errno::IO, Errno::INVAL] {
            let mut bench = Bench::new(None);
            let (outcome, log) = bench.send(30, &[Some(error)], &[]);
            assert_eq!(
                (outcome, log),
                (Outcome::Done, vec!["not 30".into(), "sent 30 plain".into()])
            );
            assert_eq!(bench.send(30, &[], &[]).1, ["sent 30 plain"]);
            assert_eq!(bench.counted("ecn_marks_given_up"), 1);
        }
    }

    #[test]
    fn a_socket_that_is_dead_is_replaced_and_the_datagram_goes() {
        for error in [Errno::PIPE, Errno::NETDOWN, Errno::BADF, Errno::NOTCONN, Errno::SHUTDOWN] {
            for segment in [10, 30] {
                let mut bench = Bench::new(None);
                let (outcome, log) = bench.send(segment, &[Some(error)], &[]);
                assert_eq!(outcome, Outcome::Reopened, "{error}");
                assert_eq!(log, ["not 30", "open", "sent 30"]);
                assert_eq!(bench.counted("socket_reopened"), 1);
            }
        }
        // Neither marks nor trains were the reason.
        let mut bench = Bench::new(None);
        let (outcome, log) = bench.send(30, &[Some(Errno::IO), Some(Errno::IO)], &[]);
        assert_eq!(outcome, Outcome::Reopened);
        assert_eq!(log, ["not 30", "not 30 plain", "open", "sent 30"]);
    }

    #[test]
    fn a_server_comes_back_to_its_address_when_that_is_to_be_had() {
        let mut bench = Bench::new(Some("10.0.0.1:4433"));
        let taken = [None, Some(Errno::ADDRNOTAVAIL)];
        let (outcome, log) = bench.send(30, &[Some(Errno::PIPE)], &taken);
        assert_eq!(outcome, Outcome::Done);
        assert_eq!(log, ["not 30", "open", "open 10.0.0.1:4433"]);
        // Not at once.
        assert_eq!(bench.send(30, &[], &[]).1, ["sent 30"]);
        bench.ms += 100;
        let (outcome, log) = bench.send(30, &[], &[]);
        assert_eq!(outcome, Outcome::Reopened);
        assert_eq!(log, ["open 10.0.0.1:4433", "sent 30"]);
        assert_eq!(
            (bench.counted("socket_not_reopened"), bench.counted("socket_reopened")),
            (1, 1)
        );
    }

    #[test]
    fn one_that_stays_dead_is_not_replaced_all_the_time() {
        let mut bench = Bench::new(None);
        let mut opened = 0;
        for _ in 0..1000 {
            let (_, log) = bench.send(30, &[Some(Errno::PIPE); 2], &[]);
            opened += log.iter().filter(|line| *line == "open").count();
            bench.ms += 1;
        }
        assert_eq!(opened, 10);
        assert_eq!(bench.counted("socket_send_failed"), 1000);
    }

    #[test]
    fn no_room_and_no_route() {
        let mut bench = Bench::new(None);
        let (outcome, log) = bench.send(10, &[Some(Errno::AGAIN)], &[]);
        assert_eq!(
            (outcome, log),
            (Outcome::Done, ["not 30", "wait", "sent 30"].map(String::from).into())
        );
        for error in [Errno::NETUNREACH, Errno::HOSTUNREACH] {
            assert_eq!(bench.send(10, &[Some(error)], &[]).0, Outcome::NoRoute);
        }
        // A firewall's refusal is a loss.
        assert_eq!(bench.send(10, &[Some(Errno::PERM)], &[]).0, Outcome::Done);
        assert_eq!(bench.counted("socket_send_failed"), 3);
    }
}
