//! What the tests of programs share, here and where they are compiled: a writer of programs, programs made at random, and a plain
//! interpreter that knows nothing of confinement, to say what a program means.
#![allow(dead_code)]

use heddle_core::flow::ProgramPlace;
use heddle_core::node::PortId;
use heddle_host::program::{Backend, Block, Fault, Instruction, Program};

/// An instruction of its fields.
pub const fn i(code: u8, dst: u8, src: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction::new(code, dst, src, offset, immediate)
}

/// `dst = immediate`.
pub const fn set(dst: u8, immediate: i32) -> Instruction {
    i(0xb7, dst, 0, 0, immediate)
}

/// `dst = src`.
pub const fn copy(dst: u8, src: u8) -> Instruction {
    i(0xbf, dst, src, 0, 0)
}

/// `dst = *(src + offset)`, of 8 octets.
pub const fn load(dst: u8, src: u8, offset: i16) -> Instruction {
    i(0x79, dst, src, offset, 0)
}

/// `dst = *(src + offset)`, of 1 octet.
pub const fn load_octet(dst: u8, src: u8, offset: i16) -> Instruction {
    i(0x71, dst, src, offset, 0)
}

/// The end.
pub const EXIT: Instruction = i(0x95, 0, 0, 0, 0);

/// A program's octets.
pub fn octets(code: &[Instruction]) -> Vec<u8> {
    code.iter().flat_map(|instruction| instruction.encode()).collect()
}

/// Where all of these programs run.
pub const PLACE: ProgramPlace = ProgramPlace { table: 3, in_port: PortId(7) };

/// One run on a backend: the verdict, or what went wrong.
pub fn run(
    backend: &dyn Backend,
    program: &Program,
    parameter: &[u8],
    packet: &[u8],
) -> Result<u64, Fault> {
    run_at(PLACE, backend, program, parameter, packet)
}

/// One run somewhere.
pub fn run_at(
    place: ProgramPlace,
    backend: &dyn Backend,
    program: &Program,
    parameter: &[u8],
    packet: &[u8],
) -> Result<u64, Fault> {
    let mut machine = backend.prepare(program).unwrap();
    let mut block = Block::new(parameter).unwrap();
    let armed = block.arm(place, packet).unwrap();
    let verdict = machine.run(&armed);
    match armed.fault() {
        Some(fault) => Err(fault),
        None => Ok(verdict.expect("a confined program stays inside by its own checks")),
    }
}

/// A 64-bit load of a constant, in two.
pub fn wide(dst: u8, value: u64) -> [Instruction; 2] {
    let (low, high) = (value as u32 as i32, (value >> 32) as u32 as i32);
    [i(0x18, dst, 0, 0, low), i(0, 0, 0, 0, high)]
}

/// Four numbers that say what to do next, in a program made at random.
pub type Seed = (u8, u8, u8, i32);

/// A distance that is inside mostly, and now and then right or far outside.
fn near(number: i32, length: i32) -> i16 {
    if number & 0xf00 == 0 { (number % 128) as i16 } else { number.rem_euclid(length - 8) as i16 }
}

