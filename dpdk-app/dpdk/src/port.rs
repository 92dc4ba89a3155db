//! Ethernet ports, typed by how far they have come.

use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::sync::Arc;

use crate::device::{Device, DeviceInfo, Link, MacAddress, PortStats};
use crate::eal::Eal;
use crate::error::{Error, last_errno};
use crate::logging;
use crate::mbuf::Mbuf;
use crate::mempool::Mempool;
use crate::queue::{RxQueue, TxQueue};
use crate::ring::{self, Producer, RingReceiver, RingSender};

/// A port that EAL has found or made.
#[derive(Debug)]
pub struct Probed {
    device: Device,
}

/// A port with its queues set up.
#[derive(Debug)]
pub struct Configured {
    device: Device,
    rx_queues: u16,
    tx_queues: u16,
}

/// A port that moves frames.
#[derive(Debug)]
pub struct Started {
    device: Arc<Device>,
    rx_taken: Vec<bool>,
    tx_taken: Vec<bool>,
}

/// An Ethernet port in the state `S`: [`Probed`], [`Configured`] or [`Started`]. A port that is dropped is
/// stopped and closed, once the queues taken from it are gone too.
///
/// It can move between threads but not be used from two at once, as DPDK wants it for all but the queues.
#[derive(Debug)]
pub struct Port<S> {
    state: S,
    not_sync: PhantomData<std::cell::Cell<()>>,
}

/// What a receive queue of net_af_xdp takes from its pool when it is set up, whatever its descriptors.
const AF_XDP_MBUFS: u32 = 2048;

/// A port that could not be stopped.
#[derive(Debug)]
pub struct NotStopped {
    /// The port as it was, when queues of it were in use; nothing when the driver refused.
    pub port: Option<Box<Port<Started>>>,
    /// Why not.
    pub error: Error,
}

/// What a port is asked to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Receive queues.
    pub rx_queues: u16,
    /// Transmit queues.
    pub tx_queues: u16,
    /// Descriptors of each receive queue, rounded to what the driver can.
    pub rx_descriptors: u16,
    /// Descriptors of each transmit queue, rounded to what the driver can.
    pub tx_descriptors: u16,
}

impl Default for PortConfig {
    fn default() -> Self {
        Self { rx_queues: 1, tx_queues: 1, rx_descriptors: 512, tx_descriptors: 512 }
    }
}

impl<S> Port<S> {
    fn in_state(state: S) -> Self {
        Self { state, not_sync: PhantomData }
    }
}

/// What every state has.
pub trait State: private::Sealed {
    #[doc(hidden)]
    fn id(&self) -> u16;
    #[doc(hidden)]
    fn name(&self) -> &str;
}

mod private {
    pub trait Sealed {}
    impl Sealed for super::Probed {}
    impl Sealed for super::Configured {}
    impl Sealed for super::Started {}
}

macro_rules! state {
    ($($state:ty),*) => {$(
        impl State for $state {
            fn id(&self) -> u16 {
                self.device.id()
            }
            fn name(&self) -> &str {
                self.device.name()
            }
        }
    )*};
}
state!(Probed, Configured, Started);

impl<S: State> Port<S> {
    /// DPDK's number of the port.
    pub fn id(&self) -> u16 {
        self.state.id()
    }

    /// DPDK's name of the port: the virtual device's, or the PCI address.
    pub fn name(&self) -> &str {
        self.state.name()
    }

    /// What the driver says of itself.
    ///
    /// # Errors
    /// The driver does not answer.
    pub fn info(&self) -> Result<DeviceInfo, Error> {
        // SAFETY: the structure is integers and pointers, for which zero is a value.
        let mut info: dpdk_sys::rte_eth_dev_info = unsafe { std::mem::zeroed() };
        // SAFETY: the port exists while this value does, and `info` can be written.
        let status = unsafe { dpdk_sys::rte_eth_dev_info_get(self.id(), &mut info) };
        self.check(status, "does not say what it is")?;
        let driver = if info.driver_name.is_null() {
            String::new()
        } else {
            // SAFETY: the driver's name is a NUL-terminated constant.
            unsafe { CStr::from_ptr(info.driver_name) }.to_string_lossy().into_owned()
        };
        Ok(DeviceInfo {
            driver,
            max_rx_queues: info.max_rx_queues,
            max_tx_queues: info.max_tx_queues,
        })
    }

    /// The port's Ethernet address.
    ///
    /// # Errors
    /// The driver does not answer.
    pub fn mac(&self) -> Result<MacAddress, Error> {
        let mut address = dpdk_sys::rte_ether_addr { addr_bytes: [0; 6] };
        // SAFETY: the port exists while this value does, and `address` can be written.
        let status = unsafe { dpdk_sys::rte_eth_macaddr_get(self.id(), &mut address) };
        self.check(status, "does not say its Ethernet address")?;
        Ok(MacAddress(address.addr_bytes))
    }

