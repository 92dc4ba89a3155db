//! `[[session]]`: keys, ports, and what each role needs.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use toml::Spanned;

use super::Findings;
use crate::config::file::RoleName;
use crate::config::problem::Problem;
use crate::config::{
    Coded, Destination, Forwarder, Generation, MAX_PORTS, MAX_SESSIONS, PortIndex, Role, Session,
    Source, file,
};

pub(super) fn sessions(findings: &mut Findings, file: &file::File, coded: &Coded) -> Vec<Session> {
    let index = (0..)
        .zip(file.ports.iter().take(MAX_PORTS))
        .map(|(index, port)| (port.name.get_ref().as_str(), PortIndex(index)))
        .collect();
    let mut checker = Checker { findings, index, coded };
    checker.room(&file.sessions);
    let sessions = file.sessions.iter().filter_map(|session| checker.session(session)).collect();
    for (n, second) in file.sessions.iter().enumerate() {
        let before = file.sessions.get(..n).unwrap_or_default();
        if let Some(first) = before.iter().find(|first| overlap(first, second)) {
            checker.duplicate(first, second);
        }
    }
    sessions
}

/// Whether a packet could belong to both sessions.
fn overlap(a: &file::Session, b: &file::Session) -> bool {
    let same_source = match (&a.source, &b.source) {
        (Some(a), Some(b)) => a.get_ref() == b.get_ref(),
        _ => true,
    };
    same_source && a.id.get_ref() == b.id.get_ref() && a.group.get_ref() == b.group.get_ref()
}

fn generation(session: &file::Session) -> Generation {
    session.generation.as_ref().map_or_else(Generation::default, |generation| *generation.get_ref())
}

struct Checker<'a> {
    findings: &'a mut Findings,
    index: HashMap<&'a str, PortIndex>,
    coded: &'a Coded,
}

