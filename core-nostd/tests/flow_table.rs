//! Rules and the search for the best one: the cases of longest prefixes, and any rules against a search through all of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use heddle_core::flow::{
    Action, Fields, Flow, FlowTable, Instructions, Match, NameChunk, Output, Rule, RuleBucket,
    RuleId, SharedInstructions, TableError, TableMemory, Timeouts,
};
use heddle_core::ndn::Name;
use heddle_core::node::{Instant, PortId};
use proptest::prelude::*;
use serde_json::Value;
use std::time::Duration;

struct Memory {
    rules: Vec<Rule>,
    buckets: Vec<RuleBucket>,
    names: Vec<NameChunk>,
    instructions: Vec<SharedInstructions>,
}

impl Memory {
    fn new(rules: usize) -> Self {
        Self {
            rules: vec![Rule::vacant(); rules],
            buckets: vec![RuleBucket::vacant(); (rules / 4).max(1)],
            names: vec![NameChunk::vacant(); 200],
            instructions: vec![SharedInstructions::vacant(); 64],
        }
    }

    fn table(&mut self) -> FlowTable<'_> {
        let memory = TableMemory {
            rules: &mut self.rules,
            buckets: &mut self.buckets,
            names: &mut self.names,
            instructions: &mut self.instructions,
        };
        FlowTable::new(memory, 0x5eed)
    }
}

fn to_port(port: u8) -> Instructions {
    Instructions::applying(&[Action::Output(Output::Port(PortId(port)))]).unwrap()
}

fn by_name<'n, 'i>(name: Name<'n>, instructions: &'i Instructions) -> Flow<'n, 'i> {
    Flow {
        table: 0,
        priority: 100,
        matching: Match { name: Some(name), ..Match::default() },
        instructions,
        cookie: 0,
        timeouts: Timeouts::default(),
        flags: 0,
    }
}

#[test]
fn the_longest_prefix_is_found() {
    let path = format!("{}/tests/cases/ndn/lpm.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut memory = Memory::new(64);
    let mut table = memory.table();
    let mut hops = std::collections::HashMap::new();
    let (mut prefixes, mut lookups) = (0, 0);
    for line in &lines {
        let octets = hex::decode(line["name_tlv"].as_str().unwrap()).unwrap();
        let name = Name::new(&octets).unwrap();
        if line["kind"] == "prefix" {
            prefixes += 1;
            let id = table.add(Instant::ZERO, &by_name(name, &to_port(1))).unwrap();
            hops.insert((prefixes, line["next_hop"].as_u64().unwrap()), (id, octets));
            continue;
        }
        lookups += 1;
        let found = table.lookup(0, &Fields::default(), Some(&name));
        let hop = hops.iter().find(|(_, (id, _))| Some(*id) == found).map(|((_, hop), _)| *hop);
        assert_eq!(hop, line["next_hop"].as_u64(), "{}", line["id"]);
        let mut out = [0; 9000];
        let prefix = found.and_then(|id| table.name(id, &mut out)).map(|name| name.to_string());
        assert_eq!(prefix.as_deref(), line["match"].as_str(), "{}", line["id"]);
    }
    assert_eq!((prefixes, lookups), (32, 61));
    // Without the root prefix, names under no other have no rule.
    let root = hops.values().find(|(_, octets)| octets.is_empty()).unwrap().0;
    table.remove(root);
    let stranger = Name::new(b"\x08\x03zzz").unwrap();
    assert_eq!(table.lookup(0, &Fields::default(), Some(&stranger)), None);
    assert_eq!(table.lookup(0, &Fields::default(), None), None);
}

/// A rule of the reference.
#[derive(Clone, Debug)]
struct Plain {
    table: u8,
    priority: u16,
    fields: Fields,
    mask: Fields,
    name: Option<Vec<u8>>,
    port: u8,
}

impl Plain {
    fn matches(&self, table: u8, fields: &Fields, name: Option<&[u8]>) -> bool {
        self.table == table
            && fields.masked(&self.mask) == self.fields.masked(&self.mask)
            && self
                .name
                .as_ref()
                .is_none_or(|prefix| name.is_some_and(|name| name.starts_with(prefix)))
    }

    fn is_same(&self, other: &Self) -> bool {
        let key = |rule: &Self| {
            (
                rule.table,
                rule.priority,
                rule.fields.masked(&rule.mask),
                rule.mask,
                rule.name.clone(),
            )
        };
        key(self) == key(other)
    }

    /// What one rule of several that match wins by.
    fn rank(&self) -> (u16, usize) {
        (self.priority, self.name.as_ref().map_or(0, |name| 1 + components(name)))
    }
}

fn components(name: &[u8]) -> usize {
    Name::new(name).unwrap().components().count()
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    // Few letters, so that prefixes meet; some components are long enough to leave a rule's own place.
    let component = prop_oneof![
        4 => (0u8..3).prop_map(|letter| vec![8, 1, b'a' + letter]),
        1 => Just(vec![8, 0]),
        1 => (30u8..90).prop_map(|len| [vec![8, len], vec![b'x'; len.into()]].concat()),
    ];
    proptest::collection::vec(component, 0..5).prop_map(|parts| parts.concat())
}

fn fields() -> impl Strategy<Value = Fields> {
    (1u32..4, 0u8..3, 0u16..2, 0u8..2).prop_map(|(in_port, host, port, bottom)| Fields {
        in_port,
        ip_destination: Fields::ipv4([10, 0, 0, host]),
        destination_port: 6363 + port,
        mpls_bottom: bottom,
        ..Fields::default()
    })
}

fn mask() -> impl Strategy<Value = Fields> {
    (any::<bool>(), prop_oneof![Just(0u8), Just(24), Just(31), Just(32)], any::<bool>()).prop_map(
        |(in_port, prefix, port)| Fields {
            in_port: if in_port { u32::MAX } else { 0 },
            ip_destination: Fields::ipv4(
                u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0).to_be_bytes(),
            ),
            destination_port: if port { u16::MAX } else { 0 },
            ..Fields::default()
        },
    )
}

