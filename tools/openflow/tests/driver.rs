//! Connections over real sockets: to a switch and from it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod host;

use heddle_core::node::PortId;
use heddle_openflow::client::{Client, ClientError};
use heddle_openflow::driver::{FailMode, Settings};
use heddle_openflow::{
    Body, Experiment, Field, FlowFilter, FlowMod, Match, Message, Oxm, Parameter, PortNumber,
    ReplyBody, Request, Role,
};
use host::switch::to;
use host::{Host, LONG, address, connect, until};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

fn elf(octets: usize) -> Vec<u8> {
    let mut elf = b"\x7fELF".to_vec();
    elf.extend((0..octets - 4).map(|at| (at * 7) as u8));
    elf
}

fn quick() -> Settings {
    Settings {
        listen: vec![address("tcp:127.0.0.1:0")],
        echo_interval: Duration::from_millis(200),
        silence_limit: Duration::from_secs(1),
        hello_limit: Duration::from_secs(1),
        min_delay: Duration::from_millis(20),
        max_delay: Duration::from_millis(100),
        fail_after: Duration::from_millis(200),
        ..Settings::default()
    }
}

#[test]
fn programs_of_any_length_arrive() {
    let host = Host::listening();
    let mut client = host.connect();
    assert_eq!(client.features().datapath_id, 0x99);
    for (program, octets) in [(1, 64 << 10), (2, 200 << 10), (3, 65_511), (4, 65_512), (5, 1 << 20)]
    {
        client.put_program(program, &elf(octets)).unwrap();
        assert_eq!(client.program(program).unwrap(), elf(octets), "{octets}");
    }
    let lengths: Vec<u32> = client.programs().unwrap().iter().map(|stats| stats.octets).collect();
    assert_eq!(lengths, [64 << 10, 200 << 10, 65_511, 65_512, 1 << 20]);
    client.set_parameter(1, 9, &[5; 8000]).unwrap();
    client.delete_program(1).unwrap();
    let error = client.delete_program(1).unwrap_err();
    assert_eq!(error.refusal(), Some(Experiment::UNKNOWN_PROGRAM));
    assert_eq!(
        error.to_string(),
        "the switch refuses because there is no program 1 (EXPERIMENTER/1)"
    );
    let error = client.put_program(1, b"nonsense").unwrap_err().to_string();
    assert!(error.contains("program 1 is not taken: it is no ELF file"), "{error}");
}

#[test]
fn flows_with_names_are_added_told_and_deleted() {
    let host = Host::listening();
    let mut client = host.connect();
    let name = |number: u32| {
        let mut name = vec![8, 200];
        name.extend([7; 196]);
        name.extend(number.to_be_bytes());
        name
    };
    let matching = |number| Match::default().and(Oxm::Name(name(number)));
    // More than one message can tell.
    client
        .change_all((0..1500).map(|n| Body::FlowMod(FlowMod::add(0, 5, matching(n), to(2)))))
        .unwrap();
    let parts = client.multipart(Request::Flows(FlowFilter::covering(Match::default()))).unwrap();
    assert!(parts.len() > 1);
    let flows = client.flows(FlowFilter::covering(Match::default())).unwrap();
    assert_eq!(flows.len(), 1500);
    assert!(flows.iter().all(|flow| flow.instructions == to(2)));
    client.flow_mod(FlowMod::delete_all(255, matching(77))).unwrap();
    assert_eq!(client.flows(FlowFilter::covering(Match::default())).unwrap().len(), 1499);
    // A longer name than one field holds.
    let long = Match::default().and(Oxm::Name([name(1), name(2), name(3)].concat()));
    client.flow_mod(FlowMod::add(0, 5, long.clone(), to(2))).unwrap();
    assert_eq!(client.flows(FlowFilter::covering(long.clone())).unwrap()[0].matching, long);
    // All below the first component.
    client.flow_mod(FlowMod::delete_all(255, matching(1))).unwrap();
    assert_eq!(client.flows(FlowFilter::covering(long)).unwrap(), []);
    let by_program =
        Oxm::Program { program: 9, result: 1, masks: None, parameter: Parameter::NONE };
    let error = client.flow_mod(FlowMod::add(0, 5, Match::default().and(by_program), to(2)));
    assert_eq!(
        error.unwrap_err().to_string(),
        "the switch refuses because a field of the match has a value that it cannot have (BAD_MATCH/BAD_VALUE)"
    );
    client.flow_mod(FlowMod::delete_all(255, Match::default())).unwrap();
    assert_eq!(
        client.multipart(Request::Aggregate(FlowFilter::covering(Match::default()))).unwrap(),
        [ReplyBody::Aggregate(Default::default())]
    );
}

