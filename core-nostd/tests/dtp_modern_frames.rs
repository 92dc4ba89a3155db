//! Frames and parameters of DTP's `modern` suite: what is written comes back, and what is wrong is refused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use heddle_core::dtp::modern::{
    AckRange, Frame, FrameWriter, Frames, MAX_ACK_RANGES, ModernError, Parameters, Suite,
    data_overhead,
};
use proptest::prelude::*;
use std::time::Duration;

fn read(payload: &[u8]) -> Result<Vec<Frame<'_>>, ModernError> {
    Frames::new(payload)?.collect()
}

fn written(frames: &[Frame]) -> Vec<u8> {
    let mut buffer = vec![0xa5; 2000];
    let mut writer = FrameWriter::new(&mut buffer);
    frames.iter().for_each(|frame| writer.frame(frame).unwrap());
    let octets = writer.octets();
    buffer.truncate(octets);
    buffer
}

#[test]
fn frames_have_the_octets_of_the_specification() {
    let data = Frame::Data { stream: 0, offset: 0x4000, octets: b"hey", last: false };
    let end = Frame::Data { stream: 3, offset: 1, octets: b"", last: true };
    let id = Frame::NewId { sequence: 5, retire_before: 4, id: [0xcc; 16] };
    let examples: [(Frame, &str); 12] = [
        (Frame::Padding { octets: 3 }, "000000"),
        (Frame::Ping, "01"),
        (data, "04008000400003686579"),
        (end, "05030100"),
        (Frame::TotalWindow { octets: 64 }, "074040"),
        (Frame::Window { stream: 64, offset: (1 << 62) - 1 }, "084040ffffffffffffffff"),
        (Frame::PathChallenge([1; 8]), "090101010101010101"),
        (Frame::PathResponse([2; 8]), "0a0202020202020202"),
        (id, "0b0504cccccccccccccccccccccccccccccccc"),
        (Frame::KeepAlive { seconds: 60 }, "0d3c"),
        (Frame::Close { reason: 0 }, "0e00"),
        (Frame::Reset { stream: 2, offset: 7, reason: 1 }, "0f020701"),
    ];
    for (frame, octets) in &examples {
        let octets = hex::decode(octets).unwrap();
        assert_eq!(written(&[*frame]), octets);
        assert_eq!(read(&octets), Ok(vec![*frame]));
        // A frame that is cut is an error, and a run of padding is a shorter run.
        for cut in 1..octets.len() {
            let padding = matches!(frame, Frame::Padding { .. });
            assert_eq!(read(&octets[..cut]).is_ok(), padding, "{frame:?} cut to {cut}");
        }
    }
    let all: Vec<Frame> = examples.iter().map(|(frame, _)| *frame).collect();
    assert_eq!(read(&written(&all)), Ok(all));
    assert_eq!(data_overhead(0, 0x4000, 3), 7);
    assert_eq!(data_overhead(3, 1, 0), 4);
}

#[test]
fn acknowledgements_tell_ranges() {
    // 20-18, 16 and 10-3 of which the largest waited 25 ms; 2 marks.
    let ranges = [(18, 20), (16, 16), (3, 10)].map(|(first, last)| AckRange { first, last });
    let mut buffer = [0; 40];
    let mut writer = FrameWriter::new(&mut buffer);
    writer.ack(ranges.into_iter(), Duration::from_millis(25), 2).unwrap();
    let octets = writer.octets();
    assert_eq!(hex::encode(&buffer[..octets]), "0214800061a8020200000407 02".replace(' ', ""));
    let frames = read(&buffer[..octets]).unwrap();
    let [Frame::Ack { ranges: read_ranges, delay, congestion_marks: 2 }] = frames[..] else {
        panic!("{frames:?}")
    };
    assert_eq!(
        (read_ranges.iter().collect::<Vec<_>>(), delay),
        (ranges.to_vec(), Duration::from_millis(25))
    );

    let refused = |ranges: &[(u64, u64)]| {
        let ranges = ranges.iter().map(|&(first, last)| AckRange { first, last });
        let mut buffer = [0; 40];
        let mut writer = FrameWriter::new(&mut buffer);
        let result = writer.ack(ranges, Duration::ZERO, 0);
        assert_eq!(writer.octets(), 0, "nothing is left of it");
        result
    };
    assert_eq!(refused(&[]), Err(ModernError::Frame));
    assert_eq!(refused(&[(5, 4)]), Err(ModernError::Frame));
    assert_eq!(refused(&[(5, 6), (4, 4)]), Err(ModernError::Frame), "no gap");
    assert_eq!(refused(&[(5, 6), (5, 7)]), Err(ModernError::Frame), "not in order");
    assert_eq!(refused(&[(0, u64::MAX)]), Err(ModernError::NoRoom), "no number");
}

#[test]
fn an_acknowledgement_of_too_many_ranges_leaves_the_lowest_out() {
    let ranges = (0..100u64).rev().map(|i| AckRange { first: i * 3, last: i * 3 });
    let mut buffer = [0; 400];
    let mut writer = FrameWriter::new(&mut buffer);
    writer.ack(ranges.clone(), Duration::ZERO, 0).unwrap();
    let octets = writer.octets();
    let frames = read(&buffer[..octets]).unwrap();
    let [Frame::Ack { ranges: read_ranges, .. }] = frames[..] else { panic!("{frames:?}") };
    let kept: Vec<_> = ranges.take(1 + MAX_ACK_RANGES as usize).collect();
    assert_eq!(read_ranges.iter().collect::<Vec<_>>(), kept);
}

