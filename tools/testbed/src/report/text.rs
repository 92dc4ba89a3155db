//! What a person sees.

use heddle_host::units::table;

use super::{Comparison, SchemeReport, Theory};
use crate::topology::Topology;
use crate::units;

/// The network, a line for each node: whom it sends to.
pub fn picture(topology: &Topology) -> String {
    let mut lines = String::new();
    for node in topology.nodes() {
        let links = topology.outgoing(node).map(|link| link.to.as_str());
        let hosts = topology.hosts_of(node).map(|host| host.name.as_str());
        let what = if node == topology.source {
            "source"
        } else if topology.destinations.iter().any(|destination| destination == node) {
            "edge switch"
        } else {
            "core switch"
        };
        let next: Vec<&str> = links.chain(hosts).collect();
        lines += &format!("  {what:<12} {node} ──▶ {}\n", next.join("  "));
    }
    lines
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
        ["  max-flow (coding reaches it)".to_owned(), units::rate(theory.max_flow as f64), share(theory.max_flow as f64)],
        ["  best packing of trees".to_owned(), units::rate(theory.fractional_packing), share(theory.fractional_packing)],
        ["  best trees that share no link".to_owned(), units::rate(theory.integral_packing), share(theory.integral_packing)],
        ["  best single tree".to_owned(), units::rate(theory.single_tree), share(theory.single_tree)],
        ["measured, of the file itself".to_owned(), String::new(), String::new()],
    ];
    for (name, scheme) in [("  CODED IP", coded), ("  SSIM (kernel, one tree)", ssim)] {
        if let Some(scheme) = scheme {
            let ratio = format!("{:.3}", scheme.goodput_ratio);
            rows.push([name.to_owned(), units::rate(scheme.lowest_goodput), ratio]);
        }
    }
    let mut text = table(&["", "lowest rate", "of max-flow"], rows);
    text += "\"of max-flow\", measured: the goodput over the max-flow times the share of the frames that is payload.\n";
    if let Some(ratios) = ratios {
        text += &format!(
            "\n{:.2} x  measured: CODED IP over the kernel's one tree\n\
             {:.2} x  in theory: the max-flow over one tree\n\
             {:.2} x  in theory: the max-flow over the best packing of trees, which is what routing could do at most\n",
            ratios.measured_coded_over_one_tree,
            ratios.max_flow_over_one_tree,
            ratios.max_flow_over_best_packing,
        );
    }
    text
}

/// The bandwidth used at each switch, in total, and its variance.
pub fn switch_table(coded: Option<&SchemeReport>, ssim: Option<&SchemeReport>) -> String {
    let schemes: Vec<(&str, &SchemeReport)> =
        [("CODED IP", coded), ("SSIM", ssim)].into_iter().filter_map(|(name, it)| Some((name, it?))).collect();
    let Some((_, first)) = schemes.first() else { return String::new() };
    let mut rows = Vec::new();
    for (index, (switch, _)) in first.switches.by_switch.iter().enumerate() {
        let of = |it: &SchemeReport| it.switches.by_switch.get(index).map_or(0, |(_, octets)| *octets);
        let cells = schemes.iter().map(|(_, it)| units::size(of(it)));
        rows.push(std::iter::once(switch.clone()).chain(cells).collect::<Vec<_>>());
    }
    let totals = schemes.iter().map(|(_, it)| units::size(it.switches.total));
    rows.push(std::iter::once("total".to_owned()).chain(totals).collect());
    // Octets squared mean nothing to anybody: the root is beside them.
    let variances = schemes.iter().map(|(_, it)| {
        let mib = f64::from(1 << 20);
        format!("{:.1} MiB² (σ {:.1} MiB)", it.switches.variance / mib / mib, it.switches.variance.sqrt() / mib)
    });
    rows.push(std::iter::once("variance".to_owned()).chain(variances).collect());
    let header: Vec<&str> = std::iter::once("into switch").chain(schemes.iter().map(|(name, _)| *name)).collect();
    table(&header, rows)
}