/// A program that is valid whatever the seeds are: R0 to R5 hold numbers, R6 the packet, R7 the parameter, R8 the packet's length, R9 the
/// context. It reads near the packet's and the parameter's ends, on both sides of them.
pub fn random_program(seeds: &[Seed]) -> Vec<Instruction> {
    let mut pieces: Vec<Vec<Instruction>> = vec![vec![
        copy(9, 1),
        load(6, 1, 32),
        load(7, 1, 24),
        load(8, 1, 16),
        set(0, 1),
        set(1, -5),
        set(2, 0x7fff_ffff),
        set(3, 3),
        set(4, 64),
        set(5, 0),
        i(0x7b, 10, 8, -8, 0),
        i(0x7a, 10, 0, -16, 77),
        i(0x7b, 10, 6, -24, 0),
        i(0x62, 10, 0, -32, -3),
        i(0x72, 10, 0, -27, 9),
        i(0x6b, 10, 1, -512, 0),
    ]];
    // Which piece comes behind a jump, for each jump: its place in `pieces` and in the piece.
    let mut jumps: Vec<(usize, usize, usize)> = Vec::new();
    for (what, one, other, number) in seeds {
        let (dst, src) = (one % 6, other % 6);
        let piece = pieces.len();
        let width = [0x71, 0x69, 0x61, 0x79][usize::from(one / 8 % 4)];
        pieces.push(match what % 16 {
            0..=3 => {
                // Any arithmetic; constants in range where there is one.
                let operation =
                    [0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x90, 0xa0, 0xb0, 0xc0]
                        [usize::from(other / 8 % 12)];
                let class = if what & 16 == 0 { 7 } else { 4 };
                let by_register = what & 32 != 0;
                let bits = if class == 7 { 64 } else { 32 };
                let immediate = match operation {
                    0x60 | 0x70 | 0xc0 => number.rem_euclid(bits),
                    0x30 | 0x90 if *number == 0 => 7,
                    _ => *number,
                };
                if by_register {
                    vec![i(class | operation | 8, dst, src, 0, 0)]
                } else {
                    vec![i(class | operation, dst, 0, 0, immediate)]
                }
            }
            4 => vec![i(if what & 16 == 0 { 0x87 } else { 0x84 }, dst, 0, 0, 0)],
            5 => vec![i(
                if what & 16 == 0 { 0xd4 } else { 0xdc },
                dst,
                0,
                0,
                [16, 32, 64][usize::from(other % 3)],
            )],
            6 => wide(dst, (i64::from(*number) << 29 ^ i64::from(*number)) as u64).to_vec(),
            // At a constant distance.
            7 => vec![i(width, dst, 6, near(*number, 70), 0)],
            8 => vec![i(width, dst, 7, near(*number, 16), 0)],
            9 => vec![i(width, dst, 9, near(*number, 48), 0)],
            // At a distance that depends on data.
            10 | 11 => vec![
                copy(dst, src),
                i(0x57, dst, 0, 0, if what & 16 == 0 { 63 } else { 7 }),
                i(0x0f, dst, if what & 16 == 0 { 6 } else { 7 }, 0, 0),
                i(width, dst, dst, near(*number, 9), 0),
            ],
            // Before the end of the packet, or at any address.
            12 => match number & 31 {
                0 => vec![i(width, dst, src, (number % 9) as i16, 0)],
                _ => vec![
                    copy(dst, 6),
                    i(0x0f, dst, 8, 0, 0),
                    i(
                        width,
                        dst,
                        dst,
                        -(8 + (number & 7) as i16) + i16::from(number & 0x1e00 == 0),
                        0,
                    ),
                    i(0x71, dst, 6, 1, 0),
                ],
            },
            13 => match other % 6 {
                0 => vec![i(0x7b, 10, dst, -8, 0), i(0x79, src, 10, -8, 0)],
                1 => vec![i(0x69, dst, 10, -10, 0)],
                2 => vec![i(0x79, dst, 10, -24, 0), i(0x71, dst, dst, 3, 0)],
                3 => vec![copy(dst, 10), i(0x07, dst, 0, 0, -16), i(0x61, dst, dst, 4, 0)],
                4 => vec![i(0x61, dst, 10, -32, 0), i(0x71, src, 10, -27, 0)],
                _ => vec![i(0x73, 10, dst, -511, 0), i(0x69, src, 10, -512, 0)],
            },
            _ => {
                let operation = [0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0xa0, 0xb0, 0xc0, 0xd0]
                    [usize::from(other / 8 % 11)];
                let class = if what & 32 == 0 { 5 } else { 6 };
                jumps.push((piece, 0, piece + 1 + usize::from(one / 16)));
                if what & 16 == 0 {
                    vec![i(class | operation, dst, 0, 0, *number)]
                } else {
                    vec![i(class | operation | 8, dst, src, 0, 0)]
                }
            }
        });
    }
    let mut starts = Vec::new();
    let mut length = 0;
    for piece in &pieces {
        starts.push(length);
        length += piece.len();
    }
    starts.push(length);
    for (piece, inside, to) in jumps {
        let to = starts[to.min(pieces.len())];
        pieces[piece][inside].offset = (to - (starts[piece] + inside) - 1) as i16;
    }
    let mut code: Vec<Instruction> = pieces.concat();
    // The verdict depends on everything.
    for register in 1..6 {
        code.push(i(0x27, 0, 0, 0, 31));
        code.push(i(0x0f, 0, register, 0, 0));
    }
    code.push(EXIT);
    code
}

/// The same program with all between its first instructions and the verdict run several times.
pub fn rounds(code: &[Instruction], count: i32) -> Vec<Instruction> {
    let (first, rest) = code.split_at(16);
    let (body, last) = rest.split_at(rest.len() - 11);
    let back = -(body.len() as i16) - 4;
    [
        first,
        &[i(0x7a, 10, 0, -40, count)],
        body,
        &[load(5, 10, -40), i(0x07, 5, 0, 0, -1), i(0x7b, 10, 5, -40, 0), i(0x55, 5, 0, back, 0)],
        last,
    ]
    .concat()
}

