//! The controller's side of a connection to a switch, for controllers and for commands of an operator.
//!
//! A [`Client`] waits for what it asks for, for a bounded time. Answers are told by their transaction; what the switch says by itself
//! meanwhile is kept for [`Client::next_event`]. Echo requests are answered whenever the client waits for something.

mod error;
mod requests;

pub use error::ClientError;

use crate::{Address, Body, Features, Framer, Hello, Message, Refusal, Tls, Transport};
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Events that are kept; when more come in before they are looked at, the oldest are lost and counted.
const MAX_EVENTS: usize = 4096;

/// Changes that are sent before their answers are read.
const CHANGES_AT_ONCE: usize = 128;

/// What carries octets both ways.
trait Duplex: Read + Write + Send {}
impl<T: Read + Write + Send> Duplex for T {}

/// A connection to a switch, on which both sides have said hello.
pub struct Client {
    stream: Box<dyn Duplex>,
    /// The same connection, for its time-outs.
    socket: TcpStream,
    framer: Framer,
    events: VecDeque<Message>,
    lost_events: u64,
    next_xid: u32,
    timeout: Duration,
    features: Features,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("features", &self.features).finish_non_exhaustive()
    }
}

impl Client {
    /// Connects to a switch that listens, says hello and asks for its features. `timeout` is for this and for each later answer; `tls` is
    /// for addresses that ask for it.
    ///
    /// # Errors
    /// When it cannot be reached, does not answer, or speaks no OpenFlow 1.3.
    pub fn connect(
        address: &Address,
        tls: Option<&Tls>,
        timeout: Duration,
    ) -> Result<Self, ClientError> {
        let unreachable =
            |source| ClientError::Unreachable { address: address.to_string(), source };
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for socket in address.resolve().map_err(unreachable)? {
            match TcpStream::connect_timeout(&socket, timeout) {
                Ok(socket) => {
                    let copy = socket.try_clone().map_err(unreachable)?;
                    let stream: Box<dyn Duplex> = match address.transport {
                        Transport::Tcp => Box::new(copy),
                        Transport::Tls => {
                            let tls = tls.ok_or(ClientError::NoCertificate)?;
                            Box::new(rustls::StreamOwned::new(tls.connecting(&address.host)?, copy))
                        }
                    };
                    return Self::begin(stream, socket, timeout);
                }
                Err(error) => last = error,
            }
        }
        Err(unreachable(last))
    }

    /// Takes a connection that a switch has opened to a controller, with TLS if `tls` is given.
    ///
    /// # Errors
    /// When it does not answer, or speaks no OpenFlow 1.3.
    pub fn accept(
        socket: TcpStream,
        tls: Option<&Tls>,
        timeout: Duration,
    ) -> Result<Self, ClientError> {
        let copy = socket.try_clone()?;
        let stream: Box<dyn Duplex> = match tls {
            None => Box::new(copy),
            Some(tls) => Box::new(rustls::StreamOwned::new(tls.accepting()?, copy)),
        };
        Self::begin(stream, socket, timeout)
    }

    fn begin(
        stream: Box<dyn Duplex>,
        socket: TcpStream,
        timeout: Duration,
    ) -> Result<Self, ClientError> {
        socket.set_nodelay(true)?;
        // A switch that does not read must not hold its controller for ever.
        socket.set_write_timeout(Some(timeout))?;
        let mut client = Self {
            stream,
            socket,
            framer: Framer::default(),
            events: VecDeque::new(),
            lost_events: 0,
            next_xid: 1,
            timeout,
            features: Features::default(),
        };
        client.send(Body::Hello(Hello::ours()))?;
        let deadline = Instant::now() + timeout;
        loop {
            let message = client.read(deadline)?.ok_or(ClientError::TimedOut(timeout))?;
            match &message.body {
                Body::Hello(hello) => {
                    if let Err(refusal) = hello.negotiate(message.version) {
                        let xid = message.xid;
                        client.send_message(&Message::new(
                            xid,
                            Body::Error { refusal, data: Vec::new() },
                        ))?;
                        return Err(ClientError::Version(message.version));
                    }
                    break;
                }
                Body::Error { refusal, data } => return Err(ClientError::refused(*refusal, data)),
                _ => client.keep(message),
            }
        }
        match client.request(Body::FeaturesRequest)? {
            Body::FeaturesReply(features) => client.features = features,
            _ => return Err(ClientError::Unexpected("features")),
        }
        Ok(client)
    }

    /// What the switch can do, as it said when the connection began.
    pub const fn features(&self) -> &Features {
        &self.features
    }

    /// Events that were lost because nobody looked at them.
    pub const fn lost_events(&self) -> u64 {
        self.lost_events
    }

    /// The connection below, to learn its addresses or to close it from another thread.
    pub const fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Sends a message without waiting for anything. The transaction that it got.
    ///
    /// # Errors
    /// When it is too long for a message, or the connection has failed.
    pub fn send(&mut self, body: Body) -> Result<u32, ClientError> {
        let xid = self.next_xid;
        // 0 is for what a switch says by itself.
        self.next_xid = self.next_xid.checked_add(1).unwrap_or(1);
        self.send_message(&Message::new(xid, body))?;
        Ok(xid)
    }

