//! Numbers with units, as a person writes and reads them.

use std::time::Duration;

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

/// Reads a time with its unit: `25ms`, `300us`, `1.5s`.
///
/// # Errors
/// When the text is no such time, or longer than an hour.
pub fn duration(text: &str) -> Result<Duration, String> {
    let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let number = units.iter().find_map(|(unit, scale)| {
        let number = text.strip_suffix(unit)?.trim_end().parse::<f64>().ok()?;
        Some(number * scale)
    });
    number
        .filter(|seconds| (0.0..=3600.0).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "write a time of at most an hour such as 25ms, 300us or 1.5s".into())
}

/// Reads a part of a whole: `1%`, `0.01`.
///
/// # Errors
/// When the text is no number from 0 to 1.
pub fn part(text: &str) -> Result<f64, String> {
    let part = match text.strip_suffix('%') {
        Some(percent) => percent.trim_end().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    part.ok()
        .filter(|part| (0.0..=1.0).contains(part))
        .ok_or_else(|| "write a part such as 1% or 0.01, from 0 to 1".into())
}

/// Reads bits a second: `100mbit`, `1gbit`, `56kbit`, `9600bit`.
///
/// # Errors
/// When the text is no such rate, or one below 1 kbit/s or above 1 Tbit/s.
pub fn bit_rate(text: &str) -> Result<u64, String> {
    let units = [("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9), ("bit", 1.0)];
    let text = text.to_ascii_lowercase();
    let rate = units.iter().find_map(|(unit, scale)| {
        let number = text.strip_suffix(unit)?.trim_end().parse::<f64>().ok()?;
        Some(number * scale)
    });
    rate.filter(|rate| (1e3..=1e12).contains(rate))
        .map(|rate| rate as u64)
        .ok_or_else(|| "write bits a second such as 100mbit, 1gbit or 56kbit".into())
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
    fn links_are_read() {
        assert_eq!(duration("25ms"), Ok(Duration::from_millis(25)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(part("1%"), Ok(0.01));
        assert_eq!(part("0.25"), Ok(0.25));
        assert_eq!(bit_rate("100mbit"), Ok(100_000_000));
        assert_eq!(bit_rate("9600bit"), Ok(9600));
        for text in ["", "ms", "25", "-1s", "nans", "2h"] {
            assert!(duration(text).is_err(), "{text}");
        }
        for text in ["", "%", "101%", "-1%", "2", "nan", "nan%"] {
            assert!(part(text).is_err(), "{text}");
        }
        for text in ["", "100", "0mbit", "-1gbit", "infbit", "1parsec"] {
            assert!(bit_rate(text).is_err(), "{text}");
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
