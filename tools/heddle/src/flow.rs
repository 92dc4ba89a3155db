//! `heddle flow`: the flows of a running switch, for an operator without a controller.

use std::io::Write;

use heddle_host::units;
use heddle_openflow::client::Client;
use heddle_openflow::{
    ALL_TABLES, Command as Change, FlowFilter, FlowFlags, FlowMod, FlowStats, GroupId, Match,
    NO_BUFFER, PortNumber,
};
use serde::Serialize;

use crate::Failure;
use crate::openflow::text::{ActionsText, MatchText, show_instructions, show_match};
use crate::openflow::{Switch, json};

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    switch: Switch,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Show the switch's flows and what they have counted
    Show(Show),
    /// Add a flow; one of the same table, priority and match gives way to it
    Add(Add),
    /// Delete the flows that a match covers
    Del(Del),
}

#[derive(clap::Args)]
struct Show {
    /// Only the flows of this table
    #[arg(long, value_name = "N")]
    table: Option<u8>,
    /// Only the flows that this covers: FIELD=VALUE,... as `add` has it
    #[arg(long = "match", value_name = "MATCH")]
    matching: Option<MatchText>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Add {
    /// FIELD=VALUE[/MASK],...: OpenFlow's fields, name=/NAME, kind=interest, program=N[:/NAME]
    #[arg(long = "match", value_name = "MATCH", default_value = "")]
    matching: MatchText,
    /// What is done: output:PORT, set:FIELD=VALUE, set_ttl:N, goto:TABLE, drop, ... with commas
    #[arg(long, value_name = "ACTIONS")]
    actions: ActionsText,
    /// The table
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=254))]
    table: u8,
    /// Higher ones win
    #[arg(long, value_name = "N", default_value_t = 32768)]
    priority: u16,
    /// A number of your own for it
    #[arg(long, value_name = "N", default_value_t = 0)]
    cookie: u64,
    /// Seconds without a packet after which it ends; 0 is never
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    idle: u16,
    /// Seconds after which it ends; 0 is never
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    hard: u16,
}

#[derive(clap::Args)]
struct Del {
    /// The flows that this covers
    #[arg(long = "match", value_name = "MATCH", required_unless_present = "all")]
    matching: Option<MatchText>,
    /// Only the flow of exactly this match and priority
    #[arg(long, value_name = "N", requires = "matching")]
    priority: Option<u16>,
    /// Only the flows of this table
    #[arg(long, value_name = "N")]
    table: Option<u8>,
    /// All flows
    #[arg(long, conflicts_with_all = ["matching", "priority"])]
    all: bool,
}

/// A flow, for programs.
#[derive(Serialize)]
pub struct Shown {
    table: u8,
    priority: u16,
    cookie: u64,
    packets: u64,
    octets: u64,
    seconds: f64,
    idle_timeout: u16,
    hard_timeout: u16,
    #[serde(rename = "match")]
    matching: String,
    actions: String,
}

pub fn run(args: &Args, out: &mut impl Write) -> Result<(), Failure> {
    let mut client = args.switch.connect()?;
    match &args.command {
        Command::Show(show) => {
            let matching = show.matching.clone().unwrap_or_default().0;
            let flows = flows(&mut client, show.table.unwrap_or(ALL_TABLES), matching)?;
            print(&flows, show.json, out)
        }
        Command::Add(add) => Ok(client.flow_mod(FlowMod {
            cookie: add.cookie,
            table: add.table,
            idle_timeout: add.idle,
            hard_timeout: add.hard,
            priority: add.priority,
            matching: add.matching.0.clone(),
            instructions: add.actions.0.clone(),
            ..change(Change::Add)
        })?),
        Command::Del(del) => {
            let command =
                if del.priority.is_some() { Change::DeleteStrict } else { Change::Delete };
            Ok(client.flow_mod(FlowMod {
                table: del.table.unwrap_or(ALL_TABLES),
                priority: del.priority.unwrap_or(0),
                matching: del.matching.clone().unwrap_or_default().0,
                ..change(command)
            })?)
        }
    }
}

/// A change of flows that says as little as it can.
pub fn change(command: Change) -> FlowMod {
    FlowMod {
        cookie: 0,
        cookie_mask: 0,
        table: 0,
        command,
        idle_timeout: 0,
        hard_timeout: 0,
        priority: 0,
        buffer: NO_BUFFER,
        out_port: PortNumber::ANY,
        out_group: GroupId::ANY,
        flags: FlowFlags::empty(),
        matching: Match::default(),
        instructions: Vec::new(),
    }
}

/// The flows of a table that a match covers, those that win first.
pub fn flows(client: &mut Client, table: u8, matching: Match) -> Result<Vec<FlowStats>, Failure> {
    let mut flows = client.flows(FlowFilter {
        table,
        out_port: PortNumber::ANY,
        out_group: GroupId::ANY,
        cookie: 0,
        cookie_mask: 0,
        matching,
    })?;
    flows.sort_by_key(|flow| (flow.table, u16::MAX - flow.priority, show_match(&flow.matching)));
    Ok(flows)
}

/// Prints flows as a table or as JSON.
pub fn print(flows: &[FlowStats], as_json: bool, out: &mut impl Write) -> Result<(), Failure> {
    if as_json {
        let shown: Vec<Shown> = flows.iter().map(Shown::new).collect();
        return json(&shown, out);
    }
    if flows.is_empty() {
        return Ok(writeln!(out, "there are no such flows")?);
    }
    let rows = flows.iter().map(|flow| {
        [
            flow.table.to_string(),
            flow.priority.to_string(),
            units::count(flow.packets),
            units::octets(flow.octets),
            format!("{} s", flow.duration.0),
            show_match(&flow.matching),
            show_instructions(&flow.instructions),
        ]
    });
    let header = ["table", "priority", "packets", "octets", "age", "match", "actions"];
    Ok(write!(out, "{}", units::listing(&header, rows))?)
}

impl Shown {
    fn new(flow: &FlowStats) -> Self {
        let (seconds, nanoseconds) = flow.duration;
        Self {
            table: flow.table,
            priority: flow.priority,
            cookie: flow.cookie,
            packets: flow.packets,
            octets: flow.octets,
            seconds: f64::from(seconds) + f64::from(nanoseconds) / 1e9,
            idle_timeout: flow.idle_timeout,
            hard_timeout: flow.hard_timeout,
            matching: show_match(&flow.matching),
            actions: show_instructions(&flow.instructions),
        }
    }
}
