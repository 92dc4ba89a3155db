//! What the ends of a flow tell each other when one of them has restarted, and how their streams go on (`SPEC.md`, section 7).

use super::active::Active;
use super::flow::{Flow, MAX_STREAMS};
use super::protect::{Opener, Sealer};
use super::recovery::Control;
use super::{ConnectionId, ModernError, Parameters, PathAddress, Role, VARINT_END};
use core::time::Duration;
use heapless::Vec;

/// The number of a restart's handshake in an Initial. The handshake is that of a pre-shared key.
pub(super) const RESTART_PATTERN: u8 = 5;

/// Packets of one restart: their numbers begin anew at a multiple of this, so that none comes back, whoever restarts how often.
const NUMBERS: u32 = 40;

/// How long a peer that has been answered is waited for with the news that the flow is closed: it could not read it.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Streams that were done with since a ticket was written and that are looked at.
const MAX_DONE: usize = 32;

/// Octets of an Answer.
pub(super) const ANSWER_OCTETS: usize = 256;

/// Why a stream whose octets are gone is reset: the application's reasons have 32 bits.
pub(super) const GONE: u64 = 1 << 32;

const RESTARTS: u8 = 8;
const OPENED: u8 = 9;
const STREAM: u8 = 10;
const REFUSED: u8 = 11;

/// The number of the first packet after so many restarts of both ends.
pub(super) fn first_number(own: u32, peer: u32) -> Result<u64, ModernError> {
    let restarts = u64::from(own) + u64::from(peer);
    if restarts >= VARINT_END >> NUMBERS {
        return Err(ModernError::NumbersUsedUp);
    }
    Ok(restarts << NUMBERS)
}

/// How far an end has got with a stream.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct StreamReport {
    /// The stream's number.
    pub id: u32,
    /// Everything has come, the end too.
    pub complete: bool,
    /// Octets that have come without a gap and will not be lost.
    pub delivered: u64,
    /// How far the peer may send.
    pub limit: u64,
}

/// What an end says of itself in a restart's handshake, besides [`Parameters`] (`SPEC.md`, section 7).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How often it has restarted.
    pub restarts: u32,
    /// Streams that it has opened.
    pub opened: u32,
    /// Those of its peer: so many from the first on, without a gap.
    pub peer_opened: u32,
    /// Which of the streams behind those it has seen already: bit i is for the one with 1 + i others between it and those.
    pub opened_ahead: u32,
    /// How the open streams stand.
    pub streams: Vec<StreamReport, MAX_STREAMS>,
    /// It will not go on.
    pub refused: bool,
}

/// Writes parameters one behind the other.
struct Writer<'a> {
    buffer: &'a mut [u8],
    octets: usize,
}

impl Writer<'_> {
    fn parameter(&mut self, id: u8, parts: &[&[u8]]) -> Result<(), ModernError> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let length = u8::try_from(length).map_err(|_| ModernError::NoRoom)?;
        for part in [&[id, length][..]].into_iter().chain(parts.iter().copied()) {
            let end = self.octets + part.len();
            let place = self.buffer.get_mut(self.octets..end).ok_or(ModernError::NoRoom)?;
            place.copy_from_slice(part);
            self.octets = end;
        }
        Ok(())
    }
}

impl Report {
    /// Writes the report to the beginning of `buffer` and gives its octets.
    ///
    /// # Errors
    /// [`ModernError::NoRoom`].
    pub fn write(&self, buffer: &mut [u8]) -> Result<usize, ModernError> {
        let mut writer = Writer { buffer, octets: 0 };
        if self.refused {
            writer.parameter(REFUSED, &[])?;
            return Ok(writer.octets);
        }
        writer.parameter(RESTARTS, &[&self.restarts.to_be_bytes()])?;
        let (own, peer) = (self.opened.to_be_bytes(), self.peer_opened.to_be_bytes());
        writer.parameter(OPENED, &[&own, &peer, &self.opened_ahead.to_be_bytes()])?;
        for stream in &self.streams {
            let StreamReport { id, complete, delivered, limit } = *stream;
            let (id, flags) = (id.to_be_bytes(), [u8::from(complete)]);
            let (delivered, limit) = (delivered.to_be_bytes(), limit.to_be_bytes());
            writer.parameter(STREAM, &[&id, &flags, &delivered, &limit])?;
        }
        Ok(writer.octets)
    }