#[test]
fn ipv6_carries_it_as_well() {
    let settings = Settings { listen: vec![address("tcp:[::1]:0")], ..Settings::default() };
    let host = Host::new(settings, 8);
    let mut client = connect(&format!("tcp:{}", host.addresses[0]), None);
    assert_eq!(client.ports().unwrap().len(), 3);
    assert_eq!(client.port_stats(PortNumber::ANY).unwrap().len(), 3);
}

#[test]
fn a_switch_connects_to_its_controllers_again_and_again() {
    let (one, two) =
        (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("[::1]:0").unwrap());
    let controllers =
        [&one, &two].map(|listener| address(&format!("tcp:{}", listener.local_addr().unwrap())));
    let settings =
        Settings { controllers: controllers.to_vec(), fail_mode: FailMode::Standalone, ..quick() };
    let host = Host::new(settings, 8);
    let take =
        |listener: &TcpListener| Client::accept(listener.accept().unwrap().0, None, LONG).unwrap();
    let (mut first, mut second) = (take(&one), take(&two));
    assert_eq!(first.role(Role::Master, 1).unwrap(), (Role::Master, 1));
    assert_eq!(second.role(Role::NoChange, 0).unwrap(), (Role::Equal, 1));
    first.flow_mod(FlowMod::add(0, 5, Match::default(), to(2))).unwrap();
    assert_eq!(host.forward(), Some(PortId(1)));
    drop(first);
    let mut first = take(&one);
    // The flows have stayed, and roles are those of connections.
    assert_eq!(first.flows(FlowFilter::covering(Match::default())).unwrap().len(), 1);
    assert_eq!(first.role(Role::NoChange, 0).unwrap().0, Role::Equal);
    assert!(!host.on(|_, datapath| datapath.is_standalone));
    drop((first, second, one, two));
    until("the switch floods", || host.on(|_, datapath| datapath.is_standalone));
    assert_eq!(host.counters().standalone, 1);
    // One of them comes back.
    let back = TcpListener::bind((controllers[0].host.as_str(), controllers[0].port)).unwrap();
    let client = take(&back);
    until("the switch goes by its flows", || !host.on(|_, datapath| datapath.is_standalone));
    drop(client);
    assert!(host.counters().connected >= 4);
}

#[test]
fn controllers_have_names() {
    // A name may stand for several addresses, of which one answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let controllers =
        vec![address(&format!("tcp:localhost:{port}")), address("tcp:no.such.host.invalid:1")];
    let host = Host::new(Settings { controllers, ..quick() }, 8);
    let mut client = Client::accept(listener.accept().unwrap().0, None, LONG).unwrap();
    client.barrier().unwrap();
    until("the name that stands for nothing is counted", || {
        client.barrier().unwrap();
        host.counters().unreachable > 0
    });
    let there: Vec<bool> = host.on(|driver, _| driver.controllers().map(|(_, is)| is).collect());
    assert_eq!(there, [true, false]);
}

#[test]
fn who_is_silent_slow_or_half_said_is_let_go_and_nobody_else() {
    let host = Host::new(quick(), 64);
    let mut good = host.connect();
    // Says hello and nothing more, not even to the echo request.
    let mut silent = TcpStream::connect(host.addresses[0]).unwrap();
    silent.write_all(&[4, 0, 0, 8, 0, 0, 0, 1]).unwrap();
    // Says nothing at all.
    let mute = TcpStream::connect(host.addresses[0]).unwrap();
    // Half a message, octet by octet.
    let mut loris = TcpStream::connect(host.addresses[0]).unwrap();
    loris.write_all(&[4, 0, 0, 8, 0, 0, 0, 1, 4, 2, 0xff, 0xff]).unwrap();
    until("all three are gone", || {
        let _ = loris.write_all(&[0]);
        // It is there: it asks for something.
        good.barrier().unwrap();
        let counters = host.counters();
        counters.silent >= 2 && counters.no_hello >= 1
    });
    for mut stream in [silent, mute] {
        stream.set_read_timeout(Some(LONG)).unwrap();
        let mut said = Vec::new();
        stream.read_to_end(&mut said).unwrap();
    }
    until("one connection is left", || {
        good.barrier().unwrap();
        host.on(|driver, _| driver.connections()) == 1
    });
}

