//! Numbers and tables as people read them.

use comfy_table::{Cell, CellAlignment, Table, presets};

/// Octets with a binary unit: `999 B`, `16.0 MiB`.
pub fn octets(octets: u64) -> String {
    scaled(octets as f64, 1024.0, ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"])
}

/// Octets a second with a decimal unit, as links are sold: `45.0 KB/s`. What is no number or negative counts as none.
pub fn rate(octets_per_s: f64) -> String {
    scaled(octets_per_s, 1000.0, ["B/s", "KB/s", "MB/s", "GB/s", "TB/s", "PB/s", "EB/s"])
}

/// Events a second with a decimal unit: `1.2 k/s`. What is no number or negative counts as none.
pub fn frequency(per_s: f64) -> String {
    scaled(per_s, 1000.0, ["/s", "k/s", "M/s", "G/s", "T/s", "P/s", "E/s"])
}

fn scaled(value: f64, step: f64, units: [&str; 7]) -> String {
    // `max` also turns what is no number into 0.
    let mut value = value.max(0.0);
    let [mut unit, larger @ ..] = units;
    for next in larger {
        // What would be rounded up to a whole step belongs to the next unit.
        if value < step - 0.05 {
            break;
        }
        value /= step;
        unit = next;
    }
    if unit == units[0] && value.fract() == 0.0 {
        format!("{value:.0} {unit}")
    } else {
        format!("{value:.1} {unit}")
    }
}

/// A count with its thousands apart: `1 234 567`.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut apart = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            apart.push(' ');
        }
        apart.push(digit);
    }
    apart
}

/// A table of numbers without lines: a header, and rows whose first column stands to the left and all others to the
/// right. Each line ends with a newline.
pub fn table<R>(header: &[&str], rows: impl IntoIterator<Item = R>) -> String
where
    R: IntoIterator<Item = String>,
{
    aligned(CellAlignment::Right, header, rows)
}

/// A table of words without lines: all columns stand to the left. Each line ends with a newline.
pub fn listing<R>(header: &[&str], rows: impl IntoIterator<Item = R>) -> String
where
    R: IntoIterator<Item = String>,
{
    aligned(CellAlignment::Left, header, rows)
}

fn aligned<R>(
    alignment: CellAlignment,
    header: &[&str],
    rows: impl IntoIterator<Item = R>,
) -> String
where
    R: IntoIterator<Item = String>,
{
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    for row in rows {
        table.add_row(row.into_iter().map(Cell::new));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index > 0 {
            column.set_cell_alignment(alignment);
        }
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_take_the_largest_unit_below_them() {
        assert_eq!(octets(0), "0 B");
        assert_eq!(octets(1023), "1023 B");
        assert_eq!(octets(1024), "1.0 KiB");
        assert_eq!(octets((1 << 20) - 1), "1.0 MiB");
        assert_eq!(octets(16 << 20), "16.0 MiB");
        assert_eq!(octets(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn rates_are_decimal_and_take_any_number() {
        assert_eq!(rate(45_000.0), "45.0 KB/s");
        assert_eq!(rate(0.25), "0.2 B/s");
        assert_eq!(rate(999_960.0), "1.0 MB/s");
        assert_eq!(rate(f64::NAN), "0 B/s");
        assert_eq!(rate(-1.0), "0 B/s");
        assert_eq!(rate(f64::INFINITY), "inf EB/s");
        assert_eq!(frequency(1_250_000.0), "1.2 M/s");
    }

    #[test]
    fn counts_have_their_thousands_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1 000"), (12_345_678, "12 345 678")]
        {
            assert_eq!(count(number), text);
        }
    }

    #[test]
    fn columns_line_up() {
        let rows = [["a", "1"], ["longer", "1 000"]];
        let rows = rows.map(|row| row.map(str::to_owned));
        assert_eq!(
            table(&["port", "frames"], rows),
            "port    frames\na            1\nlonger   1 000\n"
        );
    }
}