impl Checker<'_> {
    /// Whether the engine has room for the sessions. Those that name their source have places of their own.
    fn room(&mut self, sessions: &[file::Session]) {
        let count = sessions.len();
        if let Some(session) = sessions.get(MAX_SESSIONS) {
            self.findings.add(
                Problem::new(format!("{count} sessions are more than an engine can have"))
                    .at(session.role.span(), format!("the first beyond {MAX_SESSIONS}"))
                    .help("share the sessions out between two engines"),
            );
        }
        let most = usize::from(self.coded.max_sessions);
        let of_any_source = sessions.iter().filter(|session| session.source.is_none());
        if let Some(session) = of_any_source.clone().nth(most) {
            let count = of_any_source.count();
            self.findings.add(
                Problem::new(format!(
                    "{count} sessions of any source are more than `max_sessions` has room for"
                ))
                .at(session.role.span(), format!("the first beyond {most}"))
                .help("raise `max_sessions` in [coded], or name the sessions' sources"),
            );
        }
    }

    fn duplicate(&mut self, first: &file::Session, second: &file::Session) {
        let both_exact = first.source.is_some() && second.source.is_some();
        self.findings.add(
            Problem::new(format!(
                "two sessions have id {} and group {}{}",
                second.id.get_ref(),
                second.group.get_ref(),
                if both_exact { ", from the same source" } else { ", and one of them takes any source" },
            ))
            .at(second.id.span(), "the second")
            .at(first.id.span(), "the first")
            .help("a session is known by its source, group and id; give one of them another id or group"),
        );
    }

    fn session(&mut self, session: &file::Session) -> Option<Session> {
        let id = self.findings.number("id", &session.id, 0..=255, "");
        self.addresses(session);
        self.surplus(session);
        let role = match session.role.get_ref() {
            RoleName::Source => self.source(session).map(Role::Source),
            RoleName::Forwarder => self.forwarder(session).map(Role::Forwarder),
            RoleName::Destination => self.destination(session).map(Role::Destination),
        };
        Some(Session {
            id,
            source: session.source.as_ref().map(|source| *source.get_ref()),
            group: *session.group.get_ref(),
            role: role?,
        })
    }

    fn addresses(&mut self, session: &file::Session) {
        let group = session.group.get_ref();
        if !group.is_multicast() {
            self.findings.add(
                Problem::new(format!("{group} is not a multicast group"))
                    .at(session.group.span(), "")
                    .help("use an address of 224.0.0.0/4, for example one of 239.0.0.0/8"),
            );
        }
        if let Some(source) = &session.source {
            let address = source.get_ref();
            if address.is_multicast() || address.is_broadcast() || *address == Ipv4Addr::UNSPECIFIED
            {
                self.findings.add(
                    Problem::new(format!("{address} is not the address of a sender"))
                        .at(source.span(), "")
                        .help("use the unicast address that the sender's packets come from"),
                );
            }
        }
    }

    /// Keys that mean nothing for the session's role.
    fn surplus(&mut self, session: &file::Session) {
        let spans = [
            ("outputs", session.outputs.as_ref().map(Spanned::span)),
            ("deliver", session.deliver.as_ref().map(Spanned::span)),
            ("generation", session.generation.as_ref().map(Spanned::span)),
            ("generation_size", session.generation_size.as_ref().map(Spanned::span)),
            ("redundancy", session.redundancy.as_ref().map(Spanned::span)),
            ("flush_ms", session.flush_ms.as_ref().map(Spanned::span)),
        ];
        let (role, wanted): (_, &[&str]) = match session.role.get_ref() {
            RoleName::Source => {
                ("source", &["outputs", "generation", "generation_size", "redundancy", "flush_ms"])
            }
            RoleName::Forwarder => ("forwarder", &["outputs"]),
            RoleName::Destination => ("destination", &["deliver", "generation"]),
        };
        for (name, span) in spans {
            if let Some(span) = span
                && !wanted.contains(&name)
            {
                self.findings
                    .add(Problem::new(format!("a {role} has no `{name}`")).at(span, "").help(
                    match (role, name) {
                        ("destination", "outputs") => {
                            "a destination has `deliver`: the ports that get the decoded datagrams"
                        }
                        (_, "deliver") => "`deliver` is for destinations; use `outputs`",
                        _ => "leave it out",
                    },
                ));
            }
        }
    }

    fn source(&mut self, session: &file::Session) -> Option<Source> {
        if session.source.is_none() {
            self.missing(
                session,
                "source",
                "the address of the sender, for example source = \"10.0.0.1\"",
            );
        }
        let inputs = self.required(session, "inputs", &session.inputs);
        let outputs = self.required(session, "outputs", &session.outputs);
        if let (Some(inputs), Some(outputs)) = (&session.inputs, &session.outputs) {
            self.apart(inputs, outputs, "`outputs`");
        }
        let most = self.coded.max_generation_size;
        let generation_size = match &session.generation_size {
            Some(size) => self.generation_size(size),
            None => {
                self.missing(
                    session,
                    "generation_size",
                    &format!("the blocks in a generation, 1 to {most}"),
                );
                most
            }
        };
        let redundancy =
            self.findings.number_or("redundancy", &session.redundancy, 0..=255, "packets", 0);
        let flush_ms = self.findings.number_or("flush_ms", &session.flush_ms, 1..=60_000, "ms", 20);
        Some(Source {
            inputs: inputs?,
            outputs: outputs?,
            generation: generation(session),
            generation_size,
            redundancy,
            flush: Duration::from_millis(flush_ms),
        })
    }

    fn generation_size(&mut self, size: &Spanned<i64>) -> u8 {
        let most = self.coded.max_generation_size;
        match u8::try_from(*size.get_ref()) {
            Ok(k) if (1..=most).contains(&k) => k,
            over => {
                let help = if over.is_ok_and(|k| k > most) {
                    format!(
                        "lower it, or raise `max_generation_size` in [coded] to {}",
                        size.get_ref()
                    )
                } else {
                    format!("give a whole number from 1 to {most}")
                };
                self.findings.add(
                    Problem::new("`generation_size` is out of range")
                        .at(
                            size.span(),
                            format!("must be 1 to {most}, which is `max_generation_size`"),
                        )
                        .help(help),
                );
                most
            }
        }
    }

    fn forwarder(&mut self, session: &file::Session) -> Option<Forwarder> {
        let outputs = self.required(session, "outputs", &session.outputs);
        let inputs = self.inputs_beside(session, outputs.as_deref(), &session.outputs);
        Some(Forwarder { inputs: inputs?, outputs: outputs? })
    }

    fn destination(&mut self, session: &file::Session) -> Option<Destination> {
        let deliver = self.required(session, "deliver", &session.deliver);
        let inputs = self.inputs_beside(session, deliver.as_deref(), &session.deliver);
        if let (Some(inputs), Some(deliver)) = (&session.inputs, &session.deliver) {
            self.apart(inputs, deliver, "`deliver`");
        }
        Some(Destination { inputs: inputs?, deliver: deliver?, generation: generation(session) })
    }

    /// The session's inputs: those named, or else every port that is not one of `outputs`.
    fn inputs_beside(
        &mut self,
        session: &file::Session,
        outputs: Option<&[PortIndex]>,
        written: &Option<Spanned<Vec<Spanned<String>>>>,
    ) -> Option<Vec<PortIndex>> {
        if let Some(inputs) = &session.inputs {
            return self.list("inputs", inputs);
        }
        let outputs = outputs?;
        let mut inputs: Vec<PortIndex> =
            self.index.values().filter(|port| !outputs.contains(port)).copied().collect();
        inputs.sort_unstable();
        if inputs.is_empty() {
            let place = written.as_ref().map_or(session.role.span(), Spanned::span);
            self.findings.add(
                Problem::new("no port is left for the session's packets to arrive on")
                    .at(place, "these are all the ports")
                    .help("leave a port out here, or name `inputs`"),
            );
            return None;
        }
        Some(inputs)
    }

    /// The ports of a list that the role cannot do without.
    fn required(
        &mut self,
        session: &file::Session,
        name: &str,
        list: &Option<Spanned<Vec<Spanned<String>>>>,
    ) -> Option<Vec<PortIndex>> {
        match list {
            Some(list) => self.list(name, list),
            None => {
                self.missing(session, name, &format!("ports, for example {name} = [\"a\"]"));
                None
            }
        }
    }

    fn missing(&mut self, session: &file::Session, name: &str, what: &str) {
        let role = match session.role.get_ref() {
            RoleName::Source => "source",
            RoleName::Forwarder => "forwarder",
            RoleName::Destination => "destination",
        };
        self.findings.add(
            Problem::new(format!("the {role} has no `{name}`"))
                .at(session.role.span(), "of this session")
                .help(format!("add `{name}`: {what}")),
        );
    }

    /// The ports that `list` names, when all is well with it.
    fn list(&mut self, name: &str, list: &Spanned<Vec<Spanned<String>>>) -> Option<Vec<PortIndex>> {
        if list.get_ref().is_empty() {
            self.findings.add(
                Problem::new(format!("`{name}` is empty"))
                    .at(list.span(), "")
                    .help("name at least one port"),
            );
            return None;
        }
        let mut seen = HashMap::new();
        let mut ports = Vec::with_capacity(list.get_ref().len());
        for port in list.get_ref() {
            if let Some(first) = seen.insert(port.get_ref(), port.span()) {
                self.findings.add(
                    Problem::new(format!("port `{}` is twice in `{name}`", port.get_ref()))
                        .at(port.span(), "the second time")
                        .at(first, "the first time")
                        .help("name each port once"),
                );
                continue;
            }
            match self.index.get(port.get_ref().as_str()) {
                Some(&index) => ports.push(index),
                None => self.unknown(port),
            }
        }
        (ports.len() == list.get_ref().len()).then_some(ports)
    }

    fn unknown(&mut self, port: &Spanned<String>) {
        let mut names: Vec<String> = self.index.keys().map(|name| format!("`{name}`")).collect();
        names.sort_unstable();
        let help = if names.is_empty() {
            "add a [[port]] with this name".to_owned()
        } else {
            format!("the ports are {}", names.join(", "))
        };
        self.findings.add(
            Problem::new(format!("there is no port `{}`", port.get_ref()))
                .at(port.span(), "no [[port]] has this name")
                .help(help),
        );
    }

    /// A port that takes packets of a session in one form cannot send them in the other: they would meet themselves.
    fn apart(
        &mut self,
        inputs: &Spanned<Vec<Spanned<String>>>,
        outputs: &Spanned<Vec<Spanned<String>>>,
        name: &str,
    ) {
        for input in inputs.get_ref() {
            let same = |output: &&Spanned<String>| output.get_ref() == input.get_ref();
            if let Some(output) = outputs.get_ref().iter().find(same) {
                self.findings.add(
                    Problem::new(format!(
                        "port `{}` is both in `inputs` and in {name}",
                        input.get_ref()
                    ))
                    .at(output.span(), "")
                    .at(input.span(), "")
                    .help("the plain datagrams and the coded packets of a session need ports of their own"),
                );
            }
        }
    }
}
