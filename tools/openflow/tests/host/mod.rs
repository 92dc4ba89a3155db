//! A switch with its sockets on a thread of its own, for tests.
#![allow(dead_code)]

#[path = "../switch/mod.rs"]
pub mod switch;

use heddle_core::node::{Instant as Moment, PortId, Verdict};
use heddle_openflow::client::Client;
use heddle_openflow::driver::{Counters, Driver, Settings};
use heddle_openflow::{Address, Tls};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use switch::TestSwitch;

/// Long enough on any machine.
pub const LONG: Duration = Duration::from_secs(60);

type Order = Box<dyn FnOnce(&mut Driver, &mut TestSwitch<'_>) + Send>;

/// The thread, and a way to have things done on it.
pub struct Host {
    orders: Option<Sender<Order>>,
    pub addresses: Vec<SocketAddr>,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    /// A switch of three ports with room for so many flows.
    pub fn new(settings: Settings, flows: usize) -> Self {
        let (orders, todo): (Sender<Order>, Receiver<Order>) = channel();
        let (tell, told) = channel();
        let thread = std::thread::spawn(move || {
            switch::with_room_for(flows, |agent, datapath| {
                let agent =
                    std::mem::replace(agent, heddle_openflow::agent::Agent::new(0, Vec::new(), 0));
                let began = Instant::now();
                let clock = move || Moment::ZERO.after(began.elapsed());
                let mut driver = Driver::new(settings, agent, clock).unwrap();
                tell.send(driver.local_addresses()).unwrap();
                loop {
                    match todo.try_recv() {
                        Ok(order) => order(&mut driver, datapath),
                        Err(std::sync::mpsc::TryRecvError::Empty) => {}
                        Err(_) => return,
                    }
                    driver.poll(datapath, Duration::from_millis(20)).unwrap();
                }
            });
        });
        let addresses = told.recv().unwrap();
        Self { orders: Some(orders), addresses, thread: Some(thread) }
    }

    /// A switch that listens on a port of the loopback address.
    pub fn listening() -> Self {
        Self::new(
            Settings { listen: vec![address("tcp:127.0.0.1:0")], ..Settings::default() },
            4096,
        )
    }

    /// Has something done on the switch's thread.
    pub fn on<T: Send + 'static>(
        &self,
        order: impl FnOnce(&mut Driver, &mut TestSwitch<'_>) -> T + Send + 'static,
    ) -> T {
        let (tell, told) = channel();
        let order: Order = Box::new(move |driver, datapath| {
            tell.send(order(driver, datapath)).unwrap();
        });
        self.orders.as_ref().unwrap().send(order).unwrap();
        told.recv_timeout(LONG).unwrap()
    }

    pub fn counters(&self) -> Counters {
        self.on(|driver, _| *driver.counters())
    }

    pub fn connect(&self) -> Client {
        connect(&format!("tcp:{}", self.addresses[0]), None)
    }

    /// Where a frame from the first port goes.
    pub fn forward(&self) -> Option<PortId> {
        self.on(|_, datapath| match datapath.receive(Moment::ZERO, PortId(0), &[0; 60]) {
            Some(Verdict::Forward(port)) => Some(port),
            _ => None,
        })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the switch's thread has failed");
        }
    }
}

pub fn address(text: &str) -> Address {
    text.parse().unwrap()
}

pub fn connect(text: &str, tls: Option<&Tls>) -> Client {
    Client::connect(&address(text), tls, LONG).unwrap()
}

/// Waits until something is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < end, "it never came about that {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
