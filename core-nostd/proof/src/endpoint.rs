//! The endpoint of DTP's `modern` suite, every call of it, for `run` to look at: with its ciphers it cannot be linked without a panic handler.

use core::hint::black_box;
use heddle_core::dtp::modern::{
    Active, Config, Connect, Endpoint, Flow, Identity, Memory, PathAddress, Pattern, Sent,
};
use heddle_core::node::Instant;

const FLOWS: usize = 4;
static mut FLOW_TABLE: [Flow; FLOWS] = [const { Flow::new() }; FLOWS];
static mut TIMERS: [u32; FLOWS] = [0; FLOWS];
static mut BUDGETS: [u16; FLOWS] = [0; FLOWS];
static mut SEND: [u8; 1 << 13] = [0; 1 << 13];
static mut RECEIVE: [u8; 1 << 13] = [0; 1 << 13];

/// Drives an endpoint with datagrams and requests that the compiler knows nothing of.
pub fn endpoint(input: &mut [u8], out: &mut [u8]) {
    let mut sent = [Sent::default(); 64];
    // SAFETY: this function runs once, on the only thread there is, and nothing else names these statics.
    let (flows, timers, budgets, send, receive) = unsafe {
        (
            &mut *(&raw mut FLOW_TABLE),
            &mut *(&raw mut TIMERS),
            &mut *(&raw mut BUDGETS),
            &mut *(&raw mut SEND),
            &mut *(&raw mut RECEIVE),
        )
    };
    let mut actives = [Active::new(send, receive, &mut sent)];
    let memory = Memory { flows, timers, actives: &mut actives, budgets };
    let config = black_box(Config::default());
    let mut endpoint = Endpoint::new(config, memory, black_box([0; 32]), Instant::from_nanos(0));
    let path = black_box(PathAddress { local: 0, port: 0, ip: [0; 16] });
    while black_box(true) {
        let now = Instant::from_nanos(black_box(0));
        black_box(endpoint.handle(now, path, black_box(input), black_box(false)).is_ok());
        black_box(endpoint.transmit(now, out));
        black_box((endpoint.poll(), endpoint.deadline()));
        let connect = Connect {
            pattern: black_box(Pattern::PreShared),
            identity: black_box(Identity::default()),
            keep_alive_s: black_box(0),
        };
        let Ok(flow) = endpoint.connect(now, path, connect) else { continue };
        let stream = black_box(0);
        black_box(endpoint.open_stream(flow)).ok();
        black_box(endpoint.write(flow, stream, input)).ok();
        black_box(endpoint.read(flow, stream, out)).ok();
        black_box(endpoint.write_message(flow, stream, input)).ok();
        black_box(endpoint.read_message(flow, stream, out)).ok();
        black_box(endpoint.finish(flow, stream)).ok();
        black_box(endpoint.reset(flow, stream, black_box(1))).ok();
        endpoint.set_interface(now, black_box(true));
        endpoint.network_changed(now);
        endpoint.probe(now);
        endpoint.set_path(now, flow, path);
        black_box(endpoint.trust(flow)).ok();
        if let Some(Ok(ticket)) = endpoint.ticket(flow).map(|ticket| ticket.count_up()) {
            black_box(ticket.to_octets());
            black_box(endpoint.restore(now, &ticket)).ok();
        }
        black_box(endpoint.resume_offset(flow, stream));
        endpoint.close(flow, black_box(0));
        endpoint.forget(flow);
    }
}
