//! One controller.

use super::events::USUAL_EVENTS;
use super::jobs::Job;
use super::programs::Parts;
use crate::{AsyncConfig, Framer, Role};

/// What is known about a controller.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) framer: Framer,
    /// Whole messages so far.
    pub(super) messages: u64,
    /// Whether both sides have said hello and agreed.
    pub(super) is_open: bool,
    pub(super) role: Role,
    pub(super) events: AsyncConfig,
    /// What it has asked for and is not done yet.
    pub(super) job: Option<Job>,
    /// A program of which parts have come.
    pub(super) parts: Option<Parts>,
    /// It reads more slowly than it is told things.
    pub(super) is_congested: bool,
    /// Messages of it may be there that have not been looked at.
    pub(super) is_behind: bool,
}

impl Connection {
    pub(super) fn new() -> Self {
        Self {
            framer: Framer::default(),
            messages: 0,
            is_open: false,
            role: Role::Equal,
            events: USUAL_EVENTS,
            job: None,
            parts: None,
            is_congested: false,
            is_behind: false,
        }
    }

    /// Whether the controller gets an event, whose reason is a bit of `masks`: that for master and equal, and that for slave.
    pub(super) const fn gets(&self, masks: [u32; 2], reason: u32) -> bool {
        let [active, slave] = masks;
        let mask = if matches!(self.role, Role::Slave) { slave } else { active };
        self.is_open && mask & reason != 0
    }
}