fn plain_rule() -> impl Strategy<Value = Plain> {
    (0u8..2, 0u16..3, fields(), mask(), proptest::option::of(name()), 0u8..8).prop_map(
        |(table, priority, fields, mask, name, port)| Plain {
            table,
            priority,
            fields,
            mask,
            name,
            port,
        },
    )
}

#[derive(Clone, Debug)]
enum Step {
    Add(Plain),
    Modify(usize, u8),
    Remove(usize),
    Find(u8, Fields, Option<Vec<u8>>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => plain_rule().prop_map(Step::Add),
        1 => (any::<usize>(), 0u8..8).prop_map(|(at, port)| Step::Modify(at, port)),
        2 => any::<usize>().prop_map(Step::Remove),
        6 => (0u8..2, fields(), proptest::option::of(name()))
            .prop_map(|(table, fields, name)| Step::Find(table, fields, name)),
    ]
}

fn run(steps: Vec<Step>, places: usize) {
    let mut memory = Memory::new(places);
    let mut table = memory.table();
    let mut reference: Vec<(Plain, RuleId)> = Vec::new();
    for step in steps {
        match step {
            Step::Add(plain) => {
                let flow = Flow {
                    table: plain.table,
                    priority: plain.priority,
                    matching: Match {
                        fields: plain.fields,
                        mask: plain.mask,
                        name: plain.name.as_deref().map(|name| Name::new(name).unwrap()),
                        program: None,
                    },
                    instructions: &to_port(plain.port),
                    cookie: 7,
                    timeouts: Timeouts::default(),
                    flags: 0,
                };
                reference.retain(|(old, _)| !old.is_same(&plain));
                let added = table.add(Instant::ZERO, &flow);
                if reference.len() == places {
                    assert_eq!(added, Err(TableError::RulesFull));
                } else {
                    let id = added.unwrap();
                    assert_eq!(table.find(plain.table, plain.priority, &flow.matching), Some(id));
                    reference.push((plain, id));
                }
            }
            Step::Modify(at, port) if !reference.is_empty() => {
                let at = at % reference.len();
                reference[at].0.port = port;
                table.modify(reference[at].1, &to_port(port)).unwrap();
            }
            Step::Remove(at) if !reference.is_empty() => {
                let (_, id) = reference.swap_remove(at % reference.len());
                table.remove(id);
                table.remove(id);
                assert!(table.rule(id).is_none());
            }
            Step::Find(number, fields, name) => {
                let best = reference
                    .iter()
                    .filter(|(rule, _)| rule.matches(number, &fields, name.as_deref()))
                    .map(|(rule, _)| rule.rank())
                    .max();
                let packet_name = name.as_deref().map(|name| Name::new(name).unwrap());
                let found = table.lookup(number, &fields, packet_name.as_ref());
                let found = found.map(|id| reference.iter().find(|(_, at)| *at == id).unwrap());
                assert_eq!(found.map(|(rule, _)| rule.rank()), best);
                if let Some((rule, id)) = found {
                    assert!(rule.matches(number, &fields, name.as_deref()));
                    assert_eq!(table.instructions(*id), Some(&to_port(rule.port)));
                    let (at, mask, depth) = table.subtable(*id).unwrap();
                    assert_eq!((at, mask), (rule.table, &rule.mask));
                    let expected = rule.name.as_deref().map(components);
                    assert_eq!(depth.map(usize::from), expected);
                }
            }
            Step::Modify(..) | Step::Remove(_) => {}
        }
        assert_eq!(table.len(), reference.len());
    }
    let mut seen = 0;
    let mut cursor = Some(0);
    while let Some(from) = cursor {
        cursor = table.scan(from, 5, |id, _| {
            seen += 1;
            assert!(reference.iter().any(|(_, at)| *at == id));
        });
    }
    assert_eq!(seen, reference.len());
    for (_, id) in reference {
        table.remove(id);
    }
    assert!(table.is_empty());
}

proptest! {
    #[test]
    fn any_rules_are_found_as_by_a_search_through_all(steps in proptest::collection::vec(step(), 0..120)) {
        run(steps, 200);
    }

    /// So few places that buckets overflow and the memory is full.
    #[test]
    fn crowded_tables_stay_right(steps in proptest::collection::vec(step(), 0..200)) {
        run(steps, 12);
    }
}