/// What a program means: the verdict, or nothing where it reads outside.
pub fn meaning(code: &[Instruction], parameter: &[u8], packet: &[u8]) -> Option<u64> {
    const CONTEXT: u64 = 0x4000_0000;
    const PACKET: u64 = 0x8000_0000;
    const STACK: u64 = 0x6000_0000;
    let mut context = vec![0; 40];
    context[0] = PLACE.table;
    context[4..8].copy_from_slice(&(u32::from(PLACE.in_port.0) + 1).to_le_bytes());
    context[8] = parameter.len().min(255) as u8;
    context[12..16].copy_from_slice(&(parameter.len() as u32).to_le_bytes());
    context[16..24].copy_from_slice(&(packet.len() as u64).to_le_bytes());
    context[24..32].copy_from_slice(&(CONTEXT + 40).to_le_bytes());
    context[32..40].copy_from_slice(&PACKET.to_le_bytes());
    context.extend(parameter);
    let mut stack = vec![0_u8; 512];
    let mut r = [0_u64; 11];
    r[1] = CONTEXT;
    r[10] = STACK;
    let mut at = 0;
    loop {
        let Instruction { code: op, dst, src, offset, immediate } = code[at];
        let (d, s) = (usize::from(dst), usize::from(src));
        let signed = i64::from(immediate) as u64;
        let width = match op & 0x18 {
            0x00 => 4,
            0x08 => 2,
            0x10 => 1,
            _ => 8,
        };
        at += 1;
        match op & 7 {
            0 => {
                r[d] = u64::from(immediate as u32) | u64::from(code[at].immediate as u32) << 32;
                at += 1;
            }
            1 => {
                let address = r[s].wrapping_add(i64::from(offset) as u64) & 0x7fff_ffff;
                let read = |memory: &[u8], from: u64| {
                    let from = usize::try_from(address.checked_sub(from)?).ok()?;
                    let octets = memory.get(from..from.checked_add(width)?)?;
                    Some(octets.iter().rev().fold(0, |sum, octet| sum << 8 | u64::from(*octet)))
                };
                r[d] = read(packet, 0)
                    .or_else(|| read(&context, CONTEXT))
                    .or_else(|| read(&stack, STACK - 512))?;
            }
            class @ (2 | 3) => {
                let value = if class == 2 { signed } else { r[s] };
                let from = (r[d].wrapping_add(i64::from(offset) as u64) - (STACK - 512)) as usize;
                stack[from..from + width].copy_from_slice(&value.to_le_bytes()[..width]);
            }
            class @ (4 | 7) => {
                let wide = class == 7;
                let cut = |value: u64| if wide { value } else { u64::from(value as u32) };
                let a = cut(r[d]);
                let b = cut(if op & 8 != 0 { r[s] } else { signed });
                let by = (b & if wide { 63 } else { 31 }) as u32;
                r[d] = cut(match op & 0xf0 {
                    0x00 => a.wrapping_add(b),
                    0x10 => a.wrapping_sub(b),
                    0x20 => a.wrapping_mul(b),
                    0x30 => a.checked_div(b).unwrap_or(0),
                    0x40 => a | b,
                    0x50 => a & b,
                    0x60 => a << by,
                    0x70 => a >> by,
                    0x80 => a.wrapping_neg(),
                    0x90 => a.checked_rem(b).unwrap_or(a),
                    0xa0 => a ^ b,
                    0xb0 => b,
                    0xc0 if wide => (a as i64 >> by) as u64,
                    0xc0 => (a as i32 >> by) as u64,
                    _ => {
                        let whole = r[d];
                        let swap = op & 8 != 0;
                        r[d] = match immediate {
                            16 if swap => u64::from((whole as u16).swap_bytes()),
                            32 if swap => u64::from((whole as u32).swap_bytes()),
                            64 if swap => whole.swap_bytes(),
                            16 => u64::from(whole as u16),
                            32 => u64::from(whole as u32),
                            _ => whole,
                        };
                        continue;
                    }
                });
            }
            class => {
                if op == 0x95 {
                    return Some(r[0]);
                }
                let (a, b) = (r[d], if op & 8 != 0 { r[s] } else { signed });
                let narrow = class == 6;
                let (ua, ub) =
                    if narrow { (u64::from(a as u32), u64::from(b as u32)) } else { (a, b) };
                let (sa, sb) = if narrow {
                    (i64::from(a as i32), i64::from(b as i32))
                } else {
                    (a as i64, b as i64)
                };
                let jumps = match op & 0xf0 {
                    0x00 => true,
                    0x10 => ua == ub,
                    0x20 => ua > ub,
                    0x30 => ua >= ub,
                    0x40 => ua & ub != 0,
                    0x50 => ua != ub,
                    0x60 => sa > sb,
                    0x70 => sa >= sb,
                    0xa0 => ua < ub,
                    0xb0 => ua <= ub,
                    0xc0 => sa < sb,
                    _ => sa <= sb,
                };
                if jumps {
                    at = at.wrapping_add_signed(isize::from(offset));
                }
            }
        }
    }
}
