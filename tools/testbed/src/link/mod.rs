//! One link between two namespaces, with the delay, loss and rate of a network far away.
//!
//! A rate alone is the kernel's affair (TBF on a veth pair). For delay and loss a thread of this process carries frames between two TAP
//! devices (`relay.rs`): the kernel that this was made for has no netem.

mod relay;

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::namespace::{self, Namespace, call};
use relay::Relay;

/// The interface in each of the namespaces.
pub const INTERFACE: &str = "link0";

/// The addresses of both ends at first, of 24 bits of prefix.
pub const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 77, 0, 1), Ipv4Addr::new(10, 77, 0, 2)];

/// How long a full queue takes to drain, when nobody says how long it is.
const QUEUE_TIME: Duration = Duration::from_millis(100);

/// The shortest queue in octets: some frames.
const LEAST_QUEUE_OCTETS: u64 = 64 << 10;

/// Octets that a bucket of the kernel's lets pass at once: its timers go no finer at 1 Gbit/s.
const BUCKET_OCTETS: u64 = 128 << 10;

/// What a link does to frames, in each direction.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Shape {
    /// How long a frame takes, besides its octets at the rate.
    pub delay: Duration,
    /// The part of all frames that is lost at random, 0 to 1.
    pub loss: f64,
    /// Bits a second, of Ethernet frames; nothing for no limit.
    pub rate_bits: Option<u64>,
    /// Octets that may wait for the rate; nothing for 100 ms of it.
    pub queue_octets: Option<u64>,
    /// What the losses are drawn from.
    pub seed: u64,
}

impl Default for Shape {
    /// A link that does nothing to frames.
    fn default() -> Self {
        Self { delay: Duration::ZERO, loss: 0.0, rate_bits: None, queue_octets: None, seed: 1 }
    }
}

impl Shape {
    fn queue(&self) -> u64 {
        self.queue_octets.unwrap_or_else(|| {
            let rate = self.rate_bits.unwrap_or(0) / 8;
            (rate * QUEUE_TIME.as_millis() as u64 / 1000).max(LEAST_QUEUE_OCTETS)
        })
    }

    /// Whether the kernel can do all of it.
    fn is_plain(&self) -> bool {
        self.delay.is_zero() && self.loss == 0.0
    }
}

/// What has become of the frames of one direction.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// They came out at the other end.
    pub passed: u64,
    /// Lost at random.
    pub lost: u64,
    /// Found the queue full.
    pub overflowed: u64,
    /// Came while the link was cut.
    pub cut: u64,
}

/// Two namespaces and the link between them. Dropping it takes all of it down.
#[derive(Debug)]
pub struct Link {
    ends: [Namespace; 2],
    relay: Option<Relay>,
}

impl Link {
    /// Lays it out, as namespaces `PREFIX-a` and `PREFIX-b`.
    ///
    /// # Errors
    /// When the namespaces are there already, or cannot be made.
    pub fn set_up(prefix: &str, shape: &Shape) -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::NotRoot);
        }
        let ends = ["a", "b"].map(|end| Namespace::named(format!("{prefix}-{end}")));
        for end in &ends {
            if namespace::with_prefix(end.name())?.iter().any(|other| other == end) {
                let what = format!("the namespace {} is up already", end.name());
                return Err(Error::Busy(what));
            }
        }
        let mut link = Self { ends, relay: None };
        for end in &link.ends {
            call("ip", &["netns", "add", end.name()], "")?;
        }
        if shape.is_plain() {
            link.lay_veth(shape)?;
        } else {
            link.relay = Some(Relay::start(&link.ends, shape)?);
        }
        for (end, address) in link.ends.iter().zip(ADDRESSES) {
            let commands = format!(
                "link set lo up\naddr add {address}/24 dev {INTERFACE}\nlink set {INTERFACE} up\n"
            );
            end.call("ip", &["-batch", "-"], &commands)?;
        }
        Ok(link)
    }

    fn lay_veth(&self, shape: &Shape) -> Result<()> {
        let [a, b] = &self.ends;
        let peer = ["type", "veth", "peer", "name", INTERFACE, "netns", b.name()];
        call("ip", &[&["-n", a.name(), "link", "add", "dev", INTERFACE][..], &peer].concat(), "")?;
        let Some(rate) = shape.rate_bits else { return Ok(()) };
        let (rate, queue) = (format!("{rate}bit"), shape.queue().to_string());
        let bucket = BUCKET_OCTETS.min(shape.queue()).to_string();
        for end in &self.ends {
            let device = ["qdisc", "add", "dev", INTERFACE, "root", "tbf", "rate", &rate];
            end.call("tc", &[&device[..], &["burst", &bucket, "limit", &queue]].concat(), "")?;
        }
        Ok(())
    }

    /// The namespace of the first end.
    pub const fn a(&self) -> &Namespace {
        let [a, _] = &self.ends;
        a
    }

    /// The namespace of the second end.
    pub const fn b(&self) -> &Namespace {
        let [_, b] = &self.ends;
        b
    }

    /// Takes the interface of the first end down: its host knows that there is no network. The other end keeps its own, unless the kernel carries
    /// the frames: a veth pair is up and down as a whole, and the far end takes up to a second to be itself again.
    ///
    /// # Errors
    /// Those of `ip`.
    pub fn down(&self) -> Result<()> {
        self.a().call("ip", &["link", "set", INTERFACE, "down"], "").map(drop)
    }

    /// Brings the interface of the first end up again.
    ///
    /// # Errors
    /// Those of `ip`.
    pub fn up(&self) -> Result<()> {
        self.a().call("ip", &["link", "set", INTERFACE, "up"], "").map(drop)
    }

    /// Gives the first end another address in place of all that it has.
    ///
    /// # Errors
    /// Those of `ip`.
    pub fn readdress(&self, address: Ipv4Addr) -> Result<()> {
        let commands =
            format!("addr flush dev {INTERFACE}\naddr add {address}/24 dev {INTERFACE}\n");
        self.a().call("ip", &["-batch", "-"], &commands).map(drop)
    }

    /// Loses every frame from now on, or no longer, without a word to either host.
    ///
    /// # Errors
    /// When the kernel carries the frames itself: then only [`Link::down`] ends it.
    pub fn cut(&self, is_cut: bool) -> Result<()> {
        let relay = self.relay.as_ref();
        let message = "a link without delay and loss cannot be cut in silence";
        relay.ok_or_else(|| Error::Invalid(message.into())).map(|relay| relay.cut(is_cut))
    }

    /// What has become of the frames from the first end and from the second; nothing where the kernel carries them.
    pub fn counts(&self) -> Option<[Counts; 2]> {
        self.relay.as_ref().map(Relay::counts)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The TAP devices go with their descriptors.
        self.relay = None;
        if let Err(error) = namespace::remove(&self.ends) {
            eprintln!("heddle: {error}");
        }
    }
}
