//! The cases: every message decodes to what it says and encodes to its octets, and every bad one gets its error.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use heddle_openflow::{
    Action, Body, Bucket, Command, Experiment, FlowStats, Framer, GroupCommand, GroupType,
    HelloElement, Instruction, Match, Message, Oxm, PortNumber, Reason, Refusal, ReplyBody,
    Request, Role,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn cases() -> Vec<Value> {
    let path = format!("{}/tests/cases/messages.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let cases: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(cases.len(), 106);
    cases
}

fn octets(case: &Value) -> Vec<u8> {
    hex::decode(case["hex"].as_str().unwrap()).unwrap()
}

/// Reads a message as a peer would: from a stream, with the versions agreed on.
fn receive(octets: &[u8]) -> Result<Message, Refusal> {
    let mut framer = Framer::default();
    framer.push(octets);
    let Some(whole) = framer.next_message()? else {
        return Err(framer.close().unwrap_err());
    };
    let message = Message::decode(whole)?;
    if let Body::Hello(hello) = &message.body {
        hello.negotiate(message.version)?;
    }
    framer.close()?;
    Ok(message)
}

#[test]
fn bad_messages_get_their_error() {
    let mut count = 0;
    for case in cases().iter().filter(|case| case["verdict"] == "error") {
        count += 1;
        let octets = octets(case);
        let refusal = receive(&octets).expect_err(case["id"].as_str().unwrap());
        let found = json!([refusal.error_type, refusal.code]);
        let wanted = json!([case["error_type"], case["error_code"]]);
        let also = case["also"].as_array().is_some_and(|also| also.contains(&found));
        assert!(found == wanted || also, "{}: {refusal} {found}, not {wanted}", case["id"]);
        assert!(refusal.name().is_some(), "{refusal}");
        let answer = Message::refusing(&octets, refusal).encode().unwrap();
        let Body::Error { refusal: told, data } = Message::decode(&answer).unwrap().body else {
            panic!("an error decodes as one");
        };
        assert_eq!((told, &data[..]), (refusal, &octets[..octets.len().min(64)]));
        let mut framer = Framer::default();
        framer.push(&octets);
        let fatal = case["fatal"] == true;
        let incomplete = case["incomplete"] == true;
        assert_eq!(framer.next_message().is_err(), fatal, "{}", case["id"]);
        assert_eq!(framer.next_message() == Ok(None), !fatal, "{}", case["id"]);
        assert_eq!(framer.close().is_err(), fatal || incomplete, "{}", case["id"]);
    }
    assert_eq!(count, 50);
}

#[test]
fn good_messages_say_what_they_say_and_encode_to_their_octets() {
    let mut count = 0;
    for case in cases().iter().filter(|case| case["verdict"] == "ok") {
        count += 1;
        let octets = octets(case);
        let message =
            receive(&octets).unwrap_or_else(|refusal| panic!("{}: {refusal}", case["id"]));
        let encoded = message.encode().unwrap();
        if case["id"] == "fm-nonzero-padding" {
            assert_eq!(Message::decode(&encoded).as_ref(), Ok(&message));
        } else {
            assert_eq!(hex::encode(&encoded), hex::encode(&octets), "{}", case["id"]);
        }
        let found = describe(&message);
        for (key, wanted) in case["decoded"].as_object().unwrap() {
            assert_eq!(found.get(key), Some(wanted), "{key} of {}: {found}", case["id"]);
        }
    }
    assert_eq!(count, 56);
}

/// A message in the words of the cases.
fn describe(message: &Message) -> Value {
    let mut all = match &message.body {
        Body::Hello(hello) => {
            let known = hello.elements.iter().filter_map(|element| match element {
                HelloElement::Versions(versions) => Some(json!({"version_bitmap": versions})),
                HelloElement::Unknown(..) => None,
            });
            json!({"type": "hello", "version": message.version, "elements": known.collect::<Vec<_>>()})
        }
        Body::Error { refusal, data } => json!({
            "type": "error", "error_type": refusal.error_type, "error_code": refusal.code,
            "data_len": data.len(),
        }),
        Body::EchoRequest(data) => json!({"type": "echo_request", "data": hex::encode(data)}),
        Body::EchoReply(data) => json!({"type": "echo_reply", "data": hex::encode(data)}),
        Body::Experimenter(experiment) => describe_experiment(experiment),
        Body::FeaturesRequest => json!({"type": "features_request"}),
        Body::FeaturesReply(features) => json!({
            "type": "features_reply", "datapath_id": features.datapath_id, "n_buffers": features.buffers,
            "n_tables": features.tables, "auxiliary_id": features.auxiliary_id,
            "capabilities": features.capabilities,
        }),
        Body::GetConfigRequest => json!({"type": "get_config_request"}),
        Body::SetConfig(config) => json!({
            "type": "set_config", "flags": config.flags, "miss_send_len": config.miss_send_len,
        }),
        Body::PacketIn(packet) => json!({
            "type": "packet_in", "buffer_id": packet.buffer, "total_len": packet.total_len,
            "reason": match packet.reason {
                Reason::NoMatch => "no_match",
                Reason::Action => "action",
                Reason::InvalidTtl => "invalid_ttl",
            },
            "table_id": packet.table, "cookie": packet.cookie,
            "match": describe_match(&packet.matching), "data": hex::encode(&packet.data),
        }),
        Body::PacketOut(packet) => json!({
            "type": "packet_out", "buffer_id": packet.buffer, "in_port": port(packet.in_port),
            "actions": describe_actions(&packet.actions), "data": hex::encode(&packet.data),
        }),
        Body::FlowMod(flow) => json!({
            "type": "flow_mod", "cookie": flow.cookie, "cookie_mask": flow.cookie_mask,
            "table_id": flow.table, "idle_timeout": flow.idle_timeout,
            "hard_timeout": flow.hard_timeout, "priority": flow.priority, "buffer_id": flow.buffer,
            "command": match flow.command {
                Command::Add => "add",
                Command::Modify => "modify",
                Command::ModifyStrict => "modify_strict",
                Command::Delete => "delete",
                Command::DeleteStrict => "delete_strict",
            },
            "out_port": flow.out_port.0, "out_group": flow.out_group.0, "flags": flow.flags.bits(),
            "match": describe_match(&flow.matching),
            "instructions": describe_instructions(&flow.instructions),
        }),
        Body::GroupMod(group) => json!({
            "type": "group_mod", "group_id": group.group.0,
            "command": match group.command {
                GroupCommand::Add => "add",
                GroupCommand::Modify => "modify",
                GroupCommand::Delete => "delete",
            },
            "group_type": match group.kind {
                GroupType::All => "all",
                GroupType::Select => "select",
                GroupType::Indirect => "indirect",
                GroupType::FastFailover => "ff",
            },
            "buckets": group.buckets.iter().map(describe_bucket).collect::<Vec<_>>(),
        }),
        Body::BarrierRequest => json!({"type": "barrier_request"}),
        Body::BarrierReply => json!({"type": "barrier_reply"}),
        Body::RoleRequest(role, generation) => json!({
            "type": "role_request", "generation_id": generation,
            "role": match role {
                Role::NoChange => "nochange",
                Role::Equal => "equal",
                Role::Master => "master",
                Role::Slave => "slave",
            },
        }),
        Body::MultipartRequest(request, more) => describe_request(request, *more),
        Body::MultipartReply(reply) => describe_reply(&reply.body, reply.more),
        other => panic!("no case has {other:?}"),
    };
    all["xid"] = json!(message.xid);
    all
}

fn port(port: PortNumber) -> Value {
    match port {
        PortNumber::IN_PORT => json!("IN_PORT"),
        PortNumber::TABLE => json!("TABLE"),
        PortNumber::NORMAL => json!("NORMAL"),
        PortNumber::FLOOD => json!("FLOOD"),
        PortNumber::ALL => json!("ALL"),
        PortNumber::CONTROLLER => json!("CONTROLLER"),
        PortNumber::LOCAL => json!("LOCAL"),
        other => json!(other.0),
    }
}

fn mac(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect::<Vec<_>>().join(":")
}

fn field_value(name: &str, octets: &[u8]) -> Value {
    match (name, octets.len()) {
        ("ipv4_src" | "ipv4_dst" | "arp_spa" | "arp_tpa", 4) => {
            json!(octets.iter().map(u8::to_string).collect::<Vec<_>>().join("."))
        }
        (_, 6) => json!(mac(octets)),
        (_, len) if len <= 8 => {
            json!(octets.iter().fold(0u64, |number, octet| number << 8 | u64::from(*octet)))
        }
        _ => json!(hex::encode(octets)),
    }
}

fn describe_oxm(oxm: &Oxm) -> (String, Value) {
    match oxm {
        Oxm::Basic { field, value, mask } => {
            let value = field_value(field.name(), value);
            let value = match mask {
                Some(mask) => json!({"value": value, "mask": field_value(field.name(), mask)}),
                None => value,
            };
            (field.name().to_owned(), value)
        }
        Oxm::Program { program, result, masks, .. } => {
            let mut value = json!({"prog": program, "result": result});
            if let Some((program, result)) = masks {
                value["prog_mask"] = json!(program);
                value["result_mask"] = json!(result);
            }
            ("icn_prog".to_owned(), value)
        }
        Oxm::LegacyProgram { program, result, mask, parameter } => {
            let param = hex::encode(parameter);
            let value = json!({"prog": program, "result": result, "mask": mask, "param": param});
            ("icn_legacy".to_owned(), value)
        }
        other => panic!("no case has {other:?}"),
    }
}

fn describe_match(matching: &Match) -> Value {
    Value::Object(matching.fields.iter().map(describe_oxm).collect())
}

fn describe_actions(actions: &[Action]) -> Value {
    let one = |action: &Action| match action {
        Action::Output { port: to, max_len } => json!({"output": port(*to), "max_len": max_len}),
        Action::Group(group) => json!({"group": group.0}),
        Action::PushMpls(ether_type) => json!({"push_mpls": ether_type}),
        Action::PopMpls(ether_type) => json!({"pop_mpls": ether_type}),
        Action::SetNwTtl(ttl) => json!({"set_nw_ttl": ttl}),
        Action::SetField(oxm) => {
            let field: Map<_, _> = [describe_oxm(oxm)].into_iter().collect();
            json!({"set_field": field})
        }
        other => panic!("no case has {other:?}"),
    };
    actions.iter().map(one).collect()
}

fn describe_instructions(instructions: &[Instruction]) -> Value {
    let one = |instruction: &Instruction| match instruction {
        Instruction::GotoTable(table) => json!({"goto_table": table}),
        Instruction::WriteMetadata(value, mask) => json!({"write_metadata": [value, mask]}),
        Instruction::WriteActions(actions) => json!({"write_actions": describe_actions(actions)}),
        Instruction::ApplyActions(actions) => json!({"apply_actions": describe_actions(actions)}),
        Instruction::ClearActions => json!({"clear_actions": true}),
        Instruction::Meter(meter) => json!({"meter": meter}),
    };
    instructions.iter().map(one).collect()
}

fn describe_bucket(bucket: &Bucket) -> Value {
    json!({"actions": describe_actions(&bucket.actions)})
}

fn describe_experiment(experiment: &Experiment) -> Value {
    let mut all = match experiment {
        Experiment::Put { program, octets } => json!({
            "icn": "put", "prog_id": program, "program": hex::encode(octets),
            "program_len": octets.len(),
        }),
        Experiment::Delete { program } => json!({"icn": "del", "prog_id": program}),
        Experiment::Get { program } => json!({"icn": "get", "prog_id": program}),
        Experiment::PutPart { program, total_len, offset, octets } => json!({
            "icn": "put_part", "prog_id": program, "total_len": total_len, "offset": offset,
            "bytes_len": octets.len(),
        }),
        Experiment::SetParameter { program, parameter, octets } => json!({
            "icn": "param_set", "prog_id": program, "param_id": parameter,
            "param": hex::encode(octets),
        }),
        Experiment::Acknowledge { .. } => panic!("no case has an acknowledgement"),
    };
    all["type"] = json!("experimenter");
    all["experimenter"] = json!(heddle_openflow::EXPERIMENTER);
    all
}

fn describe_request(request: &Request, more: bool) -> Value {
    let mut all = match request {
        Request::Description => json!({"multipart": "desc"}),
        Request::Flows(filter) => json!({
            "multipart": "flow", "table_id": filter.table, "out_port": filter.out_port.0,
            "out_group": filter.out_group.0, "cookie": filter.cookie,
            "cookie_mask": filter.cookie_mask, "match": describe_match(&filter.matching),
        }),
        Request::TableFeatures(tables) => {
            assert!(tables.is_empty());
            json!({"multipart": "table_features", "tables": []})
        }
        Request::Ports => json!({"multipart": "port_desc"}),
        Request::Programs => json!({
            "multipart": "experimenter", "icn": "list",
            "experimenter": heddle_openflow::EXPERIMENTER,
        }),
        other => panic!("no case has {other:?}"),
    };
    all["type"] = json!("multipart_request");
    all["flags"] = json!(u16::from(more));
    all
}

fn describe_flow(flow: &FlowStats) -> Value {
    json!({
        "table_id": flow.table, "duration_sec": flow.duration.0, "duration_nsec": flow.duration.1,
        "priority": flow.priority, "cookie": flow.cookie, "packet_count": flow.packets,
        "byte_count": flow.octets, "match": describe_match(&flow.matching),
        "instructions": describe_instructions(&flow.instructions),
    })
}

fn describe_reply(body: &ReplyBody, more: bool) -> Value {
    let mut all = match body {
        ReplyBody::Description(desc) => json!({
            "multipart": "desc", "mfr_desc": desc.manufacturer, "hw_desc": desc.hardware,
            "sw_desc": desc.software, "serial_num": desc.serial_number, "dp_desc": desc.datapath,
        }),
        ReplyBody::Ports(ports) => {
            let one = |port: &heddle_openflow::Port| json!({"port_no": port.number, "hw_addr": mac(&port.hw_addr), "name": port.name});
            json!({"multipart": "port_desc", "ports": ports.iter().map(one).collect::<Vec<_>>()})
        }
        ReplyBody::Flows(flows) => {
            json!({"multipart": "flow", "flows": flows.iter().map(describe_flow).collect::<Vec<_>>()})
        }
        ReplyBody::TableFeatures(tables) => {
            let one = |table: &heddle_openflow::TableFeatures| {
                let kinds: Vec<_> = table.properties.iter().map(|property| property.kind).collect();
                json!({
                    "table_id": table.table, "name": table.name,
                    "metadata_match": table.metadata_match, "metadata_write": table.metadata_write,
                    "max_entries": table.max_entries, "property_types": kinds,
                })
            };
            let tables: Vec<_> = tables.iter().map(one).collect();
            json!({"multipart": "table_features", "tables": tables})
        }
        ReplyBody::Programs(programs) => {
            let one = |program: &heddle_openflow::ProgramStats| {
                json!({
                    "prog_id": program.program, "prog_len": program.octets, "runs": program.runs,
                    "hits": program.hits, "faults": program.faults,
                })
            };
            json!({
                "multipart": "experimenter", "icn": "list",
                "experimenter": heddle_openflow::EXPERIMENTER,
                "programs": programs.iter().map(one).collect::<Vec<_>>(),
            })
        }
        other => panic!("no case has {other:?}"),
    };
    all["type"] = json!("multipart_reply");
    all["flags"] = json!(u16::from(more));
    all
}

proptest! {
    /// A message with some octets changed decodes to something that encodes to a message with the same meaning, or is refused.
    #[test]
    fn changed_messages_do_no_harm(
        at in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let cases = cases();
        let mut octets = octets(at.get(&cases));
        octets.truncate(2000);
        octets.resize(octets.len().max(8), 0);
        for (at, octet) in changes {
            *at.get_mut(&mut octets[..]) = octet;
        }
        let len = octets.len() as u16;
        octets[2..4].copy_from_slice(&len.to_be_bytes());
        if let Ok(message) = Message::decode(&octets) {
            let encoded = message.encode().unwrap();
            prop_assert_eq!(Message::decode(&encoded), Ok(message));
        }
    }

    /// However a stream is cut, the same messages come out of it.
    #[test]
    fn streams_are_cut_into_messages(sizes in proptest::collection::vec(1usize..3000, 1..50)) {
        let good: Vec<_> =
            cases().iter().filter(|case| case["verdict"] == "ok").map(octets).collect();
        let stream = good.concat();
        let (mut framer, mut found, mut from) = (Framer::default(), Vec::new(), 0);
        for size in sizes.iter().cycle() {
            let to = (from + size).min(stream.len());
            framer.push(&stream[from..to]);
            while let Some(message) = framer.next_message().unwrap() {
                found.push(message.to_vec());
            }
            from = to;
            if from == stream.len() {
                break;
            }
        }
        prop_assert!(framer.close().is_ok());
        prop_assert_eq!(found, good);
    }
}
