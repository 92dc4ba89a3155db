//! What a controller is told: which islands there are, behind which switches, and how to reach them.

use std::fmt;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use heddle_core::ndn::NDN_PORT;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::name::Prefix;
use crate::TlsFiles;

/// A configuration that says what everything in it means.
pub const EXAMPLE: &str = include_str!("example.toml");

/// A file with more octets is none.
const MAX_FILE_OCTETS: u64 = 16 << 20;

/// When flows are installed.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// As soon as a name is known, before there is traffic for it.
    #[default]
    Proactive,
    /// When a switch sees the first Interest for it.
    Reactive,
}

/// How switches of ours find a name in a packet.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Matching {
    /// By their own look-up of name prefixes.
    #[default]
    Name,
    /// By a program that the controller sends, with the name as its parameter.
    Program,
}

/// A number of a switch, as 16 hexadecimal digits with or without colons.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatapathId(pub u64);

/// An Ethernet address, as six pairs of hexadecimal digits with colons.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mac(pub [u8; 6]);

/// The configuration of a controller.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// When flows are installed.
    #[serde(default)]
    pub mode: Mode,
    /// Where switches connect to: `tcp:ADDRESS:PORT` or `tls:ADDRESS:PORT`.
    #[serde(default)]
    pub listen: Vec<String>,
    /// Certificates and key, for `tls`.
    pub tls: Option<TlsFiles>,
    /// Where islands send announcements directly, by UDP; nothing for only through their switches.
    pub announcements: Option<SocketAddr>,
    /// Where state is kept; nothing for in memory alone.
    pub state: Option<PathBuf>,
    /// The address that forwarders send Interests for other islands to. No host has it.
    pub gateway: Ipv4Addr,
    /// How switches of ours find names.
    #[serde(default)]
    pub matching: Matching,
    /// The program, for [`Matching::Program`].
    pub program: Option<Program>,
    /// Milliseconds after which a name that is not announced again is taken back; 0 is never.
    #[serde(default = "default_hold_ms")]
    pub hold_ms: u64,
    /// Milliseconds between signs of life that a switch is asked for; without any for three times as long it is gone.
    #[serde(default = "default_echo_ms")]
    pub echo_ms: u64,
    /// Names that an island may announce, at most.
    #[serde(default = "default_max_names")]
    pub max_names: usize,
    /// The islands.
    #[serde(default, rename = "island")]
    pub islands: Vec<Island>,
}

/// A match program to send to switches.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Its number on the switches.
    #[serde(default = "default_program")]
    pub id: u32,
    /// The ELF file.
    pub file: PathBuf,
}

/// An island of named data behind a port of a switch.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Island {
    /// What people call it.
    pub name: String,
    /// The switch.
    pub datapath_id: DatapathId,
    /// The switch's port to the island.
    #[serde(default = "default_island_port")]
    pub island_port: u32,
    /// The switch's port to the other islands.
    #[serde(default = "default_network_port")]
    pub network_port: u32,
    /// The address of the island's forwarder: the end of the tunnel.
    pub forwarder: Ipv4Addr,
    /// The UDP port of the forwarder.
    #[serde(default = "default_port")]
    pub port: u16,
    /// The forwarder's Ethernet address, for packets that the switch hands to it from an island of its own.
    pub mac: Option<Mac>,
    /// The Ethernet address of the next router towards the other islands; nothing to leave what the forwarder wrote.
    pub next_hop: Option<Mac>,
    /// The TTL of packets sent to other islands.
    #[serde(default = "default_ttl")]
    pub ttl: u8,
    /// The cost of names that are announced without one.
    #[serde(default)]
    pub cost: u64,
    /// The key of HMAC-SHA256 that prefix announcements are signed with, in hexadecimal; nothing for a digest alone.
    pub key: Option<Key>,
    /// Names that it serves without announcing them.
    #[serde(default)]
    pub names: Vec<StaticName>,
}

/// A name that an island always serves.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StaticName {
    /// The prefix.
    pub name: Prefix,
    /// Its cost.
    #[serde(default)]
    pub cost: u64,
}

