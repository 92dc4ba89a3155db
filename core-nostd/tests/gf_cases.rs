//! Field arithmetic against cases that were computed elsewhere, with every kernel of this CPU.

#![allow(clippy::unwrap_used, clippy::panic, reason = "this is a test")]

mod common;

use common::{cases, element, hex_field, number, octets, pack, rule, text, with_field};
use heddle_core::gf::{self, Field, Gf2, Gf16, Gf256, Gf256With11d, Gf65536, Gf65536Le};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::sync::Mutex;

/// Tests that force a kernel take turns.
static TURN: Mutex<()> = Mutex::new(());

/// Runs `check` once with each kernel of this CPU.
fn with_each_kernel(check: impl Fn(&str)) {
    let _turn = TURN.lock().unwrap();
    for name in gf::kernel_names() {
        gf::force(name).unwrap();
        assert_eq!(gf::kernel_name(), name);
        check(name);
    }
    gf::force("auto").unwrap();
}

#[test]
fn products() {
    fn check<F: Field>(case: &Value) {
        let (a, b) = (element::<F>(case, "a"), element::<F>(case, "b"));
        let product = element::<F>(case, "product");
        assert_eq!(F::mul(a, b), product, "{case}");
        assert_eq!(F::mul(b, a), product, "{case}");
    }
    for case in cases("gf/products.jsonl") {
        with_field!(text(&case, "field"), check(&case));
    }
}

#[test]
fn inverses() {
    fn check<F: Field>(case: &Value) {
        let (a, inverse) = (element::<F>(case, "a"), element::<F>(case, "inverse"));
        assert_eq!(F::inv(a), Some(inverse), "{case}");
        assert_eq!(F::mul(a, inverse), F::ONE, "{case}");
        assert_eq!(F::inv(F::ZERO), None);
    }
    for case in cases("gf/inverses.jsonl") {
        with_field!(text(&case, "field"), check(&case));
    }
}

#[test]
fn tables() {
    fn product_table<F: Field<Element = u8>>() -> Vec<u8> {
        let order = 1u16 << F::BITS;
        (0..order)
            .flat_map(|a| (0..order).map(move |b| F::mul(F::element(a), F::element(b))))
            .collect()
    }
    fn inverse_table<F: Field>() -> Vec<u8> {
        let octets = F::BITS as usize / 8;
        (1..1u32 << F::BITS)
            .flat_map(|a| {
                let inverse: u16 = F::inv(F::element(a as u16)).unwrap().into();
                inverse.to_be_bytes()[2 - octets..].to_vec()
            })
            .collect()
    }
    for case in cases("gf/tables.jsonl") {
        let table = match (text(&case, "field"), text(&case, "what")) {
            ("gf2_4", "product_table") => product_table::<Gf16>(),
            ("gf2_8_11b", "product_table") => product_table::<Gf256>(),
            ("gf2_8_11d", "product_table") => product_table::<Gf256With11d>(),
            ("gf2_8_11b", "inverse_table") => inverse_table::<Gf256>(),
            ("gf2_8_11d", "inverse_table") => inverse_table::<Gf256With11d>(),
            ("gf2_16", "inverse_table") => inverse_table::<Gf65536>(),
            other => panic!("a table that this test does not know: {other:?}"),
        };
        assert_eq!(hex::encode(Sha256::digest(&table)), text(&case, "sha256"));
    }
}

/// The row `name` of `len` octets, given in full or by its rule; `shift` moves the rule's addend.
fn row(case: &Value, name: &str, len: usize, shift: usize) -> Vec<u8> {
    match case.get(name) {
        Some(_) => octets(case, name),
        None => rule(case, &format!("{name}_rule"), len, shift),
    }
}

fn assert_result(case: &Value, kernel: &str, result: &[u8]) {
    match case.get("result") {
        Some(_) => assert_eq!(hex::encode(result), text(case, "result"), "{kernel}: {case}"),
        None => assert_eq!(
            hex::encode(Sha256::digest(result)),
            text(case, "result_sha256"),
            "{kernel}: {case}"
        ),
    }
}

#[test]
fn bulk() {
    fn check<F: Field>(case: &Value, kernel: &str) {
        let len = number(case, "len");
        match text(case, "op") {
            "mul_add" => {
                let (mut dst, src) = (row(case, "dst", len, 0), row(case, "src", len, 0));
                F::mul_add(&mut dst, element::<F>(case, "c"), &src);
                assert_result(case, kernel, &dst);
            }
            "mul_add_at" => {
                let buffer_len = number(case, "buffer_len");
                let (src_at, dst_at) = (number(case, "src_at"), number(case, "dst_at"));
                let mut dst = row(case, "dst", buffer_len, 0);
                let src = row(case, "src", buffer_len, 0);
                F::mul_add(
                    &mut dst[dst_at..dst_at + len],
                    element::<F>(case, "c"),
                    &src[src_at..src_at + len],
                );
                assert_result(case, kernel, &dst);
            }
            "dot" => {
                let step = number(case, "src_step");
                let sources: Vec<Vec<u8>> =
                    (0..number(case, "k")).map(|j| row(case, "src", len, j * step)).collect();
                let sources: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
                let mut dst = vec![0xEE; len];
                let coefficients = pack::<F>(&hex_field::<F>(text(case, "coefficients")));
                F::dot(&mut dst, &coefficients, sources.as_slice());
                assert_result(case, kernel, &dst);
            }
            other => panic!("an operation that this test does not know: {other}"),
        }
    }
    let all = cases("gf/bulk.jsonl");
    assert!(all.len() > 500);
    with_each_kernel(|kernel| {
        for case in &all {
            match case.get("symbol_order").and_then(Value::as_str) {
                Some("le") => check::<Gf65536Le>(case, kernel),
                _ => with_field!(text(case, "field"), check(case, kernel)),
            }
        }
    });
}

#[test]
fn a_kernel_that_does_not_exist_is_refused() {
    assert_eq!(gf::force("mmx"), Err(gf::UnknownKernel));
    assert_eq!(Gf2::mul(1, 1), 1);
}
