//! Criterion benches of network coding: octets of source per second, for each operation, size and kernel.
#![allow(clippy::unwrap_used, missing_docs, reason = "benches")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use heddle_core::gf::{self, Field, Gf16, Gf256, Gf65536, Rows, RowsMut};
use heddle_core::rlnc::{CoefficientGenerator, DecoderState, Encoder, RecoderState, vector_octets};
use std::hint::black_box;

const BLOCK: usize = 1400;

fn octets(len: usize) -> Vec<u8> {
    let mut generator = CoefficientGenerator::new(1);
    (0..len).map(|_| generator.next_u64() as u8).collect()
}

/// Vectors of K random packets and their payloads.
fn packets(k: usize) -> (Vec<u8>, Vec<u8>) {
    let source = octets(k * BLOCK);
    let mut vectors = vec![0; k * k];
    CoefficientGenerator::new(2).fill_non_zero::<Gf256>(&mut vectors, k * k);
    let mut payloads = vec![0; k * BLOCK];
    Gf256::product(
        &mut RowsMut::packed(&mut payloads, BLOCK),
        &Rows::packed(&vectors, k),
        &Rows::packed(&source, BLOCK),
    );
    (vectors, payloads)
}

fn kernels(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("mul_add of 1400 octets");
    group.throughput(Throughput::Bytes(BLOCK as u64));
    let (mut dst, src) = (octets(BLOCK), octets(BLOCK));
    for kernel in gf::kernel_names().collect::<Vec<_>>() {
        gf::force(kernel).unwrap();
        group.bench_function(BenchmarkId::new("GF(2^8)", kernel), |bencher| {
            bencher.iter(|| Gf256::mul_add(black_box(&mut dst), 0x53, black_box(&src)));
        });
        group.bench_function(BenchmarkId::new("GF(2^16)", kernel), |bencher| {
            bencher.iter(|| Gf65536::mul_add(black_box(&mut dst), 0x5307, black_box(&src)));
        });
    }
    gf::force("auto").unwrap();
}

fn encode<F: Field>(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group(format!("encode one packet, {}", F::NAME));
    for k in [3, 16, 64] {
        let source = octets(k * BLOCK);
        let rows = Rows::packed(&source, BLOCK);
        let encoder = Encoder::<F, _>::new(&rows, BLOCK).unwrap();
        let mut vector = vec![0; vector_octets::<F>(k)];
        CoefficientGenerator::new(3).fill_non_zero::<F>(&mut vector, k);
        let mut payload = vec![0; BLOCK];
        group.throughput(Throughput::Bytes((k * BLOCK) as u64));
        group.bench_function(BenchmarkId::from_parameter(k), |bencher| {
            bencher.iter(|| encoder.encode(&vector, black_box(&mut payload)).unwrap());
        });
    }
}

fn batch(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("encode K packets in one go");
    for k in [3, 16, 64] {
        let source = octets(k * BLOCK);
        let rows = Rows::packed(&source, BLOCK);
        let encoder = Encoder::<Gf256, _>::new(&rows, BLOCK).unwrap();
        let (vectors, mut payloads) = packets(k);
        group.throughput(Throughput::Bytes((k * k * BLOCK) as u64));
        group.bench_function(BenchmarkId::from_parameter(k), |bencher| {
            bencher.iter(|| {
                let mut outputs = RowsMut::packed(black_box(&mut payloads), BLOCK);
                encoder.batch(&Rows::packed(&vectors, k), &mut outputs).unwrap();
            });
        });
    }
}

fn recode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("recode one packet");
    for k in [3, 16, 64] {
        let (vectors, payloads) = packets(k);
        let mut memory = vec![0; RecoderState::<Gf256>::memory_octets(k as u8, BLOCK)];
        let mut recoder = RecoderState::<Gf256>::new(k as u8, BLOCK).unwrap();
        for (vector, payload) in vectors.chunks(k).zip(payloads.chunks(BLOCK)) {
            recoder.insert(&mut memory, vector, payload).unwrap();
        }
        let mut generator = CoefficientGenerator::new(4);
        let mut packet = vec![0; k + BLOCK];
        group.throughput(Throughput::Bytes((k * BLOCK) as u64));
        group.bench_function(BenchmarkId::from_parameter(k), |bencher| {
            bencher.iter(|| {
                recoder
                    .recode_packet_random(&memory, &mut generator, black_box(&mut packet))
                    .unwrap();
            });
        });
    }
}

fn decode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode K random packets");
    for k in [3, 16, 64] {
        let (vectors, payloads) = packets(k);
        let mut memory = vec![0; DecoderState::<Gf256>::memory_octets(k as u8, BLOCK)];
        let mut output = vec![0; k * BLOCK];
        group.throughput(Throughput::Bytes((k * BLOCK) as u64));
        group.bench_function(BenchmarkId::from_parameter(k), |bencher| {
            bencher.iter(|| {
                let mut decoder = DecoderState::<Gf256>::new(k as u8, BLOCK).unwrap();
                for (vector, payload) in vectors.chunks(k).zip(payloads.chunks(BLOCK)) {
                    decoder.insert(&mut memory, vector, payload).unwrap();
                }
                decoder
                    .blocks_into(&memory, &mut RowsMut::packed(black_box(&mut output), BLOCK))
                    .unwrap();
            });
        });
    }
}

criterion_group!(benches, kernels, encode::<Gf256>, encode::<Gf16>, batch, recode, decode);
criterion_main!(benches);