    /// Sends a message and waits for the one that answers it.
    ///
    /// # Errors
    /// What the switch refuses it with, or why no answer came.
    pub fn request(&mut self, body: Body) -> Result<Body, ClientError> {
        let xid = self.send(body)?;
        self.answer(xid)
    }

    /// Sends a message that is answered only when it is refused, and waits until it has been dealt with.
    ///
    /// # Errors
    /// What the switch refuses it with, or why no answer came.
    pub fn change(&mut self, body: Body) -> Result<(), ClientError> {
        self.change_all([body])
    }

    /// The same for several messages, with a wait now and then. Those behind one that is refused are carried out all the same.
    ///
    /// # Errors
    /// What the switch refuses the first one with, or why no answer came.
    pub fn change_all(
        &mut self,
        bodies: impl IntoIterator<Item = Body>,
    ) -> Result<(), ClientError> {
        let mut bodies = bodies.into_iter().peekable();
        let mut refused = None;
        loop {
            // A switch that refuses many wants its errors read before it hears more.
            let mut sent = Vec::new();
            for body in bodies.by_ref().take(CHANGES_AT_ONCE) {
                sent.push(self.send(body)?);
            }
            let refusal = self.await_barrier(&sent)?;
            refused = refused.or(refusal);
            if bodies.peek().is_none() {
                return refused.map_or(Ok(()), Err);
            }
        }
    }

    /// Waits until what was sent before has been dealt with: why the first of these transactions was refused, if one was.
    fn await_barrier(&mut self, sent: &[u32]) -> Result<Option<ClientError>, ClientError> {
        let barrier = self.send(Body::BarrierRequest)?;
        let deadline = Instant::now() + self.timeout;
        let mut refused = None;
        loop {
            let message = self.read(deadline)?.ok_or(ClientError::TimedOut(self.timeout))?;
            match &message.body {
                Body::BarrierReply if message.xid == barrier => return Ok(refused),
                Body::Error { refusal, data } if sent.contains(&message.xid) => {
                    refused.get_or_insert(ClientError::refused(*refusal, data));
                }
                Body::Error { refusal, data } if message.xid == barrier => {
                    return Err(ClientError::refused(*refusal, data));
                }
                _ => self.keep(message),
            }
        }
    }

    /// Waits until the switch has done all that was sent before.
    ///
    /// # Errors
    /// Why no answer came.
    pub fn barrier(&mut self) -> Result<(), ClientError> {
        self.change_all([])
    }

    /// What the switch says by itself: packets, ended flows, changes of ports, errors that nobody waited for. Nothing when there is none
    /// within `wait`.
    ///
    /// # Errors
    /// When the connection has failed.
    pub fn next_event(&mut self, wait: Duration) -> Result<Option<Message>, ClientError> {
        match self.events.pop_front() {
            Some(event) => Ok(Some(event)),
            None => self.read(Instant::now() + wait),
        }
    }

    /// The message that answers a transaction.
    pub(super) fn answer(&mut self, xid: u32) -> Result<Body, ClientError> {
        let deadline = Instant::now() + self.timeout;
        loop {
            let message = self.read(deadline)?.ok_or(ClientError::TimedOut(self.timeout))?;
            if message.xid != xid {
                self.keep(message);
                continue;
            }
            return match message.body {
                Body::Error { refusal, data } => Err(ClientError::refused(refusal, &data)),
                body => Ok(body),
            };
        }
    }

    fn keep(&mut self, message: Message) {
        if self.events.len() >= MAX_EVENTS {
            self.events.pop_front();
            self.lost_events += 1;
        }
        self.events.push_back(message);
    }

    fn send_message(&mut self, message: &Message) -> Result<(), ClientError> {
        let octets = message.encode().map_err(|_| ClientError::TooLong)?;
        self.stream.write_all(&octets)?;
        Ok(self.stream.flush()?)
    }

    /// The next message that is no echo; nothing when none comes until `deadline`.
    fn read(&mut self, deadline: Instant) -> Result<Option<Message>, ClientError> {
        let mut octets = [0; 16 * 1024];
        loop {
            let next = self.framer.next_message().map(|octets| octets.map(Message::decode));
            match next.and_then(Option::transpose) {
                Ok(None) => {}
                Ok(Some(Message { xid, body: Body::EchoRequest(data), .. })) => {
                    self.send_message(&Message::new(xid, Body::EchoReply(data)))?;
                    continue;
                }
                Ok(Some(message)) => return Ok(Some(message)),
                // Types of message that this side does not know are passed over: others may send more than what is asked for.
                Err(Refusal::BAD_TYPE) => continue,
                Err(refusal) => return Err(ClientError::Malformed(refusal)),
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.socket.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
            match self.stream.read(&mut octets) {
                Ok(0) => return Err(ClientError::Closed),
                Ok(count) => self.framer.push(octets.get(..count).unwrap_or_default()),
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
