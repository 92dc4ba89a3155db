//! Reading the cases of this folder.
#![allow(dead_code, clippy::unwrap_used, clippy::panic, reason = "each test program uses a part")]

use heddle_core::gf::Field;
use heddle_core::rlnc::vector_octets;
use serde_json::Value;
use std::path::Path;

/// Calls a function generic over the field with the field of that name.
macro_rules! with_field {
    ($name:expr, $function:ident($($argument:expr),*)) => {
        match $name {
            "gf2" => $function::<heddle_core::gf::Gf2>($($argument),*),
            "gf2_4" => $function::<heddle_core::gf::Gf16>($($argument),*),
            "gf2_8_11b" => $function::<heddle_core::gf::Gf256>($($argument),*),
            "gf2_8_11d" => $function::<heddle_core::gf::Gf256With11d>($($argument),*),
            "gf2_16" => $function::<heddle_core::gf::Gf65536>($($argument),*),
            other => panic!("a field that this test does not know: {other}"),
        }
    };
}
pub(crate) use with_field;

/// The cases in the file `name`.
pub fn cases(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name);
    let cases: Vec<Value> = std::fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(!cases.is_empty(), "no case in {name}");
    cases
}

pub fn text<'a>(case: &'a Value, key: &str) -> &'a str {
    case[key].as_str().unwrap_or_else(|| panic!("no text {key} in {case}"))
}

pub fn number(case: &Value, key: &str) -> usize {
    case[key].as_u64().unwrap_or_else(|| panic!("no number {key} in {case}")) as usize
}

pub fn octets(case: &Value, key: &str) -> Vec<u8> {
    hex::decode(text(case, key)).unwrap()
}

/// The element under `key`.
pub fn element<F: Field>(case: &Value, key: &str) -> F::Element {
    F::element(u16::from_str_radix(text(case, key), 16).unwrap())
}

/// Elements written with a fixed number of digits each.
pub fn hex_field<F: Field>(digits: &str) -> Vec<F::Element> {
    let width = (F::BITS as usize).div_ceil(4);
    assert_eq!(digits.len() % width, 0);
    (0..digits.len() / width)
        .map(|at| F::element(u16::from_str_radix(&digits[at * width..][..width], 16).unwrap()))
        .collect()
}

/// Elements packed as a coding vector.
pub fn pack<F: Field>(elements: &[F::Element]) -> Vec<u8> {
    let mut vector = vec![0; vector_octets::<F>(elements.len())];
    for (index, element) in elements.iter().enumerate() {
        F::set(&mut vector, index, *element);
    }
    vector
}

/// The first `count` symbols of a coding vector.
pub fn unpack<F: Field>(vector: &[u8], count: usize) -> Vec<F::Element> {
    (0..count).map(|index| F::get(vector, index)).collect()
}

/// The row of `len` octets by the rule under `key`, its addend moved by `shift`.
pub fn rule(case: &Value, key: &str, len: usize, shift: usize) -> Vec<u8> {
    let [m, a, n] = [0, 1, 2].map(|at| case[key][at].as_u64().unwrap() as usize);
    (0..len).map(|i| ((i * m + a + shift) % n) as u8).collect()
}
