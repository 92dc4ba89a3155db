//! Lowers Heddle's rules to what a NIC can do, and reports what it cannot.
//!
//! A NIC sees headers and has no arithmetic in GF(2^8), so of CODED IP it can take over the sorting of frames: those of a
//! session go to the queue of the worker that keeps the session's state, and frames of no session are dropped before they
//! cost a CPU anything. [`plan`] says which rules that takes, in the terms of DPDK's `rte_flow`, and what stays on
//! the CPU and why. A [`Rule`] prints as the command that testpmd takes.

use std::fmt;
use std::net::Ipv4Addr;

use heddle_core::coded::session_shard;
use heddle_host::config::{Config, PortIndex, Role, Session};
use serde::Serialize;

/// UDP's number in the protocol field of IP.
const UDP: u8 = 17;

/// One rule for frames that come in on one port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// The number of the port, as in the configuration's order.
    pub port: u8,
    /// The port's name.
    pub port_name: String,
    /// What frames the rule is for.
    pub pattern: Pattern,
    /// What becomes of them.
    pub action: Action,
}

/// What an IPv4 packet must look like; what is absent may be anything.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pattern {
    /// The source address.
    pub source: Option<Ipv4Addr>,
    /// The destination address.
    pub destination: Option<Ipv4Addr>,
    /// The protocol number.
    pub protocol: Option<u8>,
}

/// What a NIC does with a frame.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Puts it into the receive queue of this number.
    Queue(u16),
    /// Drops it.
    Drop,
}

/// Something that the NIC cannot do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OnCpu {
    /// The session, as `source -> group, id N`.
    pub session: String,
    /// What it is.
    pub what: &'static str,
    /// Why.
    pub why: &'static str,
}

/// What a NIC can take over of a configuration, and what it cannot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// The rules, those that come first being the more important.
    pub rules: Vec<Rule>,
    /// What stays on the CPU.
    pub on_cpu: Vec<OnCpu>,
}

/// Works out what a NIC can take over of `config`.
pub fn plan(config: &Config) -> Plan {
    let mut plan = Plan::default();
    for session in &config.sessions {
        for &port in session.inputs() {
            add_rule(&mut plan, config, port, session);
        }
        plan.on_cpu.extend(stays_on_cpu(session));
    }
    // Last on each port: what is no session's.
    for (index, port) in config.ports.iter().enumerate() {
        let index = index as u8;
        if plan.rules.iter().any(|rule| rule.port == index) {
            plan.rules.push(Rule {
                port: index,
                port_name: port.name.clone(),
                pattern: Pattern::default(),
                action: Action::Drop,
            });
        }
    }
    plan
}

fn add_rule(plan: &mut Plan, config: &Config, port: PortIndex, session: &Session) {
    let workers = config.engine.lcores.len();
    let queue = match session.source {
        Some(source) => session_shard(source.octets(), session.group.octets(), workers),
        // Sessions of any source are spread over the workers by an address that no rule can name: the first worker's queue
        // takes them all, and hands over those that are not its own.
        None => 0,
    };
    let protocol = match session.role {
        Role::Source(_) => UDP,
        Role::Forwarder(_) | Role::Destination(_) => config.coded.protocol,
    };
    let rule = Rule {
        port: port.0,
        port_name: config.port(port).map(|port| port.name.clone()).unwrap_or_default(),
        pattern: Pattern {
            source: session.source,
            destination: Some(session.group),
            protocol: Some(protocol),
        },
        action: Action::Queue(queue as u16),
    };
    // Sessions that differ only in SESSION_ID share a rule: they share a worker, too.
    if !plan.rules.contains(&rule) {
        plan.rules.push(rule);
    }
}