    /// Reads what [`Parameters::parse`] has stepped over.
    ///
    /// # Errors
    /// [`ModernError::Parameter`] for parameters that are missing, there twice, or of another length or value than they can have.
    pub fn parse(mut payload: &[u8]) -> Result<Self, ModernError> {
        let mut report = Self::default();
        let (mut restarts, mut opened) = (None, None);
        while let Some(([id, length], rest)) = payload.split_first_chunk() {
            let (value, rest) =
                rest.split_at_checked((*length).into()).ok_or(ModernError::Parameter)?;
            payload = rest;
            match *id {
                RESTARTS => {
                    let value = value.try_into().map_err(|_| ModernError::Parameter)?;
                    if restarts.replace(u32::from_be_bytes(value)).is_some() {
                        return Err(ModernError::Parameter);
                    }
                }
                OPENED => {
                    let ([own, peer, ahead], []) = value.as_chunks::<4>() else {
                        return Err(ModernError::Parameter);
                    };
                    let words = [own, peer, ahead].map(|word| u32::from_be_bytes(*word));
                    if opened.replace(words).is_some() {
                        return Err(ModernError::Parameter);
                    }
                }
                STREAM => report.stream(value)?,
                REFUSED if report.refused || !value.is_empty() => {
                    return Err(ModernError::Parameter);
                }
                REFUSED => report.refused = true,
                _ => {}
            }
        }
        if report.refused {
            return Ok(report);
        }
        report.restarts = restarts.ok_or(ModernError::Parameter)?;
        [report.opened, report.peer_opened, report.opened_ahead] =
            opened.ok_or(ModernError::Parameter)?;
        Ok(report)
    }

    fn stream(&mut self, value: &[u8]) -> Result<(), ModernError> {
        let value: &[u8; 21] = value.try_into().map_err(|_| ModernError::Parameter)?;
        let (id, rest) = value.split_first_chunk().ok_or(ModernError::Parameter)?;
        let ([flags], rest) = rest.split_first_chunk().ok_or(ModernError::Parameter)?;
        let (delivered, rest) = rest.split_first_chunk().ok_or(ModernError::Parameter)?;
        let limit = rest.first_chunk().ok_or(ModernError::Parameter)?;
        let stream = StreamReport {
            id: u32::from_be_bytes(*id),
            complete: *flags == 1,
            delivered: u64::from_be_bytes(*delivered),
            limit: u64::from_be_bytes(*limit),
        };
        let known = self.streams.iter().any(|known| known.id == stream.id);
        if known || *flags > 1 || stream.delivered >= VARINT_END || stream.limit >= VARINT_END {
            return Err(ModernError::Parameter);
        }
        self.streams.push(stream).map_err(|_| ModernError::Parameter)
    }

    /// Whether the end has heard of that stream of its peer's.
    fn has_seen(&self, order: u32) -> bool {
        let ahead = order.checked_sub(self.peer_opened.saturating_add(1));
        let ahead = ahead.and_then(|bit| self.opened_ahead.checked_shr(bit));
        order < self.peer_opened || ahead.is_some_and(|bits| bits & 1 != 0)
    }

    /// One more than the latest stream of its peer's that the end has heard of.
    fn end_of_seen(&self) -> u32 {
        match 32 - self.opened_ahead.leading_zeros() {
            0 => self.peer_opened,
            highest => self.peer_opened.saturating_add(1 + highest),
        }
    }

    /// What the end with this flow says. Of one that sleeps everything that has come was read.
    pub fn of(flow: &Flow, active: Option<&Active<'_>>, receive_octets: usize) -> Self {
        let mut report = Self {
            restarts: flow.own_restarts,
            opened: flow.opened,
            peer_opened: flow.peer_opened,
            opened_ahead: flow.opened_ahead,
            ..Self::default()
        };
        let Some(active) = active else {
            let capacity = receive_octets / flow.places();
            let streams = flow.streams.iter().map(|stream| StreamReport {
                id: stream.id(),
                complete: stream.receive_ended(),
                delivered: stream.received,
                limit: stream.received.saturating_add(capacity as u64),
            });
            report.add(streams);
            return report;
        };
        (report.peer_opened, report.opened_ahead) = active.opened_by_peer();
        let streams = active.streams.iter().flatten().map(|stream| StreamReport {
            id: stream.id,
            complete: stream.receive.is_complete(),
            delivered: stream.receive.next_offset(),
            limit: stream.receive.limit(),
        });
        report.add(streams);
        report
    }

