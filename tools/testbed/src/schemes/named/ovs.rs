//! Open vSwitch at a site: its database, its daemon with packets in user space, and a bridge of two ports.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::programs::Places;
use super::sites::{CONTROLLER, CONTROLLER_PORT, Site, Sites};
use crate::error::{Error, Result};
use crate::namespace::call;
use crate::process::Process;
use crate::shutdown::Shutdown;

/// The form of the database, where packages put it.
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

const READY_WITHIN: Duration = Duration::from_secs(30);

/// Starts an Open vSwitch at a site, with the same numbers and addresses as a switch of ours.
///
/// # Errors
/// When it does not get ready.
pub fn start_ovs(
    sites: &Sites,
    places: &Places,
    site: &Site,
    shutdown: &Shutdown,
) -> Result<Vec<Process>> {
    let directory = places.directory.join(format!("ovs-{}", site.name));
    // One run after the other begins with an empty database.
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).map_err(Error::at("make", &directory))?;
    let (database, socket) = (directory.join("conf.db"), directory.join("db.sock"));
    let remote = format!("unix:{}", socket.display());
    call("ovsdb-tool", &["create", &database.to_string_lossy(), SCHEMA], "")?;

    let namespace = sites.switch(site);
    let daemon = |name: &str| {
        let mut command = Command::new(name);
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"] {
            command.env(variable, &directory);
        }
        command
    };
    let mut server = daemon("ovsdb-server");
    server.arg(format!("--remote=punix:{}", socket.display())).arg(&database);
    let name = |what: &str| format!("{what}-{}", site.name);
    let server = Process::start(&name("ovsdb"), &namespace, server, &places.directory)?;
    wait_for(&socket, &server, shutdown)?;
    let database = format!("--db={remote}");
    call("ovs-vsctl", &[&database, "--no-wait", "init"], "")?;
    let mut switch = daemon("ovs-vswitchd");
    switch.arg(&remote);
    let switch = Process::start(&name("ovs"), &namespace, switch, &places.directory)?;
    let controller = format!("tcp:{CONTROLLER}:{CONTROLLER_PORT}");
    let number = format!("other-config:datapath-id={:016x}", site.number);
    #[rustfmt::skip]
    let bridge = [
        &database, "--timeout=30",
        "add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev", "fail_mode=secure", "protocols=OpenFlow13", &number,
        "--", "add-port", "br0", "island", "--", "set", "interface", "island", "ofport_request=1",
        "--", "add-port", "br0", "network", "--", "set", "interface", "network", "ofport_request=2",
        "--", "set-controller", "br0", &controller, "ptcp:6654:127.0.0.1",
    ];
    call("ovs-vsctl", &bridge, "")?;
    Ok(vec![switch, server])
}

fn wait_for(socket: &Path, server: &Process, shutdown: &Shutdown) -> Result<()> {
    let start = Instant::now();
    while !socket.exists() {
        shutdown.sleep(Duration::from_millis(20))?;
        if start.elapsed() > READY_WITHIN {
            return Err(Error::Process {
                name: "ovsdb-server".into(),
                what: "was not ready in time".into(),
                log: server.log(),
            });
        }
    }
    Ok(())
}
