//! `heddle testbed link`: a link to try things on, up until ^C.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::link::{ADDRESSES, Counts, INTERFACE, Link, Shape};
use crate::shutdown::Shutdown;
use crate::units;

/// What the link is like, in each direction.
#[derive(Clone, Debug, clap::Args)]
pub struct LinkArgs {
    /// How long a frame takes one way: `25ms`, `300us`, `1s`
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = units::duration)]
    delay: Duration,
    /// The part of frames that is lost at random: `1%`, `0.01`
    #[arg(long, value_name = "PART", default_value = "0%", value_parser = units::part)]
    loss: f64,
    /// Bits a second: `100mbit`, `1gbit`, `56kbit` [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = units::bit_rate)]
    rate: Option<u64>,
    /// Octets that may wait for the rate [default: what 100 ms carry]
    #[arg(long, value_name = "OCTETS", requires = "rate", value_parser = units::octets)]
    queue: Option<u64>,
    /// Losses are drawn from this number: the same number, the same losses
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// What the two namespaces are called, before `-a` and `-b`
    #[arg(long, value_name = "NAME", default_value = "hdl-link", value_parser = prefix)]
    name: String,
}

/// The names of namespaces are names of files.
fn prefix(text: &str) -> std::result::Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match text.len() {
        1..=64 if text.chars().all(fits) && !text.starts_with('-') => Ok(text.to_owned()),
        _ => Err("a name has 1 to 64 letters, digits, - and _, and begins with no -".into()),
    }
}

/// Keeps the link up until a signal comes.
///
/// # Errors
/// When it cannot be laid out.
pub fn run(args: &LinkArgs, shutdown: &Shutdown) -> Result<()> {
    let shape = Shape {
        delay: args.delay,
        loss: args.loss,
        rate_bits: args.rate,
        queue_octets: args.queue,
        seed: args.seed,
    };
    let link = Link::set_up(&args.name, &shape)?;
    let [a, b] = ADDRESSES;
    println!(
        "up: {a} in {} and {b} in {}, interface {INTERFACE}",
        link.a().name(),
        link.b().name()
    );
    println!("  ip netns exec {} ping {b}", link.a().name());
    println!("  ip netns exec {} ip link set {INTERFACE} down     # an outage", link.a().name());
    println!("^C takes it down");
    let is_terminal = std::io::stdout().is_terminal();
    loop {
        match shutdown.sleep(Duration::from_millis(500)) {
            Ok(()) => {}
            Err(Error::Interrupted) => break,
            Err(error) => return Err(error),
        }
        if let (true, Some(counts)) = (is_terminal, link.counts()) {
            print!("\r\x1b[K{}", line(counts));
            let _ = std::io::stdout().flush();
        }
    }
    if let Some(counts) = link.counts() {
        println!("{}{}", if is_terminal { "\r\x1b[K" } else { "" }, line(counts));
    }
    Ok(())
}

fn line([a, b]: [Counts; 2]) -> String {
    let way = |name: &str, counts: Counts| {
        let Counts { passed, lost, overflowed, cut } = counts;
        format!(
            "{name}: {passed} passed, {lost} lost, {overflowed} found the queue full, {cut} cut"
        )
    };
    format!("{}; {}", way("a to b", a), way("b to a", b))
}