#[test]
fn what_does_not_fit_is_refused_and_leaves_nothing_behind() {
    let mut memory = Memory::new(8);
    memory.names.truncate(1);
    memory.instructions.truncate(1);
    let mut table = memory.table();
    let long = [&[8, 200][..], &[b'x'; 200]].concat();
    let short = b"\x08\x01a";
    let deep = b"\x08\x01a".repeat(65);
    let (one, other) = (to_port(1), to_port(2));
    let mut add = |name: &[u8], instructions: &Instructions| {
        table.add(Instant::ZERO, &by_name(Name::new(name).unwrap(), instructions))
    };
    for _ in 0..10 {
        assert_eq!(add(&long, &one), Err(TableError::NamesFull));
        assert_eq!(add(&deep, &one), Err(TableError::NameTooDeep));
    }
    let id = add(short, &one).unwrap();
    let middle = [&[8, 80][..], &[b'y'; 80]].concat();
    for _ in 0..10 {
        assert_eq!(add(&middle, &other), Err(TableError::InstructionsFull));
    }
    add(&middle, &one).unwrap();
    let back = Instructions { goto_table: Some(0), ..Instructions::default() };
    assert_eq!(add(short, &back), Err(TableError::GotoTable));
    assert_eq!(table.modify(id, &back), Err(TableError::GotoTable));
    assert_eq!(table.len(), 2);
}

#[test]
fn kinds_of_rules_are_bounded() {
    let mut memory = Memory::new(400);
    let mut table = memory.table();
    let instructions = to_port(1);
    let mut results = Vec::new();
    for bits in 1..=300u32 {
        let mask = Fields { in_port: bits, ..Fields::default() };
        let matching = Match { fields: mask, mask, ..Match::default() };
        let flow = Flow {
            table: 0,
            priority: bits as u16,
            matching,
            instructions: &instructions,
            cookie: 0,
            timeouts: Timeouts::default(),
            flags: 0,
        };
        results.push(table.add(Instant::ZERO, &flow));
    }
    assert!(results[..256].iter().all(Result::is_ok));
    assert!(results[256..].iter().all(|result| *result == Err(TableError::TooManyMasks)));
    let found = table.lookup(0, &Fields { in_port: 255, ..Fields::default() }, None).unwrap();
    assert_eq!(table.rule(found).unwrap().priority(), 255);
}

#[test]
fn rules_count_and_end() {
    let mut memory = Memory::new(4);
    let mut table = memory.table();
    let second = |s| Instant::ZERO.after(Duration::from_secs(s));
    let instructions = to_port(1);
    let flow = Flow {
        timeouts: Timeouts { idle_s: 10, hard_s: 30 },
        ..by_name(Name::ROOT, &instructions)
    };
    let id = table.add(second(0), &flow).unwrap();
    table.count_packet(id, second(9), 100);
    table.count_packet(id, second(18), 50);
    let rule = table.rule(id).unwrap();
    assert_eq!((rule.packets(), rule.octets()), (2, 150));
    assert!(!rule.has_ended(second(27)) && rule.has_ended(second(28)));
    for s in 19..30 {
        table.count_packet(id, second(s), 1);
    }
    let rule = table.rule(id).unwrap();
    assert!(!rule.has_ended(second(29)) && rule.has_ended(second(30)));
}

/// A million prefixes fit; while packets flow, none of many changes takes more than a moment.
#[test]
fn a_million_prefixes() {
    const COUNT: u32 = 1_000_000;
    let mut memory = Memory::new(COUNT as usize);
    let mut table = memory.table();
    let name =
        |n: u32| format!("\x08\x05heddl\x08\x04{:04x}\x08\x05{n:05x}", n % 5000).into_bytes();
    let instructions = [to_port(1), to_port(2)];
    let mut ids = Vec::with_capacity(COUNT as usize);
    for n in 0..COUNT {
        let octets = name(n);
        let flow = by_name(Name::new(&octets).unwrap(), &instructions[n as usize % 2]);
        ids.push(table.add(Instant::ZERO, &flow).unwrap());
    }
    assert_eq!(table.len(), COUNT as usize);
    let mut longest = Duration::ZERO;
    for n in (0..COUNT).step_by(97) {
        let octets = [name(n), b"\x08\x01z".to_vec()].concat();
        let packet = Name::new(&octets).unwrap();
        assert_eq!(table.lookup(0, &Fields::default(), Some(&packet)), Some(ids[n as usize]));
        let begin = std::time::Instant::now();
        table.remove(ids[n as usize]);
        longest = longest.max(begin.elapsed());
        assert_eq!(table.lookup(0, &Fields::default(), Some(&packet)), None);
        let octets = name(n);
        let flow = by_name(Name::new(&octets).unwrap(), &instructions[0]);
        ids[n as usize] = table.add(Instant::ZERO, &flow).unwrap();
    }
    // A search through all, or a table that is built anew, would take far longer; a busy machine may take a while too.
    assert!(longest < Duration::from_millis(100), "{longest:?}");
}