    fn add(&mut self, streams: impl Iterator<Item = StreamReport>) {
        for stream in streams {
            // There are as many places as streams.
            let _ = self.streams.push(stream);
        }
    }
}

/// Keys that an answered restart has made, until a packet of the peer's shows that it has them too.
pub(super) struct Pending {
    /// The epoch of the ids that they belong to.
    pub epoch: u16,
    /// Tells the message that was answered from others, and the answer to it, which must stay the same.
    pub mark: [u8; 16],
    pub answer: Vec<u8, ANSWER_OCTETS>,
    /// Where it was sent.
    pub address: PathAddress,
    pub agreement: Agreement,
}

/// What a restart's handshake ends in.
pub(super) struct Agreement {
    pub sealer: Sealer,
    pub opener: Opener,
    pub first_number: u64,
    pub send_to: ConnectionId,
    pub datagram: u16,
    pub keep_alive_s: u32,
    /// Octets that the peer takes on all streams together from there on, and this end.
    pub peer_window: u64,
    pub own_window: u64,
    pub peer: Report,
    pub own: Report,
}

impl Agreement {
    /// Parameters that both messages carry.
    pub fn parameters(
        flow: &Flow,
        send_to: ConnectionId,
        window: u64,
        suite: Option<super::Suite>,
    ) -> Parameters {
        Parameters {
            send_to: Some(send_to),
            keep_alive_s: Some(flow.keep_alive_s),
            receive_window: Some(u32::try_from(window).unwrap_or(u32::MAX)),
            largest_datagram: Some(flow.datagram),
            suite,
            ..Parameters::default()
        }
    }
}

/// Takes the flow over to the new keys, and its streams to where both ends can go on.
pub(super) fn go_over(
    flow: &mut Flow,
    active: &mut Active<'_>,
    agreement: Agreement,
) -> Result<(), ModernError> {
    let Agreement { mut sealer, opener, peer, own, .. } = agreement;
    // Two restarts that crossed may have the same counts.
    let used = active.sealer.as_ref().map_or(0, Sealer::next_number);
    let first_number = agreement.first_number.max(used);
    sealer.skip_to(first_number)?;
    let restored = core::mem::replace(&mut flow.resuming, false);
    active.give_up_outstanding();
    active.paths.iter_mut().for_each(|path| path.in_flight = 0);
    active.recovery.restart(first_number);
    active.phase_first = first_number;
    active.received = super::active::Received::default();
    (active.sealer, active.opener) = (Some(sealer), Some(opener));
    active.forget_key = super::timers::NEVER;
    active.loss_due = None;
    active.probe = false;
    flow.try_due = false;
    flow.keep_alive_s = flow.keep_alive_s.min(agreement.keep_alive_s);
    flow.datagram = flow.datagram.min(agreement.datagram);
    flow.peer = super::flow::PeerIds { current: agreement.send_to, spare: [None; 2], next: 1 };
    active.control = Control::PING | Control::IDS | Control::TOTAL_WINDOW | Control::WINDOWS;
    settle(flow, active, &peer, restored)?;
    flow.total_sent = 0;
    active.total_peer_limit = agreement.peer_window;
    // Late packets of the old keys may have brought more since this end has said how far it had got.
    let since = |stream: &super::active::Stream| {
        let said = own.streams.iter().find(|said| said.id == stream.id);
        stream.receive.next_offset().saturating_sub(said.map_or(0, |said| said.delivered))
    };
    flow.total_received = active.streams.iter().flatten().map(since).sum();
    active.total_limit = agreement.own_window;
    if let Some(reason) = active.close_reason {
        active.streams.iter_mut().flatten().for_each(|stream| stream.send.close(reason));
    }
    active.drop_done();
    Ok(())
}

