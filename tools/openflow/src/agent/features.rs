//! What tables can do (OpenFlow 1.3.5, 7.3.5.5): the same for each, but for the tables that follow.

use super::translate::{MATCHABLE, SETTABLE};
use crate::experiment::EXPERIMENTER;
use crate::ours::{HEDDLE, NAME, NDN_KIND, PROGRAM, PROGRAM_NUMBERED};
use crate::wire::Write;
use crate::{Field, TableFeatures, TableProperty};
use heddle_core::flow::MAX_TABLES;

/// Goto, write metadata, write actions, apply actions, clear actions.
const INSTRUCTIONS: [u16; 5] = [1, 2, 3, 4, 5];

/// Output, copy TTL out and in, set and decrement MPLS TTL, push and pop MPLS, group, set and decrement TTL, set-field.
const ACTIONS: [u16; 11] = [0, 11, 12, 15, 16, 19, 20, 22, 23, 24, 25];

pub(super) fn table_features(table: u8, max_entries: u32) -> TableFeatures {
    let later: Vec<u8> = (table + 1..MAX_TABLES as u8).collect();
    let mut properties = Vec::new();
    // For flows and for the flow that no other comes before.
    for miss in [0, 1] {
        let mut add = |kind: u16, body: Vec<u8>| {
            properties.push(TableProperty { kind: kind + miss, body });
        };
        // The last table has none to go to.
        let instructions = if later.is_empty() { &INSTRUCTIONS[1..] } else { &INSTRUCTIONS[..] };
        add(0, numbers(instructions));
        add(2, later.clone());
        add(4, actions());
        add(6, actions());
        add(12, fields(SETTABLE, false));
        add(14, fields(SETTABLE, false));
    }
    // Match, and wildcards: every field may be left out.
    properties.push(TableProperty { kind: 8, body: [fields(MATCHABLE, true), ours()].concat() });
    properties.push(TableProperty { kind: 10, body: [fields(MATCHABLE, false), ours()].concat() });
    TableFeatures {
        table,
        name: format!("table {table}"),
        metadata_match: u64::MAX,
        metadata_write: u64::MAX,
        config: 0,
        max_entries,
        properties,
    }
}

/// Types, each with the length of its own header.
fn numbers(types: &[u16]) -> Vec<u8> {
    let mut out = Vec::new();
    for kind in types {
        out.u16(*kind);
        out.u16(4);
    }
    out
}

fn actions() -> Vec<u8> {
    let mut out = numbers(&ACTIONS);
    // Those of tunnels.
    out.u16(0xffff);
    out.u16(8);
    out.u32(HEDDLE);
    out
}

/// Headers of fields; with masks, where it matters which fields can have one.
fn fields(fields: &[Field], with_masks: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for field in fields {
        let mask = u8::from(with_masks && field.can_mask());
        out.u16(0x8000);
        out.u8((*field as u8) << 1 | mask);
        out.u8((field.octets() as u8) << mask);
    }
    out
}

/// Headers of the fields of experimenters.
fn ours() -> Vec<u8> {
    let mut out = Vec::new();
    for (experimenter, number, octets) in [
        (EXPERIMENTER, PROGRAM, 16),
        (EXPERIMENTER, PROGRAM_NUMBERED, 20),
        (HEDDLE, NDN_KIND, 5),
        (HEDDLE, NAME, 4),
    ] {
        out.u16(crate::CLASS_EXPERIMENTER);
        out.u8(number << 1);
        out.u8(octets);
        out.u32(experimenter);
    }
    out
}
