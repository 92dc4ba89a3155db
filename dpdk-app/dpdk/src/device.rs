//! The device under a port: who holds it, and what its driver tells.

use std::ffi::CString;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::eal::Eal;
use crate::error::Error;
use crate::logging;
use crate::mempool::Mempool;
use crate::ring;

/// What a port's driver says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The driver's name, as `net_af_packet`.
    pub driver: String,
    /// Receive queues, at most.
    pub max_rx_queues: u16,
    /// Transmit queues, at most.
    pub max_tx_queues: u16,
}

impl DeviceInfo {
    /// Whether the driver hands the buffer itself to the receiver instead of its octets. Such a port
    /// refuses a [`crate::SharedMbuf`] with clones at its receiving end.
    pub fn hands_buffers_over(&self) -> bool {
        self.driver == "net_ring"
    }
}

/// The port's counters since it was started, as its driver keeps them.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Frames received.
    pub rx_frames: u64,
    /// Octets received.
    pub rx_octets: u64,
    /// Frames that came in but found no descriptor.
    pub rx_missed: u64,
    /// Frames that came in wrong.
    pub rx_errors: u64,
    /// Times that no mbuf was free for a frame.
    pub rx_no_mbuf: u64,
    /// Frames sent.
    pub tx_frames: u64,
    /// Octets sent.
    pub tx_octets: u64,
    /// Frames that could not be sent.
    pub tx_errors: u64,
}

/// The state of a port's link.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Whether the link is up.
    pub up: bool,
    /// Mbit/s; `u32::MAX` when the driver does not know.
    pub speed_mbps: u32,
}

/// An Ethernet address.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct MacAddress(pub [u8; 6]);

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// The device under a port, and what must live as long as the driver uses it. Dropping it stops the port
/// if it is started, closes it, and unplugs a virtual device.
#[derive(Debug)]
pub(crate) struct Device {
    id: u16,
    name: String,
    /// The name of a virtual device of ours, to unplug it by.
    virtual_name: Option<CString>,
    started: bool,
    /// Receive queues allocate from these.
    pools: Vec<Mempool>,
    /// A port made of rings uses these.
    rings: Vec<Arc<ring::Inner>>,
    _eal: Eal,
}

/// Ports that a [`Device`] holds: two holders of one port could take its queues twice.
static CLAIMED: Mutex<PortSet> = Mutex::new([false; dpdk_sys::RTE_MAX_ETHPORTS as usize]);

type PortSet = [bool; dpdk_sys::RTE_MAX_ETHPORTS as usize];

fn claimed() -> MutexGuard<'static, PortSet> {
    match CLAIMED.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}

impl Device {
    /// Becomes the one holder of port `id`.
    pub(crate) fn claim(
        eal: &Eal,
        id: u16,
        name: &str,
        virtual_name: Option<CString>,
        rings: Vec<Arc<ring::Inner>>,
    ) -> Result<Self, Error> {
        match claimed().get_mut(usize::from(id)) {
            Some(taken) if !*taken => *taken = true,
            _ => return Err(Error::refused(format!("the port '{name}' is already in use"))),
        }
        Ok(Self {
            id,
            name: name.to_owned(),
            virtual_name,
            started: false,
            pools: Vec::new(),
            rings,
            _eal: eal.clone(),
        })
    }

    pub(crate) fn id(&self) -> u16 {
        self.id
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Keeps `pool` for as long as the driver may allocate from it.
    pub(crate) fn keep_pool(&mut self, pool: &Mempool) {
        self.pools.push(pool.clone());
    }

    pub(crate) fn set_started(&mut self, started: bool) {
        self.started = started;
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let (_, _log) = logging::capture(|| {
            // SAFETY: this is the last holder of the port: no queue is left, since each holds the device.
            // A port that is stopped and closed is used no more, here or in the driver.
            unsafe {
                if self.started {
                    dpdk_sys::rte_eth_dev_stop(self.id);
                }
                dpdk_sys::rte_eth_dev_close(self.id);
            }
            if let Some(name) = &self.virtual_name {
                // SAFETY: the name is NUL-terminated, and the device behind it has no port any more.
                unsafe { dpdk_sys::rte_vdev_uninit(name.as_ptr()) };
            }
        });
        if let Some(taken) = claimed().get_mut(usize::from(self.id)) {
            *taken = false;
        }
        // The driver is done with rings and pools only now; fields are dropped after this.
        self.rings.clear();
        self.pools.clear();
    }
}
