//! A burst of frames through table 0, all of them one step after the other, so that the memory that one frame needs is on its way while
//! others are looked at. What needs more than one look-up and a rewrite goes the long way, at its turn.

use super::counters::FlowDrop;
use super::glance::Glance;
use super::programs::{ProgramPlace, Programs, Verdicts};
use super::rule::RuleId;
use super::switch::Switch;
use crate::node::{BURST, Engine, Frame, Instant, PortId, Verdict};
use crate::prefetch::prefetch;

/// Octets of a cache line.
const LINE_OCTETS: usize = 64;

/// Scratch memory for one burst.
pub(super) type Glances = [Glance; BURST];

impl<P: Programs> Switch<'_, P> {
    /// Takes up to [`BURST`] frames.
    #[inline]
    pub(super) fn take_burst<E: Engine>(
        &mut self,
        now: Instant,
        in_port: PortId,
        frames: &mut [E::Frame],
        verdicts: &mut [Verdict<FlowDrop>],
        engine: &mut E,
    ) {
        for frame in frames.iter() {
            // Headers and a name are in the first two cache lines.
            let octets = frame.bytes();
            if let Some(first) = octets.first() {
                prefetch(first);
            }
            if let Some(second) = octets.get(LINE_OCTETS) {
                prefetch(second);
            }
        }
        let Self { glances, tables, .. } = self;
        for (frame, glance) in frames.iter().zip(glances.iter_mut()) {
            glance.take(frame.bytes(), in_port, tables);
        }
        for glance in glances.iter().take(frames.len()) {
            for probe in &glance.probes {
                tables.expect_rule(probe.hash);
            }
        }
        for (at, (frame, verdict)) in frames.iter_mut().zip(verdicts).enumerate() {
            *verdict = match self.forward(now, in_port, at, frame) {
                Way::Out(port) => Verdict::Forward(port),
                Way::Long(known) => self.process(now, in_port, frame, known, engine),
            };
        }
    }

    /// Does with a frame what its rule says, when that is a rewrite and one output. Otherwise the frame stays as it was.
    #[inline]
    fn forward<F: Frame>(
        &mut self,
        now: Instant,
        in_port: PortId,
        at: usize,
        frame: &mut F,
    ) -> Way {
        let Self { glances, known, tables, programs, ports, counters, .. } = self;
        let Some(glance) = glances.get(at).filter(|glance| !glance.needs_care) else {
            return Way::Long(None);
        };
        let octets = frame.bytes();
        let length = octets.len();
        let place = ProgramPlace { table: 0, in_port };
        let mut verdicts = Verdicts::new(programs, known, place, octets);
        let probes = glance.probes.iter().copied();
        let found = tables
            .best(probes, &glance.fields, glance.name(octets), |wanted| verdicts.accept(wanted));
        if let Some(problem) = verdicts.problem() {
            counters.add(FlowDrop::Flow(problem));
        }
        let long = Way::Long(Some(found));
        let Some((rule, rewrite)) = found.and_then(|id| tables.quick(id)) else { return long };
        let out = match rewrite.output {
            Some(port) if port == in_port => return long,
            Some(port) => port,
            None => in_port,
        };
        let mtu_octets = ports.mtu_octets.get(usize::from(out.0)).copied().unwrap_or(0);
        let is_sent = ports.up.contains(out)
            && length <= usize::from(mtu_octets)
            && rewrite.apply(frame.bytes_mut(), glance.is_plain);
        if !is_sent {
            return long;
        }
        rule.packets += 1;
        rule.octets += length as u64;
        rule.used = now;
        if rule.has_program
            && let Some(program) = rule.program
        {
            self.programs.hit(program.program);
        }
        Way::Out(out)
    }
}

/// Where a frame goes after a look at it.
enum Way {
    /// Out, changed already.
    Out(PortId),
    /// Through the tables, with the rule that is known for the first one.
    Long(Option<Option<RuleId>>),
}
