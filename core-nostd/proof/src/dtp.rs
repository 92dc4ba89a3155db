//! The wire format of DTP's `modern` suite: packets, parameters, frames, tickets, the replay window.
//!
//! What encrypts is left out: the ciphers, hashes and curves are other crates', which check lengths that are always right. Those checks end in
//! calls that can panic, and the compiler cannot see that they are never reached.

use core::hint::black_box;
use core::time::Duration;
use heddle_core::dtp::modern::{
    AckRange, Answer, Frame, FrameWriter, Frames, Initial, Kind, Parameters, ReplayWindow, Retry,
    Ticket, Versions, data_overhead, flow_connection_id, message_octets,
};

static mut OCTETS: [u8; 1 << 13] = [0; 1 << 13];

/// Reads packets, parameters and frames of octets that the compiler knows nothing of, and writes them again.
pub fn dtp() {
    // SAFETY: this function runs once, on the only thread there is, and nothing else names this static.
    let octets = unsafe { &mut *(&raw mut OCTETS) };
    let (input, out) = black_box(octets).split_at_mut_checked(black_box(2000)).unwrap_or_default();
    let input: &[u8] = black_box(input);
    black_box((Kind::of(input).is_ok(), flow_connection_id(input).is_ok()));
    if let Ok((initial, clear)) = Initial::parse(input) {
        black_box((clear, initial.write_clear(out).is_ok()));
    }
    if let Ok(answer) = Answer::parse(input) {
        black_box(answer.write_clear(out).is_ok());
    }
    if let Ok(retry) = Retry::parse(input) {
        black_box(retry.write(out).is_ok());
    }
    if let Ok(versions) = Versions::parse(input) {
        black_box(versions.write(out).is_ok());
    }
    if let Ok(parameters) = Parameters::parse(input) {
        black_box(parameters.write(out, black_box(1100)).is_ok());
    }
    black_box(
        Ticket::from_octets(black_box(&[0; heddle_core::dtp::modern::TICKET_OCTETS])).is_ok(),
    );
    frames(input, out);
    #[cfg(feature = "endpoint")]
    {
        let (datagram, out) = out.split_at_mut_checked(black_box(2000)).unwrap_or_default();
        crate::endpoint::endpoint(datagram, out);
    }
    let mut window = ReplayWindow::new();
    for _ in 0..black_box(3) {
        let number = black_box(0);
        if window.check(number).is_ok() {
            window.insert(number);
        }
    }
    black_box(&window);
    black_box(message_octets(black_box(7)));
}

fn frames(input: &[u8], out: &mut [u8]) {
    let mut writer = FrameWriter::new(out);
    let Ok(frames) = Frames::new(input) else { return };
    for frame in frames {
        let Ok(frame) = black_box(frame) else { return };
        black_box(writer.frame(&frame)).ok();
        if let Frame::Ack { ranges, delay, congestion_marks } = frame {
            black_box(writer.ack(ranges.iter(), delay, congestion_marks)).ok();
        }
        if let Frame::Data { stream, offset, octets, last } = frame {
            black_box(data_overhead(stream, offset, octets.len()));
            let length = octets.len();
            let copy =
                |place: &mut [u8]| place.iter_mut().zip(octets).for_each(|(to, from)| *to = *from);
            black_box(writer.data_with(stream, offset, length, last, copy)).ok();
        }
    }
    let ranges = black_box([AckRange { first: 0, last: 3 }; 2]);
    black_box(writer.ack(ranges.into_iter(), Duration::from_micros(black_box(9)), black_box(0)))
        .ok();
    black_box((writer.octets(), writer.room()));
}