#[test]
fn wrong_frames_are_refused() {
    let wrong = [
        ("", "no frame at all"),
        ("03", "unknown type"),
        ("06", "unknown type"),
        ("10", "unknown type"),
        ("bfffffff", "unknown type, large"),
        ("02050000 0600", "a run below 0"),
        ("02050001 01 0300 00", "a gap to 0 and below"),
        ("0205004041 00", "more ranges than there may be"),
        ("04000005 00", "data that ends early"),
        ("0400ffffffffffffffff0100", "data beyond the end of all streams"),
        ("040000ffffffffffffffff00", "a length beyond all"),
        ("04ffffffffffffffff000100", "a stream that cannot be"),
        ("0b0102cccccccccccccccccccccccccccccccc", "an id that retires itself"),
    ];
    for (octets, why) in wrong {
        let octets = hex::decode(octets.replace(' ', "")).unwrap();
        assert_eq!(read(&octets), Err(ModernError::Frame), "{why}");
    }
    // After an error there is nothing more.
    let mut frames = Frames::new(&[1, 3, 1]).unwrap();
    assert_eq!(frames.next(), Some(Ok(Frame::Ping)));
    assert_eq!(frames.next(), Some(Err(ModernError::Frame)));
    assert_eq!(frames.next(), None);
}

#[test]
fn wrong_parameters_are_refused() {
    let wrong = [
        "01",
        "0110",
        "010f000000000000000000000000000000",
        "0203000000",
        "030500000000 00",
        "040204af",
        "050103",
        "050100",
        "05020101",
        "060100",
        "0600 0600",
        "02040000003c 02040000003c",
    ];
    for octets in wrong {
        let octets = hex::decode(octets.replace(' ', "")).unwrap();
        assert_eq!(Parameters::parse(&octets), Err(ModernError::Parameter), "{octets:?}");
    }
    // What is not known is stepped over, padding as often as it comes.
    let parameters =
        Parameters::parse(&hex::decode("0000ff02abcd06000003000000").unwrap()).unwrap();
    assert_eq!(parameters, Parameters { boundaries: true, ..Parameters::default() });
    assert_eq!(Parameters::parse(&[]), Ok(Parameters::default()));
}

prop_compose! {
    fn any_parameters()(
        send_to: Option<[u8; 16]>, keep_alive_s: Option<u32>, receive_window: Option<u32>,
        largest_datagram in proptest::option::of(1200u16..), suite in 0u8..3, boundaries: bool, streams: Option<u8>,
    ) -> Parameters {
        Parameters { send_to, keep_alive_s, receive_window, largest_datagram, suite: Suite::from_bit(suite), boundaries, streams }
    }
}

proptest! {
    #[test]
    fn parameters_come_back_and_fill_what_they_must(parameters in any_parameters(), least in 0usize..1300, short in 0usize..60) {
        let mut buffer = [0xa5; 1400];
        let octets = parameters.write(&mut buffer, least).unwrap();
        prop_assert!(octets >= least);
        let bare = parameters.write(&mut [0; 100], 0).unwrap();
        // One octet too many only where a single one was missing.
        prop_assert_eq!(octets, if least == bare + 1 { bare + 2 } else { least.max(bare) });
        prop_assert_eq!(Parameters::parse(&buffer[..octets]), Ok(parameters));
        if short < bare {
            prop_assert_eq!(parameters.write(&mut buffer[..short], 0), Err(ModernError::NoRoom));
        }
    }

    /// Whatever the octets, reading them ends, and what was read can be written and read again.
    #[test]
    fn any_octets_are_frames_or_an_error(mut payload in proptest::collection::vec(any::<u8>(), 1..200), types in proptest::collection::vec((0usize..200, 0u8..16), 0..40)) {
        for (at, kind) in types {
            if let Some(place) = payload.get_mut(at) {
                *place = kind;
            }
        }
        if let Ok(frames) = read(&payload) {
            prop_assert_eq!(read(&written(&frames)).map(|again| format!("{again:?}")), Ok(format!("{frames:?}")));
        }
        let _ = Parameters::parse(&payload).is_ok();
    }

    #[test]
    fn ranges_come_back(start in 2000u64..1 << 62, steps in proptest::collection::vec((1u64..9, 0u64..9), 1..60)) {
        let mut last = start - 1;
        let ranges: Vec<AckRange> = steps.into_iter().map(|(gap, run)| {
            let range = AckRange { first: last - run, last };
            last = range.first - 1 - gap;
            range
        }).collect();
        let mut buffer = [0; 400];
        let mut writer = FrameWriter::new(&mut buffer);
        writer.ack(ranges.iter().copied(), Duration::from_secs(1), 7).unwrap();
        let octets = writer.octets();
        let frames = read(&buffer[..octets]).unwrap();
        let [Frame::Ack { ranges: again, .. }] = frames[..] else { panic!("{frames:?}") };
        prop_assert_eq!(again.iter().collect::<Vec<_>>(), ranges);
    }
}
