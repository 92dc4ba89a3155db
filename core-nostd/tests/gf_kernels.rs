//! Every kernel of this CPU against plain arithmetic: all lengths, all alignments, canaries around each buffer.
#![allow(clippy::unwrap_used, clippy::panic, reason = "this is a test")]

use heddle_core::gf::{
    self, Field, Gf2, Gf16, Gf256, Gf256With11d, Gf65536, Gf65536Le, Rows, RowsMut,
};
use proptest::prelude::*;
use std::sync::Mutex;

/// Tests that force a kernel take turns.
static TURN: Mutex<()> = Mutex::new(());

fn with_each_kernel(check: impl Fn(&str)) {
    let _turn = TURN.lock().unwrap();
    for name in gf::kernel_names() {
        gf::force(name).unwrap();
        assert_eq!(gf::kernel_name(), name);
        check(name);
    }
    gf::force("auto").unwrap();
}

/// Octets that look random, from a seed.
fn noise(seed: usize, octets: usize) -> Vec<u8> {
    let mut x = seed as u64;
    (0..octets)
        .map(|_| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x >> 56) as u8
        })
        .collect()
}

/// The canary around buffers.
const CANARY: u8 = 0xC3;
/// Octets of canary before and after.
const MARGIN: usize = 64;

/// A buffer that begins at a chosen place behind a multiple of 64, with canaries around it.
struct Fenced {
    octets: Vec<u8>,
    start: usize,
    len: usize,
}

impl Fenced {
    fn new(content: &[u8], alignment: usize) -> Self {
        let mut octets = vec![CANARY; content.len() + 3 * MARGIN];
        let start = octets.as_ptr().align_offset(64) + alignment % 64 + MARGIN;
        let start = start - if start >= 2 * MARGIN { MARGIN } else { 0 };
        octets[start..start + content.len()].copy_from_slice(content);
        Self { octets, start, len: content.len() }
    }

    fn inner(&mut self) -> &mut [u8] {
        &mut self.octets[self.start..self.start + self.len]
    }

    /// The content, when the canaries are as they were.
    fn check(&self) -> &[u8] {
        let (before, rest) = self.octets.split_at(self.start);
        let (content, after) = rest.split_at(self.len);
        assert!(before.iter().chain(after).all(|octet| *octet == CANARY), "written outside");
        content
    }
}

/// `dst + c * src`, symbol by symbol.
fn plain_mul_add<F: Field>(dst: &mut [u8], c: F::Element, src: &[u8]) {
    let symbols = dst.len().min(src.len()) * 8 / F::BITS as usize;
    for index in 0..symbols {
        let sum = F::add(F::get(dst, index), F::mul(c, F::get(src, index)));
        F::set(dst, index, sum);
    }
}

/// A constant of the field that is not 0 (and not 1 where there are others), depending on `seed`.
fn some_constant<F: Field>(seed: usize) -> F::Element {
    let order = 1usize << F::BITS;
    F::element(if order == 2 { 1 } else { 2 + seed * 7919 % (order - 2) } as u16)
}

fn mul_add_and_scale<F: Field>(kernel: &str, step: usize) {
    for len in (0..=300).step_by(step) {
        let (dst, src) = (noise(len, len), noise(len + 1000, len));
        let c = some_constant::<F>(len);
        let mut sum = dst.clone();
        plain_mul_add::<F>(&mut sum, c, &src);
        let mut scaled = vec![0; len];
        plain_mul_add::<F>(&mut scaled, c, &dst);
        for alignment in (0..64).step_by(step) {
            let mut target = Fenced::new(&dst, alignment);
            let source = Fenced::new(&src, alignment * 5 + len);
            F::mul_add(target.inner(), c, source.check());
            assert_eq!(target.check(), sum, "{kernel} {} mul_add {len}", F::NAME);
            assert_eq!(source.check(), src);

            let mut target = Fenced::new(&dst, alignment);
            F::scale(target.inner(), c);
            assert_eq!(target.check(), scaled, "{kernel} {} scale {len}", F::NAME);
        }
    }
}

#[test]
fn mul_add_and_scale_at_all_lengths_and_alignments() {
    with_each_kernel(|kernel| {
        mul_add_and_scale::<Gf256>(kernel, 1);
        mul_add_and_scale::<Gf256With11d>(kernel, 7);
        mul_add_and_scale::<Gf16>(kernel, 7);
        mul_add_and_scale::<Gf2>(kernel, 7);
        mul_add_and_scale::<Gf65536>(kernel, 2);
        mul_add_and_scale::<Gf65536Le>(kernel, 6);
    });
}

