//! What a node is told about itself: limits, ports, sessions.

use super::header::{BLOCK_LEN_UNIT_OCTETS, MAX_BLOCK_OCTETS};
use crate::node::{MAX_PORTS, PortId, PortSet};
use crate::wire::{Ipv4Addr, MacAddress};
use core::time::Duration;

/// Session rules that a node can have.
pub const MAX_RULES: usize = 64;

/// `ses_max_gen` at most.
pub const MAX_SES_MAX_GEN: u16 = 1024;

/// When a relay sends (section III.D, "sending side").
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum SendingRule {
    /// The paper's words: one packet on each output link for each innovative arrival, at once.
    Literal,
    /// As much of that as the rate of each link lets through, the oldest unsent news first. A node whose
    /// inputs carry more than an output link can then does not overrun the link. The same as
    /// [`SendingRule::Literal`] on a link without a rate.
    Paced,
}

/// Limits and constants of a node.
#[derive(Copy, Clone, Debug)]
pub struct Settings {
    /// The IP protocol number of CODED IP; 253 is for experiments (RFC 3692).
    pub protocol: u8,
    /// The largest K that is taken.
    pub max_generation_size: u8,
    /// The largest N that is taken, in octets.
    pub max_block_octets: u16,
    /// Generations buffered for one session, at most (section III.C).
    pub ses_max_gen: u16,
    /// How long after its last innovative packet a session ends (section III.C).
    pub ses_time_out: Duration,
    /// When a relay sends.
    pub sending: SendingRule,
    /// Where the random coefficients, and a source's first GEN_ID, start from. Nodes should differ in it.
    pub seed: u64,
}

impl Default for Settings {
    /// The paper's values where it gives them (section IV.E).
    fn default() -> Self {
        Self {
            protocol: 253,
            max_generation_size: 16,
            max_block_octets: 1480,
            ses_max_gen: 150,
            ses_time_out: Duration::from_secs(180),
            sending: SendingRule::Paced,
            seed: 0,
        }
    }
}

/// A port as the protocol sees it.
#[derive(Copy, Clone, Debug, Default)]
pub struct PortSettings {
    /// The port's own Ethernet address.
    pub mac: MacAddress,
    /// Ethernet octets (header included, FCS not) that may leave by the port in a second; no limit when absent.
    pub octets_per_second: Option<u64>,
}

/// How a generation relates to datagrams.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Cut {
    /// A generation is one datagram cut in K blocks: the paper's setting.
    Datagram,
    /// A generation is K datagrams, one to a block, which is as long as the longest of them.
    Packets {
        /// How long a generation may wait for its K datagrams before it goes out with fewer.
        flush_after: Duration,
    },
}

/// What a node does for a session.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Codes what a host sends to the group (section II.A).
    Source {
        /// How datagrams become generations.
        cut: Cut,
        /// K.
        generation_size: u8,
        /// Coded packets for each generation beyond max(K, number of outputs).
        redundancy: u8,
        /// Only datagrams to this UDP port, or to any.
        udp_port: Option<u16>,
        /// The links to the network.
        outputs: PortSet,
    },
    /// Recodes (section II.B).
    Forwarder {
        /// The links to send on.
        outputs: PortSet,
    },
    /// Decodes and delivers (section II.C).
    Destination {
        /// How generations become datagrams.
        cut: Cut,
        /// The links to the hosts.
        deliver: PortSet,
    },
}

/// A session, or several that differ in their source, and what the node does for them.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SessionRule {
    /// SESSION_ID.
    pub session_id: u8,
    /// The multicast group.
    pub group: Ipv4Addr,
    /// The source's address; any, when absent.
    pub source: Option<Ipv4Addr>,
    /// The ports by which the session comes in; any, when empty.
    pub inputs: PortSet,
    /// What to do.
    pub role: Role,
}

impl SessionRule {
    /// Whether packets of the rule may come in on `port`.
    pub fn admits(&self, port: PortId) -> bool {
        self.inputs.is_empty() || self.inputs.contains(port)
    }
}

/// Settings that cannot be worked with.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum SettingsError {
    /// More than [`MAX_PORTS`] ports.
    TooManyPorts,
    /// More than [`MAX_RULES`] session rules.
    TooManyRules,
    /// `max_generation_size` is 0.
    NoGenerationSize,
    /// `max_block_octets` is 0 or more than [`MAX_BLOCK_OCTETS`].
    BlockOctets,
    /// `ses_max_gen` is 0 or more than [`MAX_SES_MAX_GEN`].
    SesMaxGen,
    /// A source's generation size is 0 or more than `max_generation_size`.
    GenerationSize,
    /// A rule names a port that the node does not have, or has no port to send on.
    RulePorts,
}

impl SettingsError {
    /// What is wrong, as a sentence.
    pub const fn message(self) -> &'static str {
        match self {
            Self::TooManyPorts => "there are more than 32 ports",
            Self::TooManyRules => "there are more than 64 sessions",
            Self::NoGenerationSize => "the largest generation size is 0",
            Self::BlockOctets => "the largest block is not between 1 and 2040 octets",
            Self::SesMaxGen => "ses_max_gen is not between 1 and 1024",
            Self::GenerationSize => {
                "a source's generation size is 0 or larger than the largest generation size"
            }
            Self::RulePorts => {
                "a session has no port to send on, or names one that the node does not have"
            }
        }
    }
}

impl Settings {
    /// The largest N in whole units of BLOCK_LEN, in octets.
    pub(super) fn max_block_octets(&self) -> usize {
        usize::from(self.max_block_octets).next_multiple_of(BLOCK_LEN_UNIT_OCTETS)
    }

    pub(super) fn check(
        &self,
        ports: &[PortSettings],
        rules: &[SessionRule],
    ) -> Result<(), SettingsError> {
        let block_octets = usize::from(self.max_block_octets);
        if ports.len() > MAX_PORTS {
            return Err(SettingsError::TooManyPorts);
        }
        if rules.len() > MAX_RULES {
            return Err(SettingsError::TooManyRules);
        }
        if self.max_generation_size == 0 {
            return Err(SettingsError::NoGenerationSize);
        }
        if block_octets == 0 || block_octets > MAX_BLOCK_OCTETS {
            return Err(SettingsError::BlockOctets);
        }
        if self.ses_max_gen == 0 || self.ses_max_gen > MAX_SES_MAX_GEN {
            return Err(SettingsError::SesMaxGen);
        }
        let exists = |port: PortId| usize::from(port.0) < ports.len();
        for rule in rules {
            let sends_on = match rule.role {
                Role::Source { generation_size, outputs, .. } => {
                    if generation_size == 0 || generation_size > self.max_generation_size {
                        return Err(SettingsError::GenerationSize);
                    }
                    outputs
                }
                Role::Forwarder { outputs } => outputs,
                Role::Destination { deliver, .. } => deliver,
            };
            if sends_on.is_empty() || !sends_on.iter().chain(rule.inputs.iter()).all(exists) {
                return Err(SettingsError::RulePorts);
            }
        }
        Ok(())
    }
}
