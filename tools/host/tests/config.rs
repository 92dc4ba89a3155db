//! Good files mean what they say and survive being written; bad files say what is wrong and where.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::net::Ipv4Addr;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

use heddle_host::config::{
    Coded, Config, ConfigError, Device, Endpoint, FailMode, Forwarder, Generation, Hugepages, Idle,
    LogLevel, MAX_FLOWS, MAX_SESSIONS, MAX_TABLES_OCTETS, MalformedNames, PciAddress, PortIndex,
    ProgramRunner, Role, Sending, Source, Switch, Tls, Transport,
};

fn cases(directory: &str) -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(directory);
    let mut files: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

fn good(name: &str) -> Config {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/good").join(name);
    Config::load(file).unwrap_or_else(|error| panic!("{}", error.report(false)))
}

#[test]
fn every_bad_file_is_reported_with_place_and_remedy() {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("bad");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    for path in cases("bad") {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let error = Config::parse(&text, &name).expect_err(&name);
        for place in error.places() {
            assert!(place.line.is_some() && place.column.is_some(), "{place:?}");
        }
        settings.bind(|| insta::assert_snapshot!(name.as_str(), error.report(false)));
    }
}

#[test]
fn every_good_file_survives_being_written() {
    for path in cases("good") {
        let config = Config::load(&path).unwrap_or_else(|error| panic!("{}", error.report(false)));
        let text = config.to_toml().unwrap();
        let again = Config::parse(&text, "written")
            .unwrap_or_else(|error| panic!("{}", error.report(false)));
        assert_eq!(config, again, "{}", path.display());
    }
}

#[test]
fn defaults_are_filled_in() {
    let config = good("source.toml");
    assert_eq!(config.engine.idle, Idle::Sleep);
    assert_eq!(config.engine.hugepages, Hugepages::Auto);
    assert_eq!(config.engine.memory_mib, 64);
    assert_eq!(config.engine.mbufs, 4096);
    assert_eq!(config.engine.log, LogLevel::Info);
    assert_eq!(config.coded, Coded::default());
    assert_eq!(config.coded.ses_time_out, Duration::from_secs(180));
    assert_eq!(config.ports[0].rate_octets_per_s, None);
    assert_eq!(config.ports[1].rate_octets_per_s, NonZeroU64::new(45_000));
    let session = &config.sessions[0];
    assert_eq!((session.id, session.role.name()), (1, "source"));
    assert_eq!(session.source, Some(Ipv4Addr::new(10, 0, 0, 1)));
    assert_eq!(
        session.role,
        Role::Source(Source {
            inputs: vec![PortIndex(0)],
            outputs: vec![PortIndex(1), PortIndex(2)],
            generation: Generation::Datagram,
            generation_size: 3,
            redundancy: 0,
            flush: Duration::from_millis(20),
        })
    );
}

#[test]
fn what_the_file_says_is_what_is_meant() {
    let config = good("edge.toml");
    assert_eq!(config.engine.name, "edge-1.a_b");
    assert_eq!(config.engine.lcores, [2, 3]);
    assert_eq!(config.coded.sending, Sending::Literal);
    assert_eq!(config.coded.ses_time_out, Duration::from_secs(20));
    assert_eq!(
        config.ports[0].device,
        Device::Pci(PciAddress { domain: 0, bus: 0x3b, device: 0, function: 1 })
    );
    assert_eq!(config.ports[1].device, Device::Vdev("net_tap0".into()));
    // A forwarder may send back on a link that it also hears, if the file says so.
    assert_eq!(
        config.sessions[0].role,
        Role::Forwarder(Forwarder {
            inputs: vec![PortIndex(0), PortIndex(1)],
            outputs: vec![PortIndex(0)],
        })
    );
    // A destination hears every port that it does not deliver to, and keeps the order of the file.
    assert_eq!(config.sessions[1].inputs(), [PortIndex(0)]);
    assert_eq!(config.sessions[1].outputs(), [PortIndex(2), PortIndex(1)]);
}

#[test]
fn a_switch_is_what_the_file_says() {
    let config = good("switch.toml");
    let address = |text: &str| text.parse().unwrap();
    let expected = Switch {
        max_flows: 1_000_000,
        max_name_octets: 6_000_000,
        max_instructions: 300,
        max_groups: 32,
        max_fragmented: 64,
        packet_in_queue: 512,
        packet_in_octets: 128,
        controllers: vec![
            Endpoint { transport: Transport::Tcp, address: address("192.0.2.1:6653") },
            Endpoint { transport: Transport::Tls, address: address("[2001:db8::1]:6653") },
        ],
        listen: vec![Endpoint { transport: Transport::Tcp, address: address("127.0.0.1:6654") }],
        fail_mode: FailMode::Standalone,
        programs: ProgramRunner::Interpret,
        malformed_names: MalformedNames::Pass,
        legacy: true,
        tls: Some(Tls {
            certificate: "west.pem".into(),
            key: "west.key".into(),
            authority: "ca.pem".into(),
        }),
        ..Switch::new(42)
    };
    assert_eq!(config.switch, Some(expected));
    assert_eq!(config.ports[0].mtu_octets, 1514);
    assert_eq!(config.ports[1].mtu_octets, 1400);
    // What a file does not say is the default.
    let least = good("switch-least.toml").switch.unwrap();
    assert_eq!(least, Switch { listen: least.listen.clone(), ..Switch::new(42) });
}