/// The ticket may be older than a stream, even one of this end's: those that the peer still has are opened, and then such as it has done with, so that the
/// application hears that they are gone.
fn learn(flow: &mut Flow, active: &mut Active<'_>, peer: &Report) {
    let own_parity = if flow.role == Role::Client { 0 } else { 1 };
    let opened = flow.opened;
    flow.opened = opened.max(peer.end_of_seen());
    let (known, _) = active.opened_by_peer();
    let there = peer.streams.iter().map(|stream| stream.id);
    let own = (opened..flow.opened).filter(|&order| peer.has_seen(order));
    let done = own.map(|order| (order << 1) | own_parity);
    let done = done.chain((known..peer.opened).map(|order| (order << 1) | (1 - own_parity)));
    for id in there.chain(done.take(MAX_DONE)) {
        let order = u64::from(id >> 1);
        let is_own = id & 1 == own_parity;
        let is_known = active.find(id).is_some()
            || if is_own {
                order < opened.into()
            } else {
                active.peer_opened.descending().any(|range| range.contains(&order))
            };
        let place = active.streams.iter().take(active.places).position(Option::is_none);
        let Some(place) = place.filter(|_| !is_known) else { continue };
        if !is_own {
            active.peer_opened.insert(order..order + 1);
        }
        active.open_at(place, id, flow);
    }
}

/// Each stream goes on where its receiver stands.
fn settle(
    flow: &mut Flow,
    active: &mut Active<'_>,
    peer: &Report,
    restored: bool,
) -> Result<(), ModernError> {
    let own_parity = if flow.role == Role::Client { 0 } else { 1 };
    let capacity = active.send_capacity();
    if restored {
        learn(flow, active, peer);
    }
    for stream in active.streams.iter_mut().flatten() {
        let said = peer.streams.iter().find(|said| said.id == stream.id);
        let is_own = stream.id & 1 == own_parity;
        let has_seen =
            if is_own { peer.has_seen(stream.id >> 1) } else { stream.id >> 1 < peer.opened };
        match said {
            Some(said) => {
                let StreamReport { complete, delivered, limit, .. } = *said;
                if flow.own_restarts == 0 && delivered > stream.send.sent() {
                    return Err(ModernError::Acknowledgement);
                }
                stream.send.resume(delivered, limit, complete, capacity, restored);
            }
            // The peer has done with it: it has all, and all of its own was acknowledged.
            None if has_seen => {
                let end = stream.send.written();
                stream.send.resume(end, end, true, capacity, true);
                if restored {
                    stream.receive.lose(GONE);
                }
            }
            // It has never heard of it.
            None => {
                let limit = flow.peer_window.into();
                stream.send.resume(0, limit, false, capacity, restored);
            }
        }
        if !restored {
            stream.receive.resume();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_report_comes_back() {
        let stream =
            |id| StreamReport { id, complete: id == 1, delivered: 1 << 40, limit: 1 << 41 };
        let report = Report {
            restarts: 3,
            opened: 4,
            peer_opened: 5,
            opened_ahead: 6,
            streams: Vec::from_slice(&[stream(0), stream(1), stream(2), stream(5)]).unwrap(),
            refused: false,
        };
        let mut buffer = [0; 160];
        let octets = report.write(&mut buffer).unwrap();
        assert_eq!(Report::parse(&buffer[..octets]), Ok(report));
        // With the parameters beside it an answer has room for four streams.
        assert!(octets + 60 + 32 + 16 + 17 <= ANSWER_OCTETS, "{octets}");
        let refused = Report { refused: true, ..Report::default() };
        let octets = refused.write(&mut buffer).unwrap();
        assert_eq!(Report::parse(&buffer[..octets]), Ok(refused));
        assert_eq!(Report::parse(&[]), Err(ModernError::Parameter));
    }

    #[test]
    fn numbers_never_come_back() {
        assert_eq!(first_number(0, 0), Ok(0));
        assert!(first_number(2, 3).unwrap() > first_number(2, 2).unwrap());
        assert!(first_number(1 << 21, (1 << 21) - 1).is_ok());
        assert_eq!(first_number(1 << 21, 1 << 21), Err(ModernError::NumbersUsedUp));
    }

    proptest! {
        #[test]
        fn any_octets_are_refused_or_mean_something(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Report::parse(&octets).is_ok();
        }
    }
}
