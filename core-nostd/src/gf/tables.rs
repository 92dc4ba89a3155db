//! Tables of products, made at compile time.
//!
//! In a field of characteristic 2, multiplication by a constant is linear over GF(2). For a field whose
//! symbols fill an octet evenly (one of 8 bits, two of 4, eight of 1) it is therefore a linear map of
//! octets, and every kernel works on such maps without knowing the field:
//! as two 16-entry tables (one for each half of the octet) or as an 8 by 8 bit matrix.

/// The linear octet maps "multiply by c" of one field, for every element c. Entries past the field's order are zero.
#[derive(Debug)]
pub struct OctetMaps {
    /// `nibbles[c][x]` is the map of `x` and `nibbles[c][16 + x]` that of `x << 4`.
    pub nibbles: [[u8; 32]; 256],
    /// The map as a bit matrix in the layout of the x86 instruction `gf2p8affineqb`.
    pub matrices: [u64; 256],
    /// The inverse of each element; 0 for 0.
    pub inverses: [u8; 256],
}

/// The product of two elements of GF(2^`bits`), `bits` at most 16, by shifting and adding.
pub const fn multiply(a: u32, b: u32, bits: u32, polynomial: u32) -> u32 {
    let mut product = 0;
    let mut shifted = a;
    let mut rest = b;
    while rest != 0 {
        if rest & 1 != 0 {
            product ^= shifted;
        }
        shifted <<= 1;
        if shifted >> bits != 0 {
            shifted ^= polynomial;
        }
        rest >>= 1;
    }
    product
}

/// The inverse in GF(2^`bits`): a to the power 2^bits - 2. Zero for zero.
pub const fn invert(a: u32, bits: u32, polynomial: u32) -> u32 {
    let mut result = 1;
    let mut power = a;
    let mut step = 1;
    while step < bits {
        power = multiply(power, power, bits, polynomial);
        result = multiply(result, power, bits, polynomial);
        step += 1;
    }
    // In GF(2) the exponent is 0, yet zero has no inverse.
    if a == 0 { 0 } else { result }
}

/// `c` times each symbol of an octet that holds `8 / bits` symbols of GF(2^`bits`).
const fn map_octet(c: u32, octet: u32, bits: u32, polynomial: u32) -> u8 {
    let mut result = 0;
    let mut at = 0;
    while at < 8 {
        let symbol = (octet >> at) & ((1 << bits) - 1);
        result |= multiply(symbol, c, bits, polynomial) << at;
        at += bits;
    }
    result as u8
}

/// The bit matrix of a linear octet map given by the images of the eight single bits.
///
/// `gf2p8affineqb` takes bit i of the result as the parity of (octet AND matrix octet 7 - i).
pub const fn bit_matrix(images: [u8; 8]) -> u64 {
    let mut matrix = 0u64;
    let mut output_bit = 0;
    while output_bit < 8 {
        let mut row = 0u64;
        let mut input_bit = 0;
        while input_bit < 8 {
            row |= ((images[input_bit] as u64 >> output_bit) & 1) << input_bit;
            input_bit += 1;
        }
        matrix |= row << (8 * (7 - output_bit));
        output_bit += 1;
    }
    matrix
}

/// Both nibble tables of a linear octet map given by the images of the eight single bits.
pub const fn nibble_table(images: [u8; 8]) -> [u8; 32] {
    let mut table = [0; 32];
    let mut x = 1usize;
    while x < 16 {
        // Linear: the image of x is that of x without its lowest bit, plus that of the bit.
        let low = x.trailing_zeros() as usize & 3;
        let rest = x & (x - 1);
        table[x] = table[rest] ^ images[low];
        table[16 + x] = table[16 + rest] ^ images[4 + low];
        x += 1;
    }
    table
}

/// The maps of GF(2^`bits`) for `bits` of 1, 2, 4 or 8.
pub const fn octet_maps(bits: u32, polynomial: u32) -> OctetMaps {
    let mut maps = OctetMaps { nibbles: [[0; 32]; 256], matrices: [0; 256], inverses: [0; 256] };
    let order = 1 << bits;
    let mut c = 0;
    while c < order {
        let mut images = [0u8; 8];
        let mut bit = 0;
        while bit < 8 {
            images[bit] = map_octet(c as u32, 1 << bit, bits, polynomial);
            bit += 1;
        }
        maps.nibbles[c] = nibble_table(images);
        maps.matrices[c] = bit_matrix(images);
        maps.inverses[c] = invert(c as u32, bits, polynomial) as u8;
        c += 1;
    }
    maps
}
