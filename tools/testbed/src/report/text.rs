//! What a person sees.

use heddle_host::units::table;

use super::{Comparison, SchemeReport, Theory};
use crate::topology::Topology;
use crate::units;

/// The network, unfolded from the source: each node's links where the node is met first, and the hosts of edge switches.
pub fn picture(topology: &Topology) -> String {
    let mut text = format!("  {} (source)\n", topology.source);
    let mut drawn = vec![topology.source.as_str()];
    draw(topology, &topology.source, "  ", &mut drawn, &mut text);
    text
}

/// Draws what `node` sends to, each line behind `indent`.
fn draw<'a>(
    topology: &'a Topology,
    node: &'a str,
    indent: &str,
    drawn: &mut Vec<&'a str>,
    text: &mut String,
) {
    let next: Vec<&str> = topology.outgoing(node).map(|link| link.to.as_str()).collect();
    for (index, &to) in next.iter().enumerate() {
        let last = index + 1 == next.len();
        let (branch, below) = if last { ("└─▶ ", "    ") } else { ("├─▶ ", "│   ") };
        *text += &format!("{indent}{branch}{to}");
        if drawn.contains(&to) {
            text.push('\n');
            continue;
        }
        drawn.push(to);
        let hosts: Vec<&str> = topology.hosts_of(to).map(|host| host.name.as_str()).collect();
        if !hosts.is_empty() {
            *text += &format!(" ═▶ {}", hosts.join(" "));
        }
        text.push('\n');
        draw(topology, to, &format!("{indent}{below}"), drawn, text);
    }
}

/// A row for each host.
pub fn host_table(scheme: &SchemeReport) -> String {
    let rows = scheme.hosts.iter().map(|host| {
        let sha256 = match &host.received.sha256 {
            Some(_) if host.right => "right",
            Some(_) => "WRONG",
            None => "nothing came",
        };
        [
            host.host.clone(),
            units::size(host.received.bytes),
            format!("{:.2} s", host.received.seconds),
            units::rate(host.received.goodput_octets_per_s),
            sha256.to_owned(),
        ]
    });
    table(&["host", "received", "time", "goodput", "SHA-256"], rows)
}

/// What came of it, beside what the network could carry.
pub fn comparison(
    theory: &Theory,
    coded: Option<&SchemeReport>,
    ssim: Option<&SchemeReport>,
    ratios: Option<&Comparison>,
) -> String {
    let share = |rate: f64| format!("{:.2}", rate / theory.max_flow as f64);
    let mut rows = vec![
        ["in theory, headers included".to_owned(), String::new(), String::new()],
        [
            "  max-flow (coding reaches it)".to_owned(),
            units::rate(theory.max_flow as f64),
            share(theory.max_flow as f64),
        ],
        [
            "  best packing of trees".to_owned(),
            units::rate(theory.fractional_packing),
            share(theory.fractional_packing),
        ],
        [
            "  best trees that share no link".to_owned(),
            units::rate(theory.integral_packing),
            share(theory.integral_packing),
        ],
        [
            "  best single tree".to_owned(),
            units::rate(theory.single_tree),
            share(theory.single_tree),
        ],
        ["measured, of the file itself".to_owned(), String::new(), String::new()],
    ];
    for (name, scheme) in [("  CODED IP", coded), ("  SSIM (kernel, one tree)", ssim)] {
        if let Some(scheme) = scheme {
            let ratio = format!("{:.3}", scheme.goodput_ratio);
            rows.push(match scheme.all_right {
                true => [name.to_owned(), units::rate(scheme.lowest_goodput), ratio],
                false => [name.to_owned(), "not complete".to_owned(), String::new()],
            });
        }
    }
    let mut text = table(&["", "lowest rate", "of max-flow"], rows);
    text += "\"of max-flow\", measured: the goodput over the max-flow times the share of the frames that is payload.\n";
    let complete = [coded, ssim].into_iter().flatten().all(|scheme| scheme.all_right);
    if let Some(ratios) = ratios.filter(|_| complete) {
        text += &format!(
            "\n{:.2} x  measured: CODED IP over the kernel's one tree\n\
             {:.2} x  measured: CODED IP over what the best packing of trees could carry with plain IP's headers\n\
             {:.2} x  in theory: the max-flow over one tree\n\
             {:.2} x  in theory: the max-flow over the best packing of trees, which is what routing could do at most\n",
            ratios.measured_coded_over_one_tree,
            ratios.measured_coded_over_best_packing,
            ratios.max_flow_over_one_tree,
            ratios.max_flow_over_best_packing,
        );
    }
    text
}

/// The bandwidth used at each switch, in total, and its variance.
pub fn switch_table(coded: Option<&SchemeReport>, ssim: Option<&SchemeReport>) -> String {
    let schemes: Vec<(&str, &SchemeReport)> = [("CODED IP", coded), ("SSIM", ssim)]
        .into_iter()
        .filter_map(|(name, it)| Some((name, it?)))
        .collect();
    let Some((_, first)) = schemes.first() else { return String::new() };
    let mut rows = Vec::new();
    for (index, (switch, _)) in first.switches.by_switch.iter().enumerate() {
        let of =
            |it: &SchemeReport| it.switches.by_switch.get(index).map_or(0, |(_, octets)| *octets);
        let cells = schemes.iter().map(|(_, it)| units::size(of(it)));
        rows.push(std::iter::once(switch.clone()).chain(cells).collect::<Vec<_>>());
    }
    let totals = schemes.iter().map(|(_, it)| units::size(it.switches.total));
    rows.push(std::iter::once("total".to_owned()).chain(totals).collect());
    // Octets squared mean nothing to anybody: the root is beside them.
    let variances = schemes.iter().map(|(_, it)| {
        let mib = f64::from(1 << 20);
        format!(
            "{:.1} MiB² (σ {:.1} MiB)",
            it.switches.variance / mib / mib,
            it.switches.variance.sqrt() / mib
        )
    });
    rows.push(std::iter::once("variance".to_owned()).chain(variances).collect());
    let header: Vec<&str> =
        std::iter::once("into switch").chain(schemes.iter().map(|(name, _)| *name)).collect();
    table(&header, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_shows_every_link_once_and_every_host() {
        let topology = Topology::testbed_22().unwrap();
        let picture = picture(&topology);
        assert_eq!(picture.matches("─▶").count(), topology.links.len(), "{picture}");
        assert!(picture.contains("└─▶ F\n"), "{picture}");
        for host in &topology.hosts {
            assert!(picture.contains(&format!(" {}", host.name)), "{picture}");
        }
    }
}
