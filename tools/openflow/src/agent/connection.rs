//! One controller.

use super::ALL_EVENTS;
use crate::{AsyncConfig, Framer, Role};

/// What is known about a controller.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub(super) framer: Framer,
    /// Whether both sides have said hello and agreed.
    pub(super) is_open: bool,
    pub(super) role: Role,
    pub(super) events: AsyncConfig,
}

impl Connection {
    pub(super) fn new() -> Self {
        Self { framer: Framer::default(), is_open: false, role: Role::Equal, events: ALL_EVENTS }
    }

    /// Whether the controller gets an event, whose reason is a bit of `masks`: that for master and equal, and that for slave.
    pub(super) const fn gets(&self, masks: [u32; 2], reason: u32) -> bool {
        let [active, slave] = masks;
        let mask = if matches!(self.role, Role::Slave) { slave } else { active };
        self.is_open && mask & reason != 0
    }
}
