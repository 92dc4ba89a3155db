//! A switch that others have written: Open vSwitch with a datapath of its own, driven by our client. `tools/setup --tests` installs it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use heddle_openflow::client::Client;
use heddle_openflow::{
    Action, Body, Bucket, Field, FlowFilter, FlowMod, GroupCommand, GroupId, GroupMod, GroupType,
    Instruction, Match, Oxm, PacketOut, PortNumber, ReplyBody, Request, Role,
};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// Processes that end with the test.
struct Processes(Vec<Child>);

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn command(name: &str, directory: &Path) -> Command {
    let mut command = Command::new(name);
    for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
        command.env(variable, directory);
    }
    command.current_dir(directory).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Starts the switch, with a bridge that connects to a controller at this port.
fn start(directory: &Path, controller: u16) -> Processes {
    let there = "it is there: tools/setup --tests installs it";
    let created = command("ovsdb-tool", directory).args(["create", "conf.db", SCHEMA]).status();
    assert!(created.expect(there).success());
    let socket = format!("unix:{}", directory.join("db.sock").display());
    let database = command("ovsdb-server", directory)
        .args(["conf.db", &format!("--remote=p{socket}"), "--unixctl=db.ctl"])
        .spawn()
        .expect(there);
    let mut processes = Processes(vec![database]);
    let switch = command("ovs-vswitchd", directory)
        .args([
            "--enable-dummy=override",
            "--disable-system",
            "--disable-system-route",
            "--unixctl=switch.ctl",
            &socket,
        ])
        .spawn()
        .expect(there);
    processes.0.push(switch);
    let end = Instant::now() + LONG;
    loop {
        let done = command("ovs-vsctl", directory)
            .args([&format!("--db={socket}"), "--timeout=5", "--may-exist", "add-br", "br0"])
            .args(["--", "set", "bridge", "br0", "datapath_type=dummy", "protocols=OpenFlow13"])
            .args(["fail_mode=secure", "other-config:datapath-id=00000000000000ab"])
            .args([
                "--",
                "--may-exist",
                "add-port",
                "br0",
                "p1",
                "--",
                "set",
                "interface",
                "p1",
                "type=dummy",
                "ofport_request=1",
            ])
            .args([
                "--",
                "--may-exist",
                "add-port",
                "br0",
                "p2",
                "--",
                "set",
                "interface",
                "p2",
                "type=dummy",
                "ofport_request=2",
            ])
            .args(["--", "set-controller", "br0", &format!("tcp:127.0.0.1:{controller}")])
            .status()
            .expect(there);
        if done.success() {
            return processes;
        }
        assert!(Instant::now() < end, "Open vSwitch does not begin");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn our_client_drives_it() {
    let directory = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let processes = start(directory.path(), listener.local_addr().unwrap().port());
    let mut client = Client::accept(listener.accept().unwrap().0, None, LONG).unwrap();
    assert_eq!(client.features().datapath_id, 0xab);
    assert_eq!(client.role(Role::Master, 1).unwrap(), (Role::Master, 1));
    assert!(client.description().unwrap().manufacturer.contains("Nicira"));
    let ports = client.ports().unwrap();
    assert!(ports.iter().any(|port| (port.number, &port.name[..]) == (1, "p1")), "{ports:?}");
    let bucket = Bucket {
        weight: 0,
        watch_port: PortNumber(2),
        watch_group: GroupId::ANY,
        actions: vec![Action::Output { port: PortNumber(2), max_len: 0 }],
    };
    let (kind, group) = (GroupType::FastFailover, GroupId(7));
    let add = GroupMod { command: GroupCommand::Add, kind, group, buckets: vec![bucket] };
    client.change(Body::GroupMod(add)).unwrap();
    let matching = Match::default()
        .exactly(Field::InPort, &[0, 0, 0, 1])
        .exactly(Field::EthType, &[8, 0])
        .exactly(Field::IpProto, &[17])
        .exactly(Field::UdpDst, &6363u16.to_be_bytes());
    let instructions = vec![Instruction::ApplyActions(vec![
        Action::SetField(Oxm::Basic {
            field: Field::Ipv4Dst,
            value: vec![10, 0, 0, 9],
            mask: None,
        }),
        Action::Group(group),
    ])];
    client.flow_mod(FlowMod::add(0, 9, matching.clone(), instructions.clone())).unwrap();
    let packet = "5054000000015054000000020800450000240000000040116ac601010101020202020001\
                  18db001000000504070208000000";
    client
        .packet_out(PacketOut {
            buffer: heddle_openflow::NO_BUFFER,
            in_port: PortNumber(1),
            actions: vec![Action::Output { port: PortNumber::TABLE, max_len: 0 }],
            data: hex::decode(packet).unwrap(),
        })
        .unwrap();
    client.barrier().unwrap();
    let end = Instant::now() + LONG;
    loop {
        let flows = client.flows(FlowFilter::covering(Match::default())).unwrap();
        assert_eq!(flows.len(), 1);
        assert_eq!((&flows[0].matching, &flows[0].instructions), (&matching, &instructions));
        if flows[0].packets == 1 {
            break;
        }
        assert!(Instant::now() < end, "the flow has matched nothing");
        std::thread::sleep(Duration::from_millis(50));
    }
    for request in [
        Request::Groups,
        Request::GroupStats(GroupId::ALL),
        Request::GroupFeatures,
        Request::Tables,
        Request::TableFeatures(Vec::new()),
        Request::Queues(PortNumber::ANY, u32::MAX),
        Request::Meters(u32::MAX),
        Request::MeterFeatures,
    ] {
        let parts = client.multipart(request.clone()).unwrap();
        assert!(!parts.is_empty(), "{request:?}");
        if let [ReplyBody::GroupStats(groups)] = &parts[..] {
            assert_eq!((groups[0].group, groups[0].packets), (group, 1));
        }
    }
    // What it does not know, it says.
    let error = client.put_program(1, b"\x7fELF").unwrap_err().to_string();
    assert_eq!(
        error,
        "the switch refuses because it does not know this experimenter (BAD_REQUEST/BAD_EXPERIMENTER)"
    );
    let by_name = Match::default().and(Oxm::Name(b"\x08\x01a".to_vec()));
    let error = client.flow_mod(FlowMod::add(0, 9, by_name, Vec::new())).unwrap_err().to_string();
    assert!(error.contains("BAD_MATCH/BAD_FIELD"), "{error}");
    client.flow_mod(FlowMod::delete_all(255, Match::default())).unwrap();
    assert_eq!(client.flows(FlowFilter::covering(Match::default())).unwrap(), []);
    drop(processes);
}