fn stays_on_cpu(session: &Session) -> Vec<OnCpu> {
    let source = session.source.map_or("any".to_owned(), |source| source.to_string());
    let name = format!("{source} -> {}, id {}", session.group, session.id);
    let on_cpu = |what, why| OnCpu { session: name.clone(), what, why };
    let needs_state =
        "it takes the coding vectors of earlier packets, and multiplication in GF(2^8)";
    let (what, why) = match session.role {
        Role::Source(_) => {
            ("cutting into generations and coding", "it takes multiplication in GF(2^8)")
        }
        Role::Forwarder(_) => ("the check for innovation and recoding", needs_state),
        Role::Destination(_) => ("the check for innovation and decoding", needs_state),
    };
    let mut stays = vec![on_cpu(what, why)];
    if session.source.is_none() {
        stays.push(on_cpu(
            "the choice of the worker",
            "it is a hash of source and group, and the session takes any source",
        ));
    }
    if !matches!(session.role, Role::Source(_)) {
        stays.push(on_cpu(
            "the check of SESSION_ID",
            "rte_flow has no item for protocol numbers without a name; other ids are counted as foreign_session",
        ));
    }
    stays
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("eth")?;
        if *self != Self::default() {
            f.write_str(" / ipv4")?;
        }
        if let Some(source) = self.source {
            write!(f, " src is {source}")?;
        }
        if let Some(destination) = self.destination {
            write!(f, " dst is {destination}")?;
        }
        if let Some(protocol) = self.protocol {
            write!(f, " proto is {protocol}")?;
        }
        f.write_str(" / end")
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(queue) => write!(f, "queue index {queue} / end"),
            Self::Drop => f.write_str("drop / end"),
        }
    }
}

impl fmt::Display for Rule {
    /// The rule as a command of testpmd. A rule that drops has the lower priority.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { port, pattern, action, .. } = self;
        let priority = u8::from(*action == Action::Drop);
        write!(
            f,
            "flow create {port} ingress priority {priority} pattern {pattern} actions {action}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = r#"
        [engine]
        name = "edge"
        lcores = [2, 3]

        [[port]]
        name = "host"
        vdev = "net_null0"

        [[port]]
        name = "north"
        vdev = "net_null1"

        [[port]]
        name = "south"
        vdev = "net_null2"

        [[session]]
        role = "source"
        id = 1
        source = "10.0.0.1"
        group = "239.1.1.1"
        inputs = ["host"]
        outputs = ["north"]
        generation_size = 3

        [[session]]
        role = "forwarder"
        id = 7
        group = "239.1.1.2"
        inputs = ["north"]
        outputs = ["south"]

        [[session]]
        role = "forwarder"
        id = 8
        group = "239.1.1.2"
        inputs = ["north"]
        outputs = ["south"]
    "#;

    #[test]
    fn sessions_go_to_their_workers_and_the_rest_is_dropped() {
        let config = Config::parse(CONFIG, "heddle.toml").unwrap();
        let worker = session_shard([10, 0, 0, 1], [239, 1, 1, 1], 2);
        let commands: Vec<String> = plan(&config).rules.iter().map(ToString::to_string).collect();
        assert_eq!(
            commands,
            [
                format!(
                    "flow create 0 ingress priority 0 pattern eth / ipv4 src is 10.0.0.1 dst is 239.1.1.1 proto is 17 / end \
                     actions queue index {worker} / end"
                ),
                "flow create 1 ingress priority 0 pattern eth / ipv4 dst is 239.1.1.2 proto is 253 / end actions queue index 0 / end"
                    .to_owned(),
                "flow create 0 ingress priority 1 pattern eth / end actions drop / end".to_owned(),
                "flow create 1 ingress priority 1 pattern eth / end actions drop / end".to_owned(),
            ]
        );
    }

    #[test]
    fn what_needs_arithmetic_or_state_stays_on_the_cpu() {
        let config = Config::parse(CONFIG, "heddle.toml").unwrap();
        let plan = plan(&config);
        let of = |session: &str| -> Vec<&str> {
            plan.on_cpu
                .iter()
                .filter(|it| it.session.ends_with(session))
                .map(|it| it.what)
                .collect()
        };
        assert_eq!(of("id 1"), ["cutting into generations and coding"]);
        assert_eq!(
            of("id 7"),
            [
                "the check for innovation and recoding",
                "the choice of the worker",
                "the check of SESSION_ID"
            ]
        );
    }
}