/// Dot products of `count` sources and products of matrices with `count` outputs, at all lengths.
fn sums<F: Field>(kernel: &str, count: usize, step: usize) {
    let vector_octets = heddle_core::rlnc::vector_octets::<F>(count);
    let mut matrix = noise(count, vector_octets * count);
    if F::BITS == 8 {
        // Zeros and ones too.
        matrix[0] = 0;
        matrix[count - 1] = 1;
    }
    for len in (0..=300).step_by(step) {
        let sources: Vec<Fenced> =
            (0..count).map(|j| Fenced::new(&noise(j * 301 + len, len), j * 3 + len)).collect();
        let rows: Vec<&[u8]> = sources.iter().map(Fenced::check).collect();
        let expected: Vec<Vec<u8>> = (0..count)
            .map(|m| {
                let mut row = vec![0; len];
                for (j, source) in rows.iter().enumerate() {
                    let c = F::get(&matrix[m * vector_octets..][..vector_octets], j);
                    plain_mul_add::<F>(&mut row, c, source);
                }
                row
            })
            .collect();
        for (m, expected) in expected.iter().enumerate() {
            let vector = &matrix[m * vector_octets..][..vector_octets];
            let mut output = Fenced::new(&noise(m, len), len + m);
            let before = output.check().to_vec();
            F::dot(output.inner(), vector, rows.as_slice());
            assert_eq!(output.check(), expected, "{kernel} {} dot {count} {len}", F::NAME);

            // Accumulated onto itself, the sum becomes what was there.
            F::combine(output.inner(), vector, rows.as_slice(), true);
            assert!(output.check().iter().all(|octet| *octet == 0));
            F::combine(output.inner(), &[], rows.as_slice(), true);
            F::mul_add(output.inner(), F::ONE, &before);
            F::combine(output.inner(), vector, rows.as_slice(), true);
            let twice: Vec<u8> = before.iter().zip(expected).map(|(a, b)| a ^ b).collect();
            assert_eq!(output.check(), twice);
        }

        let stride = len + 3;
        let mut outputs = Fenced::new(&vec![CANARY; stride * count], len);
        F::product(
            &mut RowsMut::new(outputs.inner(), len, stride),
            &Rows::packed(&matrix, vector_octets),
            rows.as_slice(),
        );
        for (row, expected) in outputs.check().chunks(stride).zip(&expected) {
            assert_eq!(&row[..len], expected, "{kernel} {} product {count} {len}", F::NAME);
            assert_eq!(&row[len..], [CANARY; 3]);
        }

        let mut outer = Fenced::new(outputs.check(), len);
        F::add_outer(
            &mut RowsMut::new(outer.inner(), len, stride),
            &matrix[..vector_octets],
            rows[0],
        );
        for (m, (row, before)) in
            outer.check().chunks(stride).zip(outputs.check().chunks(stride)).enumerate()
        {
            let mut expected = before[..len].to_vec();
            plain_mul_add::<F>(&mut expected, F::get(&matrix, m), rows[0]);
            assert_eq!(&row[..len], expected, "{kernel} {} outer {count} {len}", F::NAME);
            assert_eq!(&row[len..], [CANARY; 3]);
        }
    }
}

#[test]
fn sums_of_products_at_all_lengths() {
    with_each_kernel(|kernel| {
        for count in [1, 2, 3, 4, 5, 7, 8] {
            sums::<Gf256>(kernel, count, 1);
            sums::<Gf256With11d>(kernel, count, 13);
            sums::<Gf16>(kernel, count, 13);
            sums::<Gf2>(kernel, count, 13);
            sums::<Gf65536>(kernel, count, 14);
        }
        sums::<Gf256>(kernel, 19, 37);
    });
}

#[test]
fn long_rows() {
    with_each_kernel(|kernel| {
        for len in [476, 511, 512, 513, 1024, 1400, 2047, 4096, 8192, 9001] {
            let sources = noise(len, 11 * len);
            let matrix = noise(3, 5 * 11);
            let rows = Rows::packed(&sources, len);
            let mut outputs = vec![0; 5 * len];
            Gf256::product(
                &mut RowsMut::packed(&mut outputs, len),
                &Rows::packed(&matrix, 11),
                &rows,
            );
            for (output, vector) in outputs.chunks(len).zip(matrix.chunks(11)) {
                let mut expected = vec![0; len];
                for (c, source) in vector.iter().zip(sources.chunks(len)) {
                    plain_mul_add::<Gf256>(&mut expected, *c, source);
                }
                assert_eq!(output, expected, "{kernel} {len}");
                let mut alone = vec![1; len];
                Gf256::dot(&mut alone, vector, &rows);
                assert_eq!(alone, expected, "{kernel} {len}");
            }
        }
    });
}

#[test]
fn more_sources_than_one_pass_takes_and_short_ones() {
    with_each_kernel(|kernel| {
        let sources: Vec<Vec<u8>> =
            (0..600).map(|j| noise(j, if j % 5 == 0 { j % 77 } else { 80 })).collect();
        let rows: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
        let vectors = noise(9, 1200);
        let mut expected = vec![vec![0; 77]; 2];
        for (row, vector) in expected.iter_mut().zip(vectors.chunks(600)) {
            for (c, source) in vector.iter().zip(&rows) {
                plain_mul_add::<Gf256>(row, *c, source);
            }
        }
        let mut outputs = vec![7; 2 * 77];
        Gf256::product(
            &mut RowsMut::packed(&mut outputs, 77),
            &Rows::packed(&vectors, 600),
            rows.as_slice(),
        );
        assert_eq!(outputs, expected.concat(), "{kernel}");
    });
}

/// The laws of a field, on elements at random.
fn laws<F: Field>(a: u16, b: u16, c: u16) {
    let [a, b, c] = [a, b, c].map(F::element);
    assert_eq!(F::mul(a, b), F::mul(b, a));
    assert_eq!(F::mul(a, F::mul(b, c)), F::mul(F::mul(a, b), c));
    assert_eq!(F::mul(a, F::add(b, c)), F::add(F::mul(a, b), F::mul(a, c)));
    assert_eq!(F::mul(a, F::ONE), a);
    assert_eq!(F::add(a, a), F::ZERO);
    match F::inv(a) {
        Some(inverse) => assert_eq!(F::mul(a, inverse), F::ONE),
        None => assert_eq!(a, F::ZERO),
    }
}

proptest! {
    #[test]
    fn every_field_obeys_the_laws(a: u16, b: u16, c: u16) {
        laws::<Gf2>(a, b, c);
        laws::<Gf16>(a, b, c);
        laws::<Gf256>(a, b, c);
        laws::<Gf256With11d>(a, b, c);
        laws::<Gf65536>(a, b, c);
    }
}