#[test]
fn tables_that_fit_no_machine_are_refused() {
    let mut config = good("switch.toml");
    let switch = config.switch.as_ref().unwrap();
    let (one, all) = (switch.tables_octets(), config.tables_octets());
    // A copy for each of two workers, and one to compare with.
    assert_eq!(all, one * 3);
    assert!(one > 1_000_000 * 100, "{one}");
    config.switch.as_mut().unwrap().max_flows = MAX_FLOWS;
    config.engine.lcores = (0..128).collect();
    assert!(config.tables_octets() > MAX_TABLES_OCTETS);
    let text = config.to_toml().unwrap();
    let error = Config::parse(&text, "large").unwrap_err();
    let [problem] = error.problems() else { panic!("{}", error.report(false)) };
    assert!(problem.message().starts_with("the tables would take "), "{}", problem.message());
    assert!(problem.what_to_do().unwrap().contains("name fewer lcores"));
}

#[test]
fn more_ports_than_an_engine_has_are_refused() {
    let mut text = "[engine]\nname = 'E'\nlcores = [0]\n".to_owned();
    for n in 0..32 {
        text += &format!("[[port]]\nname = 'p{n}'\nvdev = 'net_tap{n}'\n");
    }
    assert_eq!(Config::parse(&text, "32").unwrap().ports.len(), 32);
    text += "[[port]]\nname = 'p32'\nvdev = 'net_tap32'\n";
    let error = Config::parse(&text, "33").unwrap_err();
    assert_eq!(error.problems().len(), 1);
    assert_eq!(error.problems()[0].message(), "33 ports are more than an engine can have");
    assert_eq!(error.places()[0].line, Some(3 + 32 * 3 + 2));
}

/// Forwarders of any source, and of one that is named.
fn forwarders(any: usize, named: usize, max_sessions: usize) -> Result<Config, Box<ConfigError>> {
    let mut text = format!(
        "[engine]\nname = 'E'\nlcores = [0]\n[coded]\nmax_sessions = {max_sessions}\n\
         [[port]]\nname = 'a'\nvdev = 'net_tap0'\n[[port]]\nname = 'b'\nvdev = 'net_tap1'\n"
    );
    for id in 0..any + named {
        let source = if id < any { "" } else { "source = '10.0.0.1'\n" };
        text += &format!(
            "[[session]]\nrole = 'forwarder'\nid = {id}\n{source}group = '239.0.0.1'\noutputs = ['a']\n"
        );
    }
    Config::parse(&text, "forwarders")
}

#[test]
fn more_sessions_than_there_is_room_for_are_refused() {
    for (any, named, max_sessions, message) in [
        (3, 9, 2, "3 sessions of any source are more than `max_sessions` has room for"),
        (1, MAX_SESSIONS, 1, "65 sessions are more than an engine can have"),
    ] {
        let fits = forwarders(any, named - 1, max_sessions.max(any)).unwrap();
        assert_eq!(fits.sessions.len(), any + named - 1);
        let error = forwarders(any, named, max_sessions).unwrap_err();
        let [problem] = error.problems() else { panic!("{}", error.report(false)) };
        assert_eq!(problem.message(), message);
    }
}

#[test]
fn generations_are_held_for_each_session_that_can_turn_up() {
    // One session of any source: so many sources can turn up as there is room for, beside those that are named.
    let any = forwarders(1, 2, 5).unwrap();
    assert_eq!(any.session_places(), 7);
    let octets = any.generations_octets();
    // 150 generations of 16 blocks of 1480 octets in each session, and what it takes to solve for them.
    let blocks = 7 * 150 * 16 * 1480;
    assert!((blocks..blocks * 3).contains(&octets), "{octets}");
    // Nobody but the sources that are named.
    assert_eq!(forwarders(0, 2, 5).unwrap().session_places(), 2);
    assert_eq!(forwarders(0, 2, 5).unwrap().generations_octets(), octets / 7 * 2);
}

#[test]
fn a_configuration_that_no_file_can_say_is_not_written() {
    let mut config = good("source.toml");
    if let Role::Source(source) = &mut config.sessions[0].role {
        source.outputs.push(PortIndex(3));
    }
    let error = config.to_toml().unwrap_err().to_string();
    assert_eq!(error, "session 1 names port number 3, and there are 3 ports");
}

#[test]
fn files_that_cannot_be_read_say_why() {
    let directory = tempfile::tempdir().unwrap();
    let report = |path: &Path| {
        let error = Config::load(path).unwrap_err();
        assert!(error.problems().is_empty());
        assert_eq!(error.places()[0].line, None);
        error.to_string()
    };
    let path = directory.path().join("none.toml");
    assert!(report(&path).ends_with("No such file or directory (os error 2)"));
    assert!(report(directory.path()).contains("Is a directory"));
    fs::write(&path, b"[engine]\nname = \"\xff\"").unwrap();
    assert!(report(&path).ends_with("it is not UTF-8 text from octet 17 on"));
    assert!(report(Path::new("/dev/zero")).ends_with("it is larger than 1 MiB"));
}
