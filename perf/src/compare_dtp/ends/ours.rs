//! Heddle's DTP.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use heddle_core::dtp::modern::{Identity, Pattern, public_key};
use heddle_dtp::{Congestion, Connector, DtpListener, Settings, Trust};

use super::{Role, client, ready, server};

/// Both ends know it: nothing is protected here.
const KEY: [u8; 32] = [5; 32];

/// For how long an end is heard out.
const GOODBYE: Duration = Duration::from_secs(5);

pub fn run(congestion: Congestion, address: SocketAddr, role: Role) -> io::Result<Instant> {
    let settings = Settings { congestion, ..Settings::default() };
    match role {
        Role::Server => {
            let settings = Settings {
                identity: Identity { private: Some(KEY), server: None, pre_shared: None },
                patterns: vec![Pattern::KnownServer],
                ..settings
            };
            let listener = DtpListener::bind(address, &settings)?;
            ready();
            let (mut stream, _) = listener.accept()?;
            let done = server(&mut stream)?;
            drop(stream);
            listener.endpoint().wait_idle(GOODBYE);
            Ok(done)
        }
        Role::Client(task) => {
            let connector = Connector::with_settings(Trust::Key(public_key(&KEY)), &settings)?;
            let mut stream = connector.connect(address)?;
            let done = client(&mut stream, task)?;
            drop(stream);
            connector.endpoint().wait_idle(GOODBYE);
            Ok(done)
        }
    }
}