/// A secret that is not shown.
#[derive(Clone)]
pub struct Key(pub Vec<u8>);

const fn default_hold_ms() -> u64 {
    900
}
const fn default_echo_ms() -> u64 {
    250
}
const fn default_max_names() -> usize {
    100_000
}
const fn default_program() -> u32 {
    1
}
const fn default_island_port() -> u32 {
    1
}
const fn default_network_port() -> u32 {
    2
}
const fn default_port() -> u16 {
    NDN_PORT
}
const fn default_ttl() -> u8 {
    128
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not of the form that it must have.
    #[error("{path}: {reason}")]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        reason: String,
    },
    /// What it says cannot be.
    #[error("{0}")]
    Meaning(String),
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let mut text = String::new();
        std::fs::File::open(path)
            .and_then(|file| file.take(MAX_FILE_OCTETS + 1).read_to_string(&mut text))
            .map_err(|source| ConfigError::Io { path: path.into(), source })?;
        if text.len() as u64 > MAX_FILE_OCTETS {
            let reason = "it is larger than 16 MiB".into();
            return Err(ConfigError::Form { path: path.into(), reason });
        }
        Self::parse(&text).map_err(|error| match error {
            ConfigError::Meaning(reason) => ConfigError::Form { path: path.into(), reason },
            other => other,
        })
    }

    /// Reads and checks a text.
    ///
    /// # Errors
    /// [`ConfigError::Meaning`].
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let config: Self =
            toml::from_str(text).map_err(|error| ConfigError::Meaning(error.to_string()))?;
        config.check().map_err(ConfigError::Meaning)?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        if self.matching == Matching::Program && self.program.is_none() {
            return Err("matching = \"program\" needs a [program]".into());
        }
        if self.echo_ms == 0 {
            return Err("echo_ms must be at least 1".into());
        }
        for (index, island) in self.islands.iter().enumerate() {
            let earlier = self.islands.get(..index).unwrap_or_default();
            let name = &island.name;
            if island.island_port == island.network_port {
                return Err(format!("island {name}: both of its ports are {}", island.island_port));
            }
            if earlier.iter().any(|other| other.name == *name) {
                return Err(format!("there are two islands called {name}"));
            }
            let place = |island: &Island| (island.datapath_id, island.island_port);
            if let Some(other) = earlier.iter().find(|other| place(other) == place(island)) {
                return Err(format!(
                    "the islands {} and {name} are behind the same port {} of switch {}",
                    other.name, island.island_port, island.datapath_id
                ));
            }
            if let Some(other) = earlier.iter().find(|other| other.forwarder == island.forwarder) {
                return Err(format!(
                    "the islands {} and {name} have the same forwarder {}",
                    other.name, island.forwarder
                ));
            }
        }
        Ok(())
    }

    /// How long an announcement holds; nothing for ever.
    pub fn hold(&self) -> Option<Duration> {
        (self.hold_ms > 0).then(|| Duration::from_millis(self.hold_ms))
    }
}

impl FromStr for DatapathId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.replace(':', "");
        let digits = digits.strip_prefix("0x").unwrap_or(&digits);
        let is_whole = (1..=16).contains(&digits.len());
        match u64::from_str_radix(digits, 16) {
            Ok(id) if is_whole => Ok(Self(id)),
            _ => Err(format!(
                "'{text}' is no switch's number: up to 16 hexadecimal digits, as in 00:00:00:00:00:00:00:01"
            )),
        }
    }
}

impl fmt::Display for DatapathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        colons(&self.0.to_be_bytes(), f)
    }
}

impl FromStr for Mac {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pairs: Vec<u8> = text
            .split(':')
            .map_while(|pair| u8::from_str_radix(pair, 16).ok().filter(|_| pair.len() == 2))
            .collect();
        <[u8; 6]>::try_from(pairs)
            .ok()
            .filter(|_| text.len() == 17)
            .map(Self)
            .ok_or_else(|| format!("'{text}' is no Ethernet address, as in 02:00:00:00:00:01"))
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        colons(&self.0, f)
    }
}

