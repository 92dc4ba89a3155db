//! Counts the steps that the tables take, in tests: each place that a look-up or a change has to look at.

#[cfg(not(test))]
#[inline(always)]
pub(super) const fn count() {}

#[cfg(test)]
pub(super) use counting::{count, take};

#[cfg(test)]
mod counting {
    use std::cell::Cell;

    std::thread_local! {
        static STEPS: Cell<u32> = const { Cell::new(0) };
    }

    pub fn count() {
        STEPS.set(STEPS.get() + 1);
    }

    /// Steps since the last call.
    pub fn take() -> u32 {
        STEPS.replace(0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        Action, Fields, Flow, FlowTable, Instructions, Match, NameChunk, Output, Rule, RuleBucket,
        RuleId, SetField, SharedInstructions, TableMemory, Timeouts,
    };
    use super::take;
    use crate::ndn::Name;
    use crate::node::{Instant, PortId};
    use proptest::prelude::*;
    use proptest::test_runner::TestRng;
    use std::collections::HashMap;
    use std::vec::Vec;

    /// What any one change or look-up may take, whatever the tables hold.
    const MOST_STEPS: u32 = 32;

    const PREFIXES: usize = 1_000_000;
    const GATEWAYS: u32 = 50_000;

    /// A name of one to four components: the shorter ones are prefixes of the longer ones.
    fn name(number: u32) -> Vec<u8> {
        let depth = 1 + number as usize % 4;
        let octets = (number / 4).to_be_bytes();
        let parts = [&octets[..2], &octets[2..3], &octets[3..], b"x"];
        parts
            .iter()
            .take(depth)
            .flat_map(|part| {
                let mut component = Vec::from([8, part.len() as u8]);
                component.extend_from_slice(part);
                component
            })
            .collect()
    }

    fn to_gateway(number: u32) -> Instructions {
        let address = (0x0a00_0000 + number % GATEWAYS).to_be_bytes();
        Instructions::applying(&[
            Action::SetField(SetField::Ipv4Destination(address)),
            Action::Output(Output::Port(PortId(1))),
        ])
        .unwrap()
    }

    fn add(table: &mut FlowTable<'_>, name: &[u8], instructions: &Instructions) -> RuleId {
        let flow = Flow {
            table: 0,
            priority: 100,
            matching: Match { name: Some(Name::new(name).unwrap()), ..Match::default() },
            instructions,
            cookie: 0,
            timeouts: Timeouts::default(),
            flags: 0,
        };
        table.add(Instant::ZERO, &flow).unwrap()
    }

    /// A million prefixes come and go in any order, with look-ups between, and no step of it depends on how many there are.
    #[test]
    fn every_change_and_every_look_up_takes_few_steps() {
        let mut rules = vec![Rule::vacant(); PREFIXES];
        let mut buckets = vec![RuleBucket::vacant(); (PREFIXES / 4).next_power_of_two()];
        let mut shared = vec![SharedInstructions::vacant(); GATEWAYS as usize + 1];
        let memory = TableMemory {
            rules: &mut rules,
            buckets: &mut buckets,
            names: &mut [NameChunk::vacant()],
            instructions: &mut shared,
        };
        let mut table = FlowTable::new(memory, 0x5eed);
        let mut random = TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha);
        let mut there: HashMap<Vec<u8>, RuleId> = HashMap::new();
        let (mut most, mut looked_up, mut peak) = (0, 0, 0);
        take();
        // First mostly growth, then as much coming as going, then mostly going.
        for step in 0..4 * PREFIXES {
            let mut number = random.next_u32() % (4 * PREFIXES as u32);
            let comes = [10, 9, 5, 1][step / PREFIXES];
            let comes = random.next_u32() % 10 < comes && there.len() < PREFIXES;
            while comes && there.contains_key(&name(number)) {
                number = random.next_u32() % (4 * PREFIXES as u32);
            }
            let name = name(number);
            if comes {
                let instructions = to_gateway(random.next_u32());
                take();
                let id = add(&mut table, &name, &instructions);
                there.insert(name.clone(), id);
                peak = peak.max(there.len());
            } else if let Some(id) = there.remove(&name) {
                take();
                table.remove(id);
            }
            most = most.max(take());
            if step % 4 == 0 {
                let found = table.lookup(0, &Fields::NONE, Some(&Name::new(&name).unwrap()));
                most = most.max(take());
                let ends = [name.len(), name.len() - 3, 7, 4].into_iter();
                let longest = ends
                    .filter_map(|end| name.get(..end.min(name.len())))
                    .filter(|prefix| Name::new(prefix).is_ok())
                    .filter_map(|prefix| Some((prefix.len(), *there.get(prefix)?)))
                    .max_by_key(|(octets, _)| *octets);
                assert_eq!(found, longest.map(|(_, id)| id));
                looked_up += u32::from(found.is_some());
            }
        }
        assert_eq!(table.len(), there.len());
        assert!(looked_up > 100_000, "{looked_up} look-ups found something");
        assert_eq!(peak, PREFIXES);
        assert!(most <= MOST_STEPS, "{most} steps at a time");
    }
}
