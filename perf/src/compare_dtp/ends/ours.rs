//! Heddle's DTP.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use heddle_core::dtp::modern::{Identity, Pattern, public_key};
use heddle_dtp::{Congestion, Connector, DtpListener, Settings, Trust};

use super::{Role, client, ready, server};

/// Both ends know it: nothing is protected here.
const KEY: [u8; 32] = [5; 32];

pub fn run(congestion: Congestion, address: SocketAddr, role: Role) -> io::Result<()> {
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
            server(&mut stream)?;
            stream.shutdown(Shutdown::Write)?;
            // The client ends the flow; it has heard everything then.
            stream.set_read_timeout(Some(Duration::from_secs(5)));
            let _ = io::Read::read(&mut stream, &mut [0]);
            Ok(())
        }
        Role::Client(task) => {
            let connector = Connector::with_settings(Trust::Key(public_key(&KEY)), &settings)?;
            let mut stream = connector.connect(address)?;
            client(&mut stream, task)?;
            stream.shutdown(Shutdown::Write)?;
            if task.download {
                // What was said last has to arrive.
                stream.set_read_timeout(Some(Duration::from_secs(5)));
                let _ = io::Read::read(&mut stream, &mut [0]);
            }
            Ok(())
        }
    }
}
