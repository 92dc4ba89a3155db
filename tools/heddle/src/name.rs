//! `heddle name`: where a running switch sends Interests, for an operator without a controller.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddrV4};

use heddle_openflow::controller::{Mac, Prefix, name_priority};
use heddle_openflow::{
    Action, Command as Change, Field, FlowMod, FlowStats, Instruction, Match, Oxm, PortNumber,
};

use crate::Failure;
use crate::flow::{change, flows, print};
use crate::openflow::Switch;

/// The UDP port of forwarders.
const NDN_PORT: u16 = 6363;

const INTEREST: u8 = 1;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    switch: Switch,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Send Interests for a name, and all below it, to a forwarder
    Add(Add),
    /// No longer do so
    Del(Del),
    /// Show the names that the switch has flows for
    Show(Show),
}

#[derive(clap::Args)]
struct Add {
    #[command(flatten)]
    which: Which,
    /// The forwarder that serves it; packets are sent to its address
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = forwarder)]
    to: SocketAddrV4,
    /// The switch's port that leads there
    #[arg(long, value_name = "PORT", value_parser = crate::openflow::text::port)]
    out: PortNumber,
    /// The Ethernet address of the next router on the way there
    #[arg(long, value_name = "MAC")]
    next_hop: Option<Mac>,
    /// Their TTL from there on
    #[arg(long, value_name = "N")]
    ttl: Option<u8>,
}

#[derive(clap::Args)]
struct Del {
    #[command(flatten)]
    which: Which,
}

/// Which Interests.
#[derive(clap::Args)]
struct Which {
    /// The name, as an NDN URI: /tno/ping
    name: Prefix,
    /// Only those that come in on this port
    #[arg(long, value_name = "PORT")]
    r#in: Option<u32>,
    /// Only those that are sent to this address
    #[arg(long, value_name = "ADDRESS")]
    gateway: Option<Ipv4Addr>,
}

#[derive(clap::Args)]
struct Show {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn forwarder(text: &str) -> Result<SocketAddrV4, String> {
    let address = text.parse::<SocketAddrV4>();
    let or_bare = address
        .or_else(|_| text.parse::<Ipv4Addr>().map(|address| SocketAddrV4::new(address, NDN_PORT)));
    or_bare.map_err(|_| "it is no IPv4 address with or without a port".into())
}

fn basic(field: Field, value: &[u8]) -> Oxm {
    Oxm::Basic { field, value: value.to_vec(), mask: None }
}

impl Which {
    /// Interests of the name, over UDP and IPv4: only those have the address that is changed.
    fn matching(&self) -> Match {
        let mut fields = Vec::new();
        fields.extend(self.r#in.map(|port| basic(Field::InPort, &port.to_be_bytes())));
        fields.push(basic(Field::EthType, &0x0800u16.to_be_bytes()));
        fields.push(basic(Field::IpProto, &[17]));
        fields.extend(self.gateway.map(|address| basic(Field::Ipv4Dst, &address.octets())));
        fields.push(basic(Field::UdpDst, &NDN_PORT.to_be_bytes()));
        fields.push(Oxm::NdnKind(INTEREST));
        fields.push(Oxm::Name(self.name.value().to_vec()));
        Match { fields }
    }
}

pub fn run(args: &Args, out: &mut impl Write) -> Result<(), Failure> {
    let mut client = args.switch.connect()?;
    match &args.command {
        Command::Add(add) => {
            let set = |field, value: &[u8]| Action::SetField(basic(field, value));
            let mut actions = vec![
                set(Field::Ipv4Dst, &add.to.ip().octets()),
                set(Field::UdpDst, &add.to.port().to_be_bytes()),
            ];
            actions.extend(add.ttl.map(Action::SetNwTtl));
            actions.extend(add.next_hop.map(|Mac(octets)| set(Field::EthDst, &octets)));
            actions.push(Action::Output { port: add.out, max_len: u16::MAX });
            Ok(client.flow_mod(FlowMod {
                priority: name_priority(&add.which.name),
                matching: add.which.matching(),
                instructions: vec![Instruction::ApplyActions(actions)],
                ..change(Change::Add)
            })?)
        }
        Command::Del(Del { which }) => {
            let is_there = |flow: &FlowStats| {
                flow.priority == name_priority(&which.name) && flow.matching == which.matching()
            };
            if !flows(&mut client, 0, Match::default())?.iter().any(is_there) {
                return Err(Failure::Error(format!(
                    "the switch has no such flow for {}; `heddle name show` lists what it has",
                    which.name
                )));
            }
            Ok(client.flow_mod(FlowMod {
                priority: name_priority(&which.name),
                matching: which.matching(),
                ..change(Change::DeleteStrict)
            })?)
        }
        Command::Show(show) => {
            let mut named = flows(&mut client, 0, Match::default())?;
            let has_name = |oxm: &Oxm| {
                matches!(oxm, Oxm::Name(_) | Oxm::Program { .. } | Oxm::LegacyProgram { .. })
            };
            named.retain(|flow| flow.matching.fields.iter().any(has_name));
            print(&named, show.json, out)
        }
    }
}
