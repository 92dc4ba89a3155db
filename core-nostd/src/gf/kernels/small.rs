//! Fewer octets than a register holds, loaded and stored without a loop.

/// Loads up to 15 octets, little-endian, with loads that may overlap.
///
/// # Safety
/// `octets` octets from `from` can be read.
#[inline(always)]
pub unsafe fn load_small(from: *const u8, octets: usize) -> u128 {
    // SAFETY: every read lies within the first `octets` octets.
    unsafe {
        match octets {
            8..=15 => {
                let low = u64::from_le_bytes(from.cast::<[u8; 8]>().read());
                let high = u64::from_le_bytes(from.add(octets - 8).cast::<[u8; 8]>().read());
                u128::from(low) | u128::from(high) << (8 * (octets as u32 - 8))
            }
            4..=7 => {
                let low = u32::from_le_bytes(from.cast::<[u8; 4]>().read());
                let high = u32::from_le_bytes(from.add(octets - 4).cast::<[u8; 4]>().read());
                u128::from(u64::from(low) | u64::from(high) << (8 * (octets as u32 - 4)))
            }
            2..=3 => {
                let low = u16::from_le_bytes(from.cast::<[u8; 2]>().read());
                let last = from.add(octets - 1).read();
                u128::from(u32::from(low) | u32::from(last) << (8 * (octets as u32 - 1)))
            }
            1 => u128::from(from.read()),
            _ => 0,
        }
    }
}

/// Stores the low `octets` octets, up to 15, little-endian, with stores that may overlap.
///
/// # Safety
/// `octets` octets from `to` can be written.
#[inline(always)]
pub unsafe fn store_small(to: *mut u8, octets: usize, value: u128) {
    // SAFETY: every write lies within the first `octets` octets.
    unsafe {
        match octets {
            8..=15 => {
                let high = (value >> (8 * (octets as u32 - 8))) as u64;
                to.cast::<[u8; 8]>().write((value as u64).to_le_bytes());
                to.add(octets - 8).cast::<[u8; 8]>().write(high.to_le_bytes());
            }
            4..=7 => {
                let high = (value >> (8 * (octets as u32 - 4))) as u32;
                to.cast::<[u8; 4]>().write((value as u32).to_le_bytes());
                to.add(octets - 4).cast::<[u8; 4]>().write(high.to_le_bytes());
            }
            2..=3 => {
                to.cast::<[u8; 2]>().write((value as u16).to_le_bytes());
                to.add(octets - 1).write((value >> (8 * (octets as u32 - 1))) as u8);
            }
            1 => to.write(value as u8),
            _ => {}
        }
    }
}
