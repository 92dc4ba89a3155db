//! From a configuration to the settings of protocol state.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::Ipv4Addr;

use heddle_core::coded::{
    CodedNode, Cut, Generation, Memory, PortSettings, Role, SendingRule, Session, SessionRule,
    Settings, SettingsError, generation_octets, session_shard,
};
use heddle_core::node::{PortId, PortSet};
use heddle_host::config::{self, Config, PortIndex, Sending};

/// The state of one worker, in memory of its own that lives as long as the process.
///
/// # Errors
/// What the protocol refuses of the settings.
pub fn coded_node(config: &Config, macs: &[[u8; 6]]) -> Result<CodedNode<'static>, SettingsError> {
    let settings = settings(&config.coded, random_seed());
    let ports: Vec<PortSettings> = config
        .ports
        .iter()
        .zip(macs)
        .enumerate()
        .map(|(number, (port, mac))| PortSettings {
            mac: *mac,
            octets_per_second: port
                .rate_octets_per_s
                .map(|rate| (rate.get() / senders(config, number).max(1) as u64).max(1)),
        })
        .collect();
    let rules: Vec<SessionRule> = config.sessions.iter().map(session_rule).collect();
    let sessions = config.session_places();
    let generations = sessions * usize::from(settings.ses_max_gen);
    let memory = Memory {
        sessions: Vec::leak((0..sessions).map(|_| Session::new()).collect()),
        generations: Vec::leak((0..generations).map(|_| Generation::vacant()).collect()),
        octets: Vec::leak(vec![0; generations * generation_octets(&settings)]),
    };
    CodedNode::new(settings, &ports, &rules, memory)
}

/// How many workers may send on the port called `number`. Each of them paces by itself, so each has that part of the port's
/// rate. A session of any source can be any worker's.
pub fn senders(config: &Config, number: usize) -> usize {
    let workers = config.engine.lcores.len();
    let mut sends = vec![false; workers];
    let sending = |session: &&config::Session| {
        session.outputs().iter().any(|port| usize::from(port.0) == number)
    };
    for session in config.sessions.iter().filter(sending) {
        match session.source {
            None => return workers,
            Some(source) => {
                let worker = session_shard(source.octets(), session.group.octets(), workers);
                if let Some(sends) = sends.get_mut(worker) {
                    *sends = true;
                }
            }
        }
    }
    sends.into_iter().filter(|sends| *sends).count()
}

fn settings(coded: &config::Coded, seed: u64) -> Settings {
    Settings {
        protocol: coded.protocol,
        max_generation_size: coded.max_generation_size,
        max_block_octets: coded.max_block_octets,
        ses_max_gen: coded.ses_max_gen,
        ses_time_out: coded.ses_time_out,
        sending: match coded.sending {
            Sending::Paced => SendingRule::Paced,
            Sending::Literal => SendingRule::Literal,
        },
        seed,
    }
}

/// A number that differs from node to node and from start to start.
fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn session_rule(session: &config::Session) -> SessionRule {
    SessionRule {
        session_id: session.id,
        group: session.group.octets(),
        source: session.source.as_ref().map(Ipv4Addr::octets),
        inputs: port_set(session.inputs()),
        role: match &session.role {
            config::Role::Source(source) => Role::Source {
                cut: cut(source.generation, source.flush),
                generation_size: source.generation_size,
                redundancy: source.redundancy,
                udp_port: None,
                outputs: port_set(&source.outputs),
            },
            config::Role::Forwarder(forwarder) => {
                Role::Forwarder { outputs: port_set(&forwarder.outputs) }
            }
            config::Role::Destination(destination) => Role::Destination {
                // Only a source waits for datagrams.
                cut: cut(destination.generation, std::time::Duration::ZERO),
                deliver: port_set(&destination.deliver),
            },
        },
    }
}

fn cut(generation: config::Generation, flush_after: std::time::Duration) -> Cut {
    match generation {
        config::Generation::Datagram => Cut::Datagram,
        config::Generation::Packets => Cut::Packets { flush_after },
    }
}

fn port_set(ports: &[PortIndex]) -> PortSet {
    ports.iter().map(|port| PortId(port.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGINE: &str = r#"
        [engine]
        name = "x"
        lcores = [0, 1, 2, 3]
        [[port]]
        name = "in"
        vdev = "net_ring0"
        [[port]]
        name = "out"
        vdev = "net_ring1"
        [[port]]
        name = "unused"
        vdev = "net_ring2"
    "#;

    fn forwarders(sources: &[&str]) -> Config {
        let sessions = sources.iter().enumerate().map(|(id, source)| {
            format!(
                "[[session]]\nrole = \"forwarder\"\nid = {id}\n{source}\ngroup = \"239.1.1.{id}\"\n\
                 inputs = [\"in\"]\noutputs = [\"out\"]\n"
            )
        });
        Config::parse(&(ENGINE.to_owned() + &sessions.collect::<String>()), "test").unwrap()
    }

    #[test]
    fn a_rate_is_shared_by_the_workers_whose_sessions_send() {
        let named = "source = \"10.0.0.1\"";
        assert_eq!(senders(&forwarders(&[named]), 1), 1);
        assert_eq!(senders(&forwarders(&[named]), 2), 0);
        // A session of any source can be on any worker.
        assert_eq!(senders(&forwarders(&[""]), 1), 4);
        let many = forwarders(&[named; 16]);
        let workers: std::collections::BTreeSet<usize> =
            (0..16).map(|id| session_shard([10, 0, 0, 1], [239, 1, 1, id], 4)).collect();
        assert!(workers.len() > 1);
        assert_eq!(senders(&many, 1), workers.len());
    }
}
