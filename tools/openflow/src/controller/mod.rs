//! A controller that joins islands of named data over a network that knows only IP.
//!
//! Behind a port of each switch is an island; its forwarder sends Interests for names that are not its own to the address of a gateway that
//! no host has. For each prefix that another island announces, the switch gets a flow: Interests for it go to that island's forwarder, at its
//! address and with the next router's Ethernet address. What comes back finds its way by IP alone.
//!
//! | mode | when flows are installed |
//! |---|---|
//! | [`Mode::Proactive`] | once a name is announced |
//! | [`Mode::Reactive`] | once a switch asks about an Interest, which is handed back when the flow is there |
//!
//! A switch that does not know our experimenter keeps the same flows but for those of names: it asks about each Interest, and each goes back with
//! the way it is to take.
//!
//! What islands say is in [`Announcement`]. Of two islands with one prefix the cheaper one serves it, until its switch's connection is lost or silent, a
//! port to it goes down, or its announcement is withdrawn or not renewed: all of them within [`Config::hold_ms`] and three times
//! [`Config::echo_ms`].
//!
//! [`Controller`] is a state machine without sockets; [`run`] drives it with some. What must outlive the process goes through [`StateStore`].

mod announcement;
mod config;
mod counters;
mod driver;
mod flows;
mod machine;
mod name;
mod rib;
mod routing;
mod store;
mod switch;

pub use announcement::{
    ANNOUNCEMENT_GROUP, ANNOUNCEMENT_PORT, Announcement, AnnouncementError, MAX_NAMES, Word,
};
pub use config::{
    Config, ConfigError, DatapathId, EXAMPLE, Island, Key, Mac, Matching, Mode, Program, StaticName,
};
pub use counters::Counters;
pub use driver::{DriverError, Final, run};
pub use flows::name_priority;
pub use machine::{ConnectionId, Controller};
pub use name::{MAX_PREFIX_OCTETS, Prefix, PrefixError, write_number};
pub use rib::{Change, IslandIndex, Rib, Route};
pub use store::{FileStore, MemoryStore, State, StateStore, StoreError, StoredRoute};