    fn check(&self, status: i32, complaint: &str) -> Result<(), Error> {
        if status < 0 {
            return Err(Error::call(format!("port '{}' {complaint}", self.name()), status, ""));
        }
        Ok(())
    }
}

impl Port<Probed> {
    /// Makes a virtual device: its driver's name with a number, as `net_null0`, and the driver's
    /// arguments, as `size=64,copy=1`.
    ///
    /// # Errors
    /// There is no such driver, the name is taken, or the driver does not like the arguments.
    pub fn virtual_device(eal: &Eal, name: &str, arguments: &str) -> Result<Self, Error> {
        let what = || format!("the virtual device '{name}' ({arguments}) cannot be made");
        let (Ok(c_name), Ok(c_arguments)) = (CString::new(name), CString::new(arguments)) else {
            return Err(Error::refused(format!("{}: a NUL octet", what())));
        };
        let (status, log) = logging::capture(|| {
            // SAFETY: EAL runs, and both strings are NUL-terminated and copied.
            unsafe { dpdk_sys::rte_vdev_init(c_name.as_ptr(), c_arguments.as_ptr()) }
        });
        if status != 0 {
            // Drivers return -1 for whatever went wrong; read as an error number it would mislead.
            let errno = if status == -1 { 0 } else { status };
            let error = Error::call(what(), errno, &log);
            return Err(match -status {
                libc::EEXIST => error.advise("The name is taken."),
                libc::ENODEV if name.starts_with("net_af_") => {
                    error.advise("The interface must exist in this network namespace.")
                }
                _ if name.starts_with("net_af_") => error.advise(
                    "The interface must exist in this network namespace, and the process needs CAP_NET_RAW and CAP_NET_ADMIN.",
                ),
                _ => error.advise("A name is a driver's, with a number, as net_null0."),
            });
        }
        Self::by_name(eal, name, Some(c_name))
    }

    /// The port of a device that EAL took when it started: a PCI device by its address, as `0000:01:00.0`
    /// ([`crate::EalConfig::pci_device`]), or a virtual one by its name ([`crate::EalConfig::virtual_device`]).
    ///
    /// # Errors
    /// EAL took no such device, or its port is in use.
    pub fn probed_at_start(eal: &Eal, name: &str) -> Result<Self, Error> {
        Self::by_name(eal, name, None).map_err(|e| {
            e.advise("A PCI device must be bound to vfio-pci (dpdk-devbind.py -b vfio-pci) and allowed when EAL starts.")
        })
    }

    /// A port made of rings: receive queue i takes from `rx[i]`, transmit queue i sends into `tx[i]`. Both
    /// halves of one ring make a port that hears itself.
    ///
    /// # Errors
    /// The name is taken or too long, or there are too many rings.
    pub fn from_rings<P: Producer>(
        eal: &Eal,
        name: &str,
        rx: Vec<RingReceiver<Mbuf>>,
        tx: Vec<RingSender<Mbuf, P>>,
    ) -> Result<Self, Error> {
        let c_name = CString::new(name)
            .map_err(|_| Error::refused(format!("the port name {name:?} holds a NUL octet")))?;
        let rx: Vec<_> = rx.into_iter().map(RingReceiver::into_inner).collect();
        let tx: Vec<_> = tx.into_iter().map(RingSender::into_inner).collect();
        let pointers = |rings: &[Arc<ring::Inner>]| -> Vec<_> {
            rings.iter().map(|ring| ring.as_ptr()).collect()
        };
        let (rx_pointers, tx_pointers) = (pointers(&rx), pointers(&tx));
        let (id, log) = logging::capture(|| {
            // SAFETY: EAL runs, the name is NUL-terminated and copied, and each array holds as many rings
            // as its count says. The rings live on in the device that is made below.
            unsafe {
                dpdk_sys::rte_eth_from_rings(
                    c_name.as_ptr(),
                    rx_pointers.as_ptr(),
                    rx_pointers.len() as u32,
                    tx_pointers.as_ptr(),
                    tx_pointers.len() as u32,
                    0,
                )
            }
        });
        let what =
            format!("the port '{name}' cannot be made of {} and {} rings", rx.len(), tx.len());
        let Ok(id) = u16::try_from(id) else {
            return Err(Error::call(what, last_errno(), &log));
        };
        // The driver puts its own prefix before the name.
        let name = format!("net_ring_{name}");
        let virtual_name = CString::new(name.as_str()).ok();
        let rings = rx.into_iter().chain(tx).collect();
        let device = Device::claim(eal, id, &name, virtual_name, rings)?;
        Ok(Self::in_state(Probed { device }))
    }

