//! What a person sees of named data between sites.

use heddle_host::units::{self as host_units, listing};

use crate::schemes::named::{NamedReport, SITES};
use crate::units;

/// The sites and what joins them.
pub fn named_picture() -> String {
    let mut text = String::from("  controller ══╗ (OpenFlow)\n");
    for site in &SITES {
        let forwarder = format!("{} ({})", site.name, site.forwarder());
        text += &format!(
            "  {forwarder:<16} ─── switch {} ─── router (IP alone)   {}\n",
            site.number, site.place
        );
    }
    text
}

/// A row for each pair of sites.
pub fn named_table(report: &NamedReport) -> String {
    let rows = report.pairs.iter().map(|pair| {
        let mut rtt = pair.pings.rtt_ms.clone();
        rtt.sort_by(f64::total_cmp);
        let at = |share: usize| rtt.get(rtt.len().saturating_sub(1) * share / 2);
        let ms = |value: Option<&f64>| {
            value.map_or_else(|| "none".to_owned(), |value| format!("{value:.1}"))
        };
        [
            format!("{} → {}", pair.from, pair.to),
            pair.pinged_by.clone(),
            rtt.len().to_string(),
            format!("{} / {} / {}", ms(at(0)), ms(at(1)), ms(at(2))),
            units::size(pair.file.octets),
            format!("{:.2} s", pair.file.seconds),
            units::rate(pair.goodput_octets_per_s),
            if pair.right { "right" } else { "WRONG" }.to_owned(),
        ]
    });
    let header = [
        "sites",
        "pings by",
        "back",
        "RTT min / median / max, ms",
        "file",
        "time",
        "goodput",
        "SHA-256",
    ];
    listing(&header, rows)
}

/// What the switches and the controller had to do, a row for each mode.
pub fn named_control_table(reports: &[NamedReport]) -> String {
    let rows = reports.iter().map(|report| {
        let flows: Vec<String> = report.flows.iter().map(usize::to_string).collect();
        [
            report.mode.name().to_owned(),
            flows.join(" + "),
            host_units::count(report.interests_at_controller),
            report.interests_expected.map_or_else(|| "each".to_owned(), host_units::count),
            host_units::count(report.announcements),
        ]
    });
    let header = [
        "mode",
        "flows for names",
        "Interests to the controller",
        "expected",
        "announcements to it",
    ];
    host_units::table(&header, rows)
}
