//! Numbers with units, as a person writes and reads them.

/// Reads a count of octets: `1408`, `700kB`, `16MiB`. A `k` is 1000, a `Ki` 1024.
///
/// # Errors
/// When the text is no such count, or zero.
pub fn octets(text: &str) -> Result<u64, String> {
    match text.parse::<bytesize::ByteSize>() {
        Ok(size) if size.as_u64() > 0 => Ok(size.as_u64()),
        Ok(_) => Err("it must be more than 0".into()),
        Err(_) => Err("write a number of octets such as 45000, 700kB or 16MiB".into()),
    }
}

/// Reads a time in seconds: a number that is not negative and has an end.
///
/// # Errors
/// When the text is no such number.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds.is_finite() && seconds >= 0.0 => Ok(seconds),
        _ => Err("write a number of seconds such as 5 or 0.5".into()),
    }
}

/// A rate as text: `45.0 kB/s`, `1.86 MB/s`; a kB is 1000 octets.
pub fn rate(octets_per_s: f64) -> String {
    match octets_per_s {
        rate if rate >= 1e6 => format!("{:.2} MB/s", rate / 1e6),
        rate => format!("{:.1} kB/s", rate / 1e3),
    }
}

/// A size as text: `16.0 MiB`; a MiB is 1024 x 1024 octets.
pub fn size(octets: u64) -> String {
    match octets as f64 {
        octets if octets >= 1048576.0 => format!("{:.1} MiB", octets / 1048576.0),
        octets if octets >= 1024.0 => format!("{:.1} KiB", octets / 1024.0),
        octets => format!("{octets} octets"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(octets("1408"), Ok(1408));
        assert_eq!(octets("700kB"), Ok(700_000));
        assert_eq!(octets("16MiB"), Ok(16 << 20));
        assert!(octets("0").is_err());
        assert!(octets("-1").is_err());
        assert!(octets("many").is_err());
    }

    #[test]
    fn times_are_read() {
        assert_eq!(seconds("0.5"), Ok(0.5));
        for text in ["-1", "nan", "inf", "soon"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_written() {
        assert_eq!(rate(45_000.0), "45.0 kB/s");
        assert_eq!(rate(1_860_000.0), "1.86 MB/s");
        assert_eq!(size(16 << 20), "16.0 MiB");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(12), "12 octets");
    }
}