    fn by_name(eal: &Eal, name: &str, virtual_name: Option<CString>) -> Result<Self, Error> {
        let c_name = CString::new(name)
            .map_err(|_| Error::refused(format!("the port name {name:?} holds a NUL octet")))?;
        let mut id = 0;
        // SAFETY: EAL runs, the name is NUL-terminated, and `id` can be written.
        let status = unsafe { dpdk_sys::rte_eth_dev_get_port_by_name(c_name.as_ptr(), &mut id) };
        if status != 0 {
            return Err(Error::call(format!("there is no port '{name}'"), status, ""));
        }
        let device = Device::claim(eal, id, name, virtual_name, Vec::new())?;
        Ok(Self::in_state(Probed { device }))
    }

    /// Sets up the queues. Receive queues take their mbufs from `pool`.
    ///
    /// # Errors
    /// The driver has fewer queues or refuses a queue; the port is closed then.
    pub fn configure(self, config: &PortConfig, pool: &Mempool) -> Result<Port<Configured>, Error> {
        let info = self.info()?;
        if config.rx_queues > info.max_rx_queues || config.tx_queues > info.max_tx_queues {
            return Err(Error::refused(format!(
                "port '{}' ({}) has {} receive and {} transmit queues at most; {} and {} were asked for",
                self.name(),
                info.driver,
                info.max_rx_queues,
                info.max_tx_queues,
                config.rx_queues,
                config.tx_queues
            )));
        }
        let mut device = self.state.device;
        // Before any queue can refer to it.
        device.keep_pool(pool);
        let (result, log) = logging::capture(|| set_up_queues(device.id(), config, pool));
        if let Err((what, status)) = result {
            let error = Error::call(format!("port '{}': {what}", device.name()), status, &log);
            return Err(if info.driver == "net_af_xdp" && pool.available() < AF_XDP_MBUFS {
                error.advise("Every receive queue of net_af_xdp takes 2048 mbufs at once: make the pool larger.")
            } else {
                error
            });
        }
        Ok(Port::in_state(Configured {
            device,
            rx_queues: config.rx_queues,
            tx_queues: config.tx_queues,
        }))
    }
}

fn set_up_queues(id: u16, config: &PortConfig, pool: &Mempool) -> Result<(), (String, i32)> {
    let check = |status: i32, what: &dyn Fn() -> String| {
        if status < 0 { Err((what(), status)) } else { Ok(()) }
    };
    // SAFETY: the structure is integers and pointers, for which zero is a value: no offload, no RSS.
    let conf: dpdk_sys::rte_eth_conf = unsafe { std::mem::zeroed() };
    let (mut rx_descriptors, mut tx_descriptors) = (config.rx_descriptors, config.tx_descriptors);
    // SAFETY: the port exists and is not started, nobody else uses it, and what is pointed to can be read
    // or written as each call needs it. A null queue configuration means the driver's own.
    unsafe {
        let status = dpdk_sys::rte_eth_dev_configure(id, config.rx_queues, config.tx_queues, &conf);
        check(status, &|| "the driver does not take the number of queues".to_owned())?;
        let status = dpdk_sys::rte_eth_dev_adjust_nb_rx_tx_desc(
            id,
            &mut rx_descriptors,
            &mut tx_descriptors,
        );
        check(status, &|| "the driver does not take the number of descriptors".to_owned())?;
        for queue in 0..config.rx_queues {
            let status = dpdk_sys::rte_eth_rx_queue_setup(
                id,
                queue,
                rx_descriptors,
                0,
                std::ptr::null(),
                pool.as_ptr(),
            );
            check(status, &|| format!("receive queue {queue} cannot be set up"))?;
        }
        for queue in 0..config.tx_queues {
            let status =
                dpdk_sys::rte_eth_tx_queue_setup(id, queue, tx_descriptors, 0, std::ptr::null());
            check(status, &|| format!("transmit queue {queue} cannot be set up"))?;
        }
    }
    Ok(())
}

impl Port<Configured> {
    /// Starts the port.
    ///
    /// # Errors
    /// The driver refuses; the port is closed then.
    pub fn start(self) -> Result<Port<Started>, Error> {
        let Configured { mut device, rx_queues, tx_queues } = self.state;
        let (status, log) = logging::capture(|| {
            // SAFETY: the port is configured, all its queues are set up, and nobody else uses it.
            unsafe { dpdk_sys::rte_eth_dev_start(device.id()) }
        });
        if status < 0 {
            return Err(Error::call(
                format!("port '{}' cannot be started", device.name()),
                status,
                &log,
            ));
        }
        device.set_started(true);
        Ok(Port::in_state(Started {
            device: Arc::new(device),
            rx_taken: vec![false; usize::from(rx_queues)],
            tx_taken: vec![false; usize::from(tx_queues)],
        }))
    }
}

