//! One eBPF instruction (RFC 9669) and the names of its codes.

/// An instruction of eight octets. The 64-bit immediate load takes two, of which the second has code 0.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Instruction {
    /// Class, operation and kind of operand.
    pub code: u8,
    /// The register that is written or compared, 0 to 10.
    pub dst: u8,
    /// The other register, 0 to 10.
    pub src: u8,
    /// Octets from an address, or instructions from the next one.
    pub offset: i16,
    /// A constant operand.
    pub immediate: i32,
}

impl Instruction {
    /// Octets of one instruction.
    pub const OCTETS: usize = 8;

    /// An instruction of its parts.
    pub const fn new(code: u8, dst: u8, src: u8, offset: i16, immediate: i32) -> Self {
        Self { code, dst, src, offset, immediate }
    }

    /// Reads an instruction in little-endian order.
    pub const fn decode(octets: [u8; 8]) -> Self {
        let [code, registers, o0, o1, i0, i1, i2, i3] = octets;
        Self {
            code,
            dst: registers & 15,
            src: registers >> 4,
            offset: i16::from_le_bytes([o0, o1]),
            immediate: i32::from_le_bytes([i0, i1, i2, i3]),
        }
    }

    /// Writes the instruction in little-endian order.
    pub const fn encode(self) -> [u8; 8] {
        let [o0, o1] = self.offset.to_le_bytes();
        let [i0, i1, i2, i3] = self.immediate.to_le_bytes();
        [self.code, self.dst & 15 | self.src << 4, o0, o1, i0, i1, i2, i3]
    }

    /// The class, the lowest three bits of the code.
    pub const fn class(self) -> u8 {
        self.code & 7
    }

    /// The operation of an arithmetic instruction or a jump, the highest four bits.
    pub const fn operation(self) -> u8 {
        self.code & 0xf0
    }

    /// Whether the second operand is a register.
    pub const fn by_register(self) -> bool {
        self.code & SOURCE_REGISTER != 0
    }

    /// Octets that a load or store moves.
    pub const fn width(self) -> u8 {
        match self.code & 0x18 {
            WORD => 4,
            HALF => 2,
            OCTET => 1,
            _ => 8,
        }
    }

    /// Whether control can go on with the instruction that follows.
    pub const fn falls_through(self) -> bool {
        !(self.class() == JMP && matches!(self.operation(), JA | EXIT | AGAIN))
    }

    /// Whether this is a jump that depends on a comparison.
    pub const fn branches(self) -> bool {
        match self.class() {
            JMP => !matches!(self.operation(), JA | CALL | EXIT | AGAIN),
            JMP32 => true,
            _ => false,
        }
    }
}

/// Reads instructions one after the other; nothing if a last one is cut off.
pub fn decode_all(octets: &[u8]) -> Option<Vec<Instruction>> {
    let (whole, rest) = octets.as_chunks::<{ Instruction::OCTETS }>();
    rest.is_empty().then(|| whole.iter().map(|octets| Instruction::decode(*octets)).collect())
}

// Classes.
pub const LD: u8 = 0;
pub const LDX: u8 = 1;
pub const ST: u8 = 2;
pub const STX: u8 = 3;
pub const ALU: u8 = 4;
pub const JMP: u8 = 5;
pub const JMP32: u8 = 6;
pub const ALU64: u8 = 7;

// Widths and modes of loads and stores.
pub const WORD: u8 = 0x00;
pub const HALF: u8 = 0x08;
pub const OCTET: u8 = 0x10;
pub const DOUBLE: u8 = 0x18;
pub const MODE: u8 = 0xe0;
pub const ABSOLUTE: u8 = 0x20;
pub const INDIRECT: u8 = 0x40;
pub const MEMORY: u8 = 0x60;
pub const SIGNED_MEMORY: u8 = 0x80;
pub const ATOMIC: u8 = 0xc0;
/// The load of a 64-bit constant.
pub const LOAD_64: u8 = LD | DOUBLE;

// The bit that says that the second operand is a register.
pub const SOURCE_REGISTER: u8 = 0x08;

// Arithmetic, but for what needs no care of its own.
pub const ADD: u8 = 0x00;
pub const SUB: u8 = 0x10;
pub const DIV: u8 = 0x30;
pub const AND: u8 = 0x50;
pub const LSH: u8 = 0x60;
pub const RSH: u8 = 0x70;
pub const NEG: u8 = 0x80;
pub const MOD: u8 = 0x90;
pub const XOR: u8 = 0xa0;
pub const MOV: u8 = 0xb0;
pub const ARSH: u8 = 0xc0;
pub const END: u8 = 0xd0;

// Jumps, but for those that need no care of their own.
pub const JA: u8 = 0x00;
pub const JEQ: u8 = 0x10;
pub const JGE: u8 = 0x30;
pub const JSET: u8 = 0x40;
pub const JNE: u8 = 0x50;
pub const JSGT: u8 = 0x60;
pub const JSGE: u8 = 0x70;
pub const CALL: u8 = 0x80;
pub const EXIT: u8 = 0x90;
pub const JSLT: u8 = 0xc0;
pub const JSLE: u8 = 0xd0;

/// Ends a run that is to begin again in the interpreter. No program has it: [`super::unroll`] puts it where a loop goes on too long.
pub const AGAIN: u8 = 0xf0;

/// The register that points behind the stack.
pub const FRAME: u8 = 10;
