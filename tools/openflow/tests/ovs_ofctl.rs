//! A client that others have written: `ovs-ofctl` of Open vSwitch, which `tools/setup --tests` installs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod host;

use heddle_core::node::PortId;
use heddle_openflow::driver::Settings;
use host::{Host, address, until};
use std::process::Command;

fn run(host: &Host, command: &str, arguments: &[&str]) -> Result<String, String> {
    let switch = format!("tcp:{}", host.addresses[0]);
    let output = Command::new("ovs-ofctl")
        .args(["-O", "OpenFlow13", "--timeout=60", command, &switch])
        .args(arguments)
        .output()
        .expect("ovs-ofctl is there: tools/setup --tests installs it");
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// The lines, each without what differs from run to run.
fn lines(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let parts = line.split(' ').filter(|part| !part.starts_with("duration="));
        parts.collect::<Vec<_>>().join(" ").trim().to_owned()
    };
    // Each part of an answer has a headline.
    text.lines().filter(|line| line.starts_with(' ')).map(line).collect()
}

#[test]
fn it_sees_what_the_switch_is() {
    let host = Host::listening();
    let shown = run(&host, "show", &[]).unwrap();
    for part in [
        "dpid:0000000000000099",
        "n_tables:16",
        "FLOW_STATS TABLE_STATS PORT_STATS GROUP_STATS",
        "1(p1)",
        "3(p3)",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(run(&host, "dump-desc", &[]).unwrap().contains("Manufacturer:"));
    let ports = run(&host, "dump-ports", &[]).unwrap();
    assert!(ports.contains("3 ports") && ports.contains("rx pkts=0"), "{ports}");
    let tables = run(&host, "dump-tables", &[]).unwrap();
    assert!(tables.contains("table 0") || tables.contains("table table"), "{tables}");
    let features = run(&host, "dump-table-features", &[]).unwrap();
    assert!(features.contains("metadata: match=0xffffffffffffffff"), "{features}");
    assert!(run(&host, "dump-ports-desc", &[]).unwrap().contains("2(p2)"));
    let groups = run(&host, "dump-group-features", &[]).unwrap();
    assert!(groups.contains("Types"), "{groups}");
    assert!(run(&host, "queue-stats", &[]).unwrap().contains("0 queues"));
    assert!(run(&host, "queue-get-config", &["1"]).is_ok());
    assert!(run(&host, "meter-features", &[]).unwrap().contains("max_meter:0"));
    assert_eq!(lines(&run(&host, "dump-meters", &[]).unwrap()), [""; 0]);
    assert!(run(&host, "probe", &[]).is_ok());
    assert!(run(&host, "ping", &["2000"]).unwrap().contains("2000 bytes"));
}

#[test]
fn it_changes_flows() {
    let host = Host::listening();
    assert_eq!(lines(&run(&host, "dump-flows", &[]).unwrap()), [""; 0]);
    run(&host, "add-flow", &["priority=7,in_port=1,actions=output:2"]).unwrap();
    let mpls = "table=1,priority=9,eth_type=0x8847,mpls_label=5,actions=pop_mpls:0x0800,dec_ttl,set_field:10.0.0.1->ip_dst,output:3";
    run(&host, "add-flow", &[mpls]).unwrap();
    run(&host, "del-flows", &["table=1"]).unwrap();
    run(
        &host,
        "add-flow",
        &["table=1,cookie=0x5,priority=9,mpls,mpls_label=5,actions=dec_mpls_ttl,output:3"],
    )
    .unwrap();
    run(&host, "add-flow", &["priority=8,udp6,udp_dst=6363,ipv6_dst=2001:db8::/32,idle_timeout=60,actions=write_metadata:0x5,goto_table:1"]).unwrap();
    assert_eq!(host.forward(), Some(PortId(1)));
    let mut dumped = lines(&run(&host, "dump-flows", &[]).unwrap());
    dumped.sort();
    let mut wanted = [
        "cookie=0x0, table=0, n_packets=1, n_bytes=60, priority=7,in_port=1 actions=output:2",
        "cookie=0x0, table=0, n_packets=0, n_bytes=0, idle_timeout=60, priority=8,udp6,ipv6_dst=2001:db8::/32,tp_dst=6363 actions=write_metadata:0x5,goto_table:1",
        "cookie=0x5, table=1, n_packets=0, n_bytes=0, priority=9,mpls,mpls_label=5 actions=dec_mpls_ttl,output:3",
    ]
    .map(str::to_owned);
    wanted.sort();
    assert_eq!(dumped, wanted);
    assert!(run(&host, "dump-aggregate", &[]).unwrap().contains("flow_count=3"));
    run(&host, "mod-flows", &["in_port=1,actions=output:3"]).unwrap();
    assert_eq!(host.forward(), Some(PortId(2)));
    run(&host, "del-flows", &["cookie=0x5/-1"]).unwrap();
    run(&host, "del-flows", &["in_port=1"]).unwrap();
    assert_eq!(lines(&run(&host, "dump-flows", &[]).unwrap()).len(), 1);
    run(&host, "del-flows", &[]).unwrap();
    assert_eq!(host.forward(), None);
    // What it asks for in vain, it is told.
    let error = run(&host, "add-flow", &["actions=output:77"]).unwrap_err();
    assert!(error.contains("OFPBAC_BAD_OUT_PORT"), "{error}");
    let error = run(&host, "add-flow", &["actions=push_vlan:0x8100,output:1"]).unwrap_err();
    assert!(error.contains("OFPBAC_BAD_TYPE"), "{error}");
}

#[test]
fn it_changes_groups_and_ports() {
    let host = Host::listening();
    run(&host, "add-group", &["group_id=7,type=ff,bucket=watch_port:2,actions=output:2,bucket=watch_port:3,actions=output:3"]).unwrap();
    run(&host, "add-group", &["group_id=8,type=select,bucket=weight:2,actions=output:1"]).unwrap();
    let groups = run(&host, "dump-groups", &[]).unwrap();
    assert!(groups.contains("group_id=7,type=ff,bucket=watch_port:2,actions=output:2"), "{groups}");
    run(&host, "add-flow", &["in_port=1,actions=group:7"]).unwrap();
    assert_eq!(host.forward(), Some(PortId(1)));
    let stats = run(&host, "dump-group-stats", &["group_id=7"]).unwrap();
    assert!(stats.contains("group_id=7") && stats.contains("ref_count=1"), "{stats}");
    run(&host, "mod-port", &["2", "down"]).unwrap();
    assert_eq!(host.forward(), Some(PortId(2)));
    until("the port is shown as down", || {
        run(&host, "dump-ports-desc", &["2"]).unwrap().contains("PORT_DOWN")
    });
    run(&host, "mod-port", &["2", "up"]).unwrap();
    assert_eq!(host.forward(), Some(PortId(1)));
    run(&host, "mod-group", &["group_id=7,type=indirect,bucket=actions=output:3"]).unwrap();
    assert_eq!(host.forward(), Some(PortId(2)));
    run(&host, "del-groups", &["group_id=7"]).unwrap();
    assert_eq!(host.forward(), None);
    assert_eq!(lines(&run(&host, "dump-flows", &[]).unwrap()), [""; 0]);
    run(&host, "del-groups", &[]).unwrap();
    assert_eq!(lines(&run(&host, "dump-groups", &[]).unwrap()), [""; 0]);
    let error = run(&host, "add-meter", &["meter=1,kbps,band=type=drop,rate=1"]).unwrap_err();
    assert!(error.contains("OFPMMFC_OUT_OF_METERS"), "{error}");
}

#[test]
fn it_sends_packets_and_replaces_many_flows() {
    let settings = Settings { listen: vec![address("tcp:127.0.0.1:0")], ..Settings::default() };
    let host = Host::new(settings, 4096);
    let frame =
        "50540000000150540000000208004500001c000000004011000001010101020202020001000200080000";
    run(&host, "packet-out", &[&format!("in_port=controller,packet={frame},actions=output:3")])
        .unwrap();
    until("the packet has gone out", || {
        host.on(|_, datapath| datapath.sent.iter().any(|(port, _)| *port == PortId(2)))
    });
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flows");
    let flows: String = (0..3000)
        .map(|n| format!("priority=5,ip,ip_dst=10.1.{}.{},actions=output:2\n", n / 250, n % 250))
        .collect();
    std::fs::write(&path, flows).unwrap();
    run(&host, "replace-flows", &[path.to_str().unwrap()]).unwrap();
    assert_eq!(lines(&run(&host, "dump-flows", &[]).unwrap()).len(), 3000);
    assert_eq!(run(&host, "diff-flows", &[path.to_str().unwrap()]).unwrap(), "");
}
