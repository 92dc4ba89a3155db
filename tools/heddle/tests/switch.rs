//! The operator's commands with a switch that runs in this process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../openflow/tests/host/mod.rs"]
mod host;

use assert_cmd::Command;
use host::Host;
use serde_json::{Value, json};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../openflow/programs/ndn-prefix.o");

/// What a command prints; the command must end well.
fn heddle(host: &Host, args: &[&str]) -> String {
    let output = command(host, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The sentence that a command ends with, which must fail.
fn refused(host: &Host, args: &[&str]) -> String {
    let output = command(host, args);
    assert_eq!(output.status.code(), Some(1), "{args:?}");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

fn command(host: &Host, args: &[&str]) -> std::process::Output {
    let switch = format!("tcp:{}", host.addresses[0]);
    let mut command = Command::cargo_bin("heddle").unwrap();
    command.args(args).args(["--switch", &switch, "--timeout", "60"]).output().unwrap()
}

fn json_of(host: &Host, args: &[&str]) -> Value {
    serde_json::from_str(&heddle(host, args)).unwrap()
}

#[test]
fn names_are_added_shown_and_deleted() {
    let host = Host::listening();
    assert_eq!(heddle(&host, &["name", "show"]), "there are no such flows\n");
    heddle(&host, &["name", "add", "/tno", "--to", "10.1.0.2", "--out", "2"]);
    #[rustfmt::skip]
    heddle(&host, &[
        "name", "add", "/tno/ping", "--to", "10.3.0.2:7000", "--out", "3", "--in", "1", "--gateway", "192.0.2.1",
        "--next-hop", "02:00:00:00:00:01", "--ttl", "128",
    ]);
    heddle(&host, &["flow", "add", "--match", "in_port=2", "--actions", "output:1"]);
    let shown = json_of(&host, &["name", "show", "--json"]);
    let told: Vec<_> =
        shown.as_array().unwrap().iter().map(|flow| (&flow["match"], &flow["actions"])).collect();
    // The longer name first, since it wins; the flow without a name is none of these.
    #[rustfmt::skip]
    let expected = [
        ("in_port=1,eth_type=0x0800,ip_proto=17,ipv4_dst=192.0.2.1,udp_dst=6363,kind=interest,name=/tno/ping",
         "set:ipv4_dst=10.3.0.2,set:udp_dst=7000,set_ttl:128,set:eth_dst=02:00:00:00:00:01,output:3"),
        ("eth_type=0x0800,ip_proto=17,udp_dst=6363,kind=interest,name=/tno",
         "set:ipv4_dst=10.1.0.2,set:udp_dst=6363,output:2"),
    ]
    .map(|(matching, actions)| (json!(matching), json!(actions)));
    assert_eq!(told, expected.each_ref().map(|(matching, actions)| (matching, actions)));
    let table = heddle(&host, &["name", "show"]);
    assert!(table.starts_with("table  priority  packets  octets"), "{table}");
    assert_eq!(table.lines().count(), 3);

    // Only exactly that flow goes.
    let said = refused(&host, &["name", "del", "/tno/ping"]);
    assert!(said.contains("the switch has no such flow for /tno/ping"), "{said}");
    heddle(&host, &["name", "del", "/tno"]);
    heddle(&host, &["name", "del", "/tno/ping", "--in", "1", "--gateway", "192.0.2.1"]);
    assert_eq!(json_of(&host, &["name", "show", "--json"]), json!([]));
    assert_eq!(json_of(&host, &["flow", "show", "--json"]).as_array().unwrap().len(), 1);
}

#[test]
fn flows_are_added_shown_and_deleted() {
    let host = Host::listening();
    #[rustfmt::skip]
    heddle(&host, &[
        "flow", "add", "--table", "1", "--priority", "7", "--cookie", "9", "--idle", "60", "--hard", "600",
        "--match", "ip,ipv4_dst=10.0.0.0/8", "--actions", "dec_ttl,output:2",
    ]);
    heddle(&host, &["flow", "add", "--match", "in_port=1", "--actions", "goto:1"]);
    heddle(&host, &["flow", "add", "--match", "in_port=2", "--actions", "drop"]);
    let shown = json_of(&host, &["flow", "show", "--json", "--table", "1"]);
    let [flow] = &shown.as_array().unwrap()[..] else { panic!("{shown}") };
    assert_eq!(flow["match"], "eth_type=0x0800,ipv4_dst=10.0.0.0/255.0.0.0");
    assert_eq!(flow["actions"], "dec_ttl,output:2");
    for (key, value) in
        [("table", 1), ("priority", 7), ("cookie", 9), ("idle_timeout", 60), ("hard_timeout", 600)]
    {
        assert_eq!(flow[key], value, "{key}");
    }
    // What the switch does not take is a sentence.
    let said = refused(&host, &["flow", "add", "--actions", "output:9"]);
    assert!(said.starts_with("error: the switch refuses because"), "{said}");
    let said = refused(&host, &["flow", "add", "--match", "udp_dst=1", "--actions", "drop"]);
    assert!(said.contains("BAD_MATCH/BAD_PREREQ"), "{said}");

    heddle(&host, &["flow", "del", "--match", "in_port=1", "--priority", "5"]);
    assert_eq!(json_of(&host, &["flow", "show", "--json"]).as_array().unwrap().len(), 3);
    heddle(&host, &["flow", "del", "--match", "in_port=1", "--priority", "32768", "--table", "0"]);
    assert_eq!(json_of(&host, &["flow", "show", "--json"]).as_array().unwrap().len(), 2);
    heddle(&host, &["flow", "del", "--all"]);
    assert_eq!(heddle(&host, &["flow", "show"]), "there are no such flows\n");
}

#[test]
fn programs_are_put_listed_and_deleted() {
    let host = Host::listening();
    assert_eq!(heddle(&host, &["program", "list"]), "there are no programs\n");
    heddle(&host, &["program", "put", "7", PROGRAM]);
    let octets = std::fs::metadata(PROGRAM).unwrap().len();
    let list = json_of(&host, &["program", "list", "--json"]);
    assert_eq!(
        list,
        json!([{ "program": 7, "octets": octets, "runs": 0, "hits": 0, "faults": 0 }])
    );
    assert!(heddle(&host, &["program", "list"]).starts_with("program"));
    heddle(&host, &["program", "param", "7", "3", "--name", "/tno"]);
    let parameter =
        host.on(|_, datapath| datapath.switch.programs.parameters.get(&(7, 3)).cloned());
    assert_eq!(parameter.as_deref(), Some(&b"\x08\x03tno"[..]));
    heddle(&host, &["program", "param", "7", "3"]);
    assert_eq!(host.on(|_, datapath| datapath.switch.programs.parameters.len()), 0);

    let not_a_program = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(not_a_program.path(), "no program").unwrap();
    let path = not_a_program.path().to_str().unwrap();
    let said = refused(&host, &["program", "put", "8", path]);
    assert!(said.contains("program 8 is not taken"), "{said}");
    let said = refused(&host, &["program", "del", "8"]);
    assert!(said.contains("there is no program 8"), "{said}");
    heddle(&host, &["program", "del", "7"]);
    assert_eq!(json_of(&host, &["program", "list", "--json"]), json!([]));
}