fn colons(octets: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    octets.iter().enumerate().try_for_each(|(at, octet)| {
        let colon = if at == 0 { "" } else { ":" };
        write!(f, "{colon}{octet:02x}")
    })
}

impl FromStr for Key {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let octet = |at| text.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
        let octets = (0..text.len()).step_by(2).map(octet).collect::<Option<Vec<u8>>>();
        match octets {
            Some(octets) if !octets.is_empty() => Ok(Self(octets)),
            _ => Err("a key is pairs of hexadecimal digits".into()),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

macro_rules! from_text {
    ($($name:ty)+) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
    )+};
}
from_text!(DatapathId Mac Key);

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        gateway = "192.0.2.1"
        [[island]]
        name = "tno"
        datapath_id = "00:00:00:00:00:00:00:0a"
        forwarder = "10.1.0.2"
        next_hop = "02:00:00:00:00:01"
        key = "00ff"
        names = [{ name = "/tno" }]
        [[island]]
        name = "csu"
        datapath_id = "b"
        forwarder = "10.2.0.2"
    "#;

    #[test]
    fn a_configuration_has_defaults() {
        let config = Config::parse(TEXT).unwrap();
        assert_eq!((config.mode, config.matching), (Mode::Proactive, Matching::Name));
        assert_eq!(config.hold(), Some(Duration::from_millis(900)));
        let [tno, csu] = &config.islands[..] else { panic!("two islands") };
        assert_eq!(tno.datapath_id.to_string(), "00:00:00:00:00:00:00:0a");
        assert_eq!((tno.island_port, tno.network_port, tno.port, tno.ttl), (1, 2, 6363, 128));
        assert_eq!(tno.next_hop.unwrap().to_string(), "02:00:00:00:00:01");
        assert_eq!(tno.key.as_ref().unwrap().0, [0, 255]);
        assert_eq!(csu.datapath_id, DatapathId(11));
    }

    #[test]
    fn the_example_is_right() {
        let config = Config::parse(EXAMPLE).unwrap();
        assert_eq!(config.islands.len(), 2);
        // What is commented out is right, too, and what is a default is shown as such.
        let all = EXAMPLE.replace("# program =", "program =").replace("# key =", "key =");
        let all = Config::parse(&all).unwrap();
        assert!(all.program.is_some() && all.islands[0].key.is_some());
        let bare = Config::parse(TEXT).unwrap();
        assert_eq!(
            (config.hold_ms, config.echo_ms, config.max_names, config.matching, config.mode),
            (bare.hold_ms, bare.echo_ms, bare.max_names, bare.matching, bare.mode)
        );
    }

    #[test]
    fn a_file_without_end_is_refused() {
        let error = Config::load(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(error.contains("larger than 16 MiB"), "{error}");
    }

    #[test]
    fn what_cannot_be_is_a_sentence() {
        let error = |from: &str, to: &str| {
            assert!(TEXT.contains(from), "{from}");
            Config::parse(&TEXT.replace(from, to)).unwrap_err().to_string()
        };
        for (from, to, sentence) in [
            ("\"csu\"", "\"tno\"", "there are two islands called tno"),
            ("10.2.0.2", "10.1.0.2", "the islands tno and csu have the same forwarder 10.1.0.2"),
            ("\"b\"", "\"a\"", "are behind the same port 1 of switch 00:00:00:00:00:00:00:0a"),
            ("\"b\"", "\"x\"", "'x' is no switch's number"),
            ("02:00:00:00:00:01", "2:0:0:0:0:1", "is no Ethernet address"),
            ("\"/tno\"", "\"tno\"", "a name begins with a slash"),
            ("00ff", "00f", "a key is pairs"),
            ("gateway", "gatewy", "unknown field `gatewy`"),
            (
                "[[island]]\n        name = \"tno\"",
                "matching = \"program\"\n[[island]]\nname = \"tno\"",
                "needs a [program]",
            ),
        ] {
            let said = error(from, to);
            assert!(said.contains(sentence), "{said}");
        }
    }
}