#[test]
fn who_does_not_read_holds_up_nobody() {
    let host = Host::new(quick(), 64);
    let mut good = host.connect();
    let mut deaf = TcpStream::connect(host.addresses[0]).unwrap();
    deaf.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut echo = Message::new(1, Body::EchoRequest(vec![0; 60_000])).encode().unwrap();
    let mut said = vec![4, 0, 0, 8, 0, 0, 0, 1];
    said.append(&mut echo);
    let echo = said.split_off(8);
    deaf.write_all(&said).unwrap();
    until("the one who does not read is gone", || {
        let _ = deaf.write_all(&echo);
        good.barrier().unwrap();
        let counters = host.counters();
        counters.silent + counters.slow + counters.closed >= 1
    });
    good.flow_mod(FlowMod::add(0, 5, Match::default(), to(2))).unwrap();
    assert_eq!(host.forward(), Some(PortId(1)));
}

#[test]
fn connections_are_bounded() {
    let host = Host::new(Settings { max_connections: 2, ..quick() }, 8);
    let (mut one, mut two) = (host.connect(), host.connect());
    let error = Client::connect(&address(&format!("tcp:{}", host.addresses[0])), None, LONG);
    assert!(matches!(error, Err(ClientError::Closed | ClientError::Io(_))), "{error:?}");
    one.barrier().unwrap();
    two.barrier().unwrap();
    drop(one);
    until("there is room again", || {
        two.barrier().unwrap();
        host.on(|driver, _| driver.connections()) == 1
    });
    host.connect().barrier().unwrap();
}

#[test]
fn who_says_no_hello_takes_nobodys_place() {
    let settings = Settings { max_connections: 2, ..quick() };
    let host = Host::new(Settings { hello_limit: LONG, ..settings }, 8);
    let mute: Vec<TcpStream> =
        (0..5).map(|_| TcpStream::connect(host.addresses[0]).unwrap()).collect();
    let (mut one, mut two) = (host.connect(), host.connect());
    one.barrier().unwrap();
    two.barrier().unwrap();
    assert_eq!(host.counters().no_hello, 5);
    drop(mute);
}

#[test]
fn many_refusals_are_all_read() {
    let host =
        Host::new(Settings { listen: vec![address("tcp:127.0.0.1:0")], ..Settings::default() }, 8);
    let mut client = host.connect();
    let flow = |n: u16| {
        Body::FlowMod(FlowMod::add(
            0,
            n,
            Match::default().exactly(Field::EthType, &n.to_be_bytes()),
            to(2),
        ))
    };
    let error = client.change_all((1..20_000).map(flow)).unwrap_err().to_string();
    assert_eq!(
        error,
        "the switch refuses because it has no room for a further flow (FLOW_MOD_FAILED/TABLE_FULL)"
    );
    assert_eq!(client.flows(FlowFilter::covering(Match::default())).unwrap().len(), 8);
}

#[test]
fn packets_come_to_a_client_that_waits_for_them() {
    let host = Host::listening();
    let mut client = host.connect();
    client.flow_mod(FlowMod::add(0, 0, Match::default(), to(0xffff_fffd))).unwrap();
    host.forward();
    let event = client.next_event(LONG).unwrap().unwrap();
    let Body::PacketIn(packet) = event.body else { panic!("{event:?}") };
    assert_eq!((packet.in_port(), packet.data.len()), (Some(PortNumber(1)), 60));
    assert_eq!(packet.matching.exact(Field::InPort), Some(&[0, 0, 0, 1][..]));
}