impl Port<Started> {
    /// Receive queue `queue`, the first time that it is asked for.
    pub fn take_rx(&mut self, queue: u16) -> Option<RxQueue> {
        take(&mut self.state.rx_taken, queue)?;
        Some(RxQueue::new(&self.state.device, queue))
    }

    /// Transmit queue `queue`, the first time that it is asked for.
    pub fn take_tx(&mut self, queue: u16) -> Option<TxQueue> {
        take(&mut self.state.tx_taken, queue)?;
        Some(TxQueue::new(&self.state.device, queue))
    }

    /// Stops the port.
    ///
    /// # Errors
    /// A queue that was taken still exists: the port comes back as it was. Or the driver refuses.
    pub fn stop(self) -> Result<Port<Configured>, NotStopped> {
        let Started { device, rx_taken, tx_taken } = self.state;
        let mut device = match Arc::try_unwrap(device) {
            Ok(device) => device,
            Err(device) => {
                let error = Error::refused(format!(
                    "port '{}' cannot be stopped while queues of it are in use",
                    device.name()
                ));
                let port = Port::in_state(Started { device, rx_taken, tx_taken });
                return Err(NotStopped { port: Some(Box::new(port)), error });
            }
        };
        // SAFETY: no queue is left, as each would hold the device, so no thread is in the driver's bursts.
        let status = unsafe { dpdk_sys::rte_eth_dev_stop(device.id()) };
        if status < 0 {
            let error =
                Error::call(format!("port '{}' cannot be stopped", device.name()), status, "");
            return Err(NotStopped { port: None, error });
        }
        device.set_started(false);
        Ok(Port::in_state(Configured {
            device,
            rx_queues: rx_taken.len() as u16,
            tx_queues: tx_taken.len() as u16,
        }))
    }

    /// The driver's counters.
    ///
    /// # Errors
    /// The driver keeps none.
    pub fn stats(&self) -> Result<PortStats, Error> {
        // SAFETY: the structure is integers only.
        let mut stats: dpdk_sys::rte_eth_stats = unsafe { std::mem::zeroed() };
        // SAFETY: the port exists while this value does, and `stats` can be written.
        let status = unsafe { dpdk_sys::rte_eth_stats_get(self.id(), &mut stats) };
        self.check(status, "has no counters")?;
        Ok(PortStats {
            rx_frames: stats.ipackets,
            rx_octets: stats.ibytes,
            rx_missed: stats.imissed,
            rx_errors: stats.ierrors,
            rx_no_mbuf: stats.rx_nombuf,
            tx_frames: stats.opackets,
            tx_octets: stats.obytes,
            tx_errors: stats.oerrors,
        })
    }

    /// The link now, without waiting for it.
    ///
    /// # Errors
    /// The driver does not answer.
    pub fn link(&self) -> Result<Link, Error> {
        // SAFETY: the structure is integers only.
        let mut link: dpdk_sys::rte_eth_link = unsafe { std::mem::zeroed() };
        // SAFETY: the port exists while this value does, and `link` can be written.
        let status = unsafe { dpdk_sys::rte_eth_link_get_nowait(self.id(), &mut link) };
        self.check(status, "does not say whether its link is up")?;
        Ok(Link {
            up: u32::from(link.link_status()) == dpdk_sys::RTE_ETH_LINK_UP,
            speed_mbps: link.link_speed,
        })
    }

    /// Receives frames for every address, or no longer.
    ///
    /// # Errors
    /// The driver cannot.
    pub fn set_promiscuous(&mut self, on: bool) -> Result<(), Error> {
        // SAFETY: the port exists while this value does, and `&mut self` is its only user.
        let status = unsafe {
            if on {
                dpdk_sys::rte_eth_promiscuous_enable(self.id())
            } else {
                dpdk_sys::rte_eth_promiscuous_disable(self.id())
            }
        };
        self.check(status, "cannot change its promiscuous mode")
    }

    /// Receives every multicast frame, or no longer.
    ///
    /// # Errors
    /// The driver cannot.
    pub fn set_all_multicast(&mut self, on: bool) -> Result<(), Error> {
        // SAFETY: the port exists while this value does, and `&mut self` is its only user.
        let status = unsafe {
            if on {
                dpdk_sys::rte_eth_allmulticast_enable(self.id())
            } else {
                dpdk_sys::rte_eth_allmulticast_disable(self.id())
            }
        };
        self.check(status, "cannot change its all-multicast mode")
    }
}

/// Marks a queue as taken, unless it was or there is no such queue.
fn take(taken: &mut [bool], queue: u16) -> Option<()> {
    let taken = taken.get_mut(usize::from(queue))?;
    (!std::mem::replace(taken, true)).then_some(())
}
