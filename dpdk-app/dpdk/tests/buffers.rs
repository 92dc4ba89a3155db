//! Ownership of mbufs: through pools, rings and ports made of rings, every one comes home exactly once.
//! EAL starts once in a process, so one test runs all the steps.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use arrayvec::ArrayVec;
use dpdk::{
    Eal, Mbuf, Mempool, NoRoom, Port, PortConfig, SharedMbuf, current_lcore, multi_producer_ring,
    ring,
};

const MBUFS: u32 = 1023;

#[test]
fn every_mbuf_comes_home_once() {
    let eal = common::start(3);
    let pool = Mempool::new(&eal, "test", MBUFS).unwrap();
    assert_eq!((pool.available(), pool.in_use()), (MBUFS, 0));

    lengths(&pool);
    exhaustion(&pool);
    sharing(&pool);
    rings(&eal, &pool);
    ports_of_rings(&eal, &pool);
    unsent_frames_stay(&eal, &pool);
    null_port(&eal, &pool);
    lcores(&eal, &pool);

    assert_eq!((pool.available(), pool.in_use()), (MBUFS, 0));
    pool_outlived_by_an_mbuf(&eal, pool);
}

fn lengths(pool: &Mempool) {
    let mut mbuf = pool.allocate().unwrap();
    assert!(mbuf.is_empty());
    assert_eq!((mbuf.headroom(), mbuf.tailroom()), (128, 2048));
    mbuf.append(4).unwrap().copy_from_slice(b"body");
    mbuf.prepend(5).unwrap().copy_from_slice(b"head ");
    assert_eq!(mbuf.bytes(), b"head body");
    assert_eq!((mbuf.headroom(), mbuf.tailroom(), mbuf.len()), (123, 2044, 9));
    mbuf.adj(2).unwrap();
    mbuf.trim(1).unwrap();
    assert_eq!(mbuf.bytes(), b"ad bod");
    mbuf.bytes_mut()[0] = b'A';
    mbuf.resize(2).unwrap();
    assert_eq!(mbuf.bytes(), b"Ad");

    // What does not fit leaves the mbuf as it was.
    assert_eq!(mbuf.append(2050).map(|_| ()), Err(NoRoom));
    assert_eq!(mbuf.prepend(126).map(|_| ()), Err(NoRoom));
    assert_eq!(mbuf.adj(3), Err(NoRoom));
    assert_eq!(mbuf.trim(3), Err(NoRoom));
    assert_eq!(mbuf.resize(usize::MAX), Err(NoRoom));
    assert_eq!(mbuf.append(usize::MAX).map(|_| ()), Err(NoRoom));
    assert_eq!(mbuf.bytes(), b"Ad");
    mbuf.resize(mbuf.len() + mbuf.tailroom()).unwrap();
    assert_eq!(mbuf.tailroom(), 0);
    mbuf.prepend(mbuf.headroom()).unwrap();
    assert_eq!((mbuf.headroom(), mbuf.len()), (0, 2176));
    drop(mbuf);

    let fresh = pool.allocate().unwrap();
    assert_eq!((fresh.len(), fresh.headroom()), (0, 128), "a recycled mbuf starts afresh");
}

fn exhaustion(pool: &Mempool) {
    let mut all: Vec<Mbuf> = std::iter::from_fn(|| pool.allocate()).collect();
    assert_eq!(all.len(), MBUFS as usize);
    let mut burst = ArrayVec::<Mbuf, 32>::new();
    assert!(!pool.allocate_into(&mut burst), "an empty pool gives nothing");
    assert!(burst.is_empty());
    all.truncate(all.len() - 32);
    burst.push(all.pop().unwrap());
    assert!(pool.allocate_into(&mut burst));
    assert_eq!(burst.len(), 32);
    assert_eq!(pool.in_use(), MBUFS - 1);
}

fn sharing(pool: &Mempool) {
    let shared = frame(pool, 7).share();
    let clones: Vec<SharedMbuf> = (0..5).map(|_| shared.clone()).collect();
    assert_eq!(pool.in_use(), 1);
    drop(shared);
    assert!(clones.iter().all(|clone| clone.bytes() == [7; 60]));
    std::thread::spawn(move || drop(clones)).join().unwrap();
    assert_eq!(pool.in_use(), 0);
}

fn rings(eal: &Eal, pool: &Mempool) {
    let (mut sender, mut receiver) = ring::<Mbuf>(eal, "ring", 5).unwrap();
    assert!(ring::<Mbuf>(eal, "ring", 5).is_err(), "a name is taken once");
    let mut frames: ArrayVec<Mbuf, 8> = (0..8).map(|i| frame(pool, i)).collect();
    assert_eq!(sender.send(&mut frames), 5, "the capacity is exact");
    assert_eq!(frames.iter().map(|f| f.bytes()[0]).collect::<Vec<_>>(), [5, 6, 7]);
    assert_eq!(sender.send(&mut frames), 0);
    let mut out = ArrayVec::<Mbuf, 2>::new();
    assert_eq!(receiver.receive(&mut out), 2);
    assert_eq!(receiver.receive(&mut out), 0, "no room");
    assert_eq!(out.iter().map(|f| f.bytes()[0]).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(receiver.len(), 3);
    drop((frames, out));
    assert_eq!(pool.in_use(), 3);
    drop(sender);
    assert_eq!(receiver.len(), 3, "the other half keeps the ring");
    drop(receiver);
    assert_eq!(pool.in_use(), 0, "what is in a ring is freed with it");
    drop(ring::<SharedMbuf>(eal, "ring", 5).unwrap());
}

fn ports_of_rings(eal: &Eal, pool: &Mempool) {
    let (to_b, from_a) = ring(eal, "a-b", 64).unwrap();
    let (to_a, from_b) = ring(eal, "b-a", 64).unwrap();
    let a = Port::from_rings(eal, "a", vec![from_b], vec![to_b]).unwrap();
    let b = Port::from_rings(eal, "b", vec![from_a], vec![to_a]).unwrap();
    assert!(a.info().unwrap().hands_buffers_over());
    let mut a = a.configure(&PortConfig::default(), pool).unwrap().start().unwrap();
    let mut b = b.configure(&PortConfig::default(), pool).unwrap().start().unwrap();
    let (mut a_rx, mut a_tx) = (a.take_rx(0).unwrap(), a.take_tx(0).unwrap());
    let (mut b_rx, mut b_tx) = (b.take_rx(0).unwrap(), b.take_tx(0).unwrap());
    assert!(a.take_rx(0).is_none() && a.take_tx(0).is_none(), "a queue is handed out once");
    assert!(a.take_rx(1).is_none(), "there is one queue");

    let mut frames: ArrayVec<Mbuf, 32> = (0..32).map(|i| frame(pool, i)).collect();
    assert_eq!(a_tx.send(&mut frames), 32);
    assert!(frames.is_empty());
    assert_eq!(a_rx.receive(&mut frames), 0);
    assert_eq!(b_rx.receive(&mut frames), 32);
    assert_eq!(frames[31].bytes(), [31; 60]);
    assert_eq!(b_tx.send(&mut frames), 32);
    assert_eq!(a.stats().unwrap().tx_frames, 32);
    assert_eq!(b.stats().unwrap().rx_frames, 32);

    // A buffer that its sender can still read never becomes one that the receiver can write.
    let shared = frame(pool, 9).share();
    let mut batch = ArrayVec::<SharedMbuf, 4>::new();
    batch.push(shared.clone());
    batch.push(frame(pool, 1).share());
    assert_eq!(a_tx.send(&mut batch), 2);
    let mut received = ArrayVec::<Mbuf, 4>::new();
    assert_eq!(b_rx.receive(&mut received), 1);
    assert_eq!((received[0].bytes()[0], b_rx.shared()), (1, 1));
    assert_eq!(shared.bytes(), [9; 60]);

    let refused = a.stop().unwrap_err();
    assert!(refused.error.to_string().contains("in use"), "{}", refused.error);
    drop((a_rx, a_tx));
    let configured = refused.port.unwrap().stop().unwrap();
    let mut again = configured.start().unwrap();
    assert_eq!(again.take_rx(0).unwrap().receive(&mut frames), 32, "the ring kept the frames");
    assert_eq!(pool.in_use(), 34);
    frames.clear();
    // The port stays until its last queue is gone.
    drop(b);
    assert_eq!(b_rx.receive(&mut frames), 0);
    assert!(Port::probed_at_start(eal, "net_ring_b").is_err(), "a port has one holder");
}

fn unsent_frames_stay(eal: &Eal, pool: &Mempool) {
    let (sender, receiver) = ring(eal, "loop", 5).unwrap();
    let port = Port::from_rings(eal, "loop", vec![receiver], vec![sender]).unwrap();
    let mut port = port.configure(&PortConfig::default(), pool).unwrap().start().unwrap();
    let (mut rx, mut tx) = (port.take_rx(0).unwrap(), port.take_tx(0).unwrap());
    let mut frames: ArrayVec<Mbuf, 8> = (0..8).map(|i| frame(pool, i)).collect();
    assert_eq!(tx.send(&mut frames), 5);
    assert_eq!(frames.iter().map(|f| f.bytes()[0]).collect::<Vec<_>>(), [5, 6, 7]);
    assert_eq!(pool.in_use(), 8);
    let mut received = ArrayVec::<Mbuf, 8>::new();
    assert_eq!(rx.receive(&mut received), 5);
    assert_eq!(tx.send(&mut frames), 3, "they are sent in the end");
    assert_eq!(rx.receive(&mut received), 3);
    assert_eq!(received.iter().map(|f| f.bytes()[0]).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 7]);
}

fn null_port(eal: &Eal, pool: &Mempool) {
    let port = Port::virtual_device(eal, "net_null0", "size=60,copy=1").unwrap();
    assert_eq!(port.info().unwrap().driver, "net_null");
    let mut port = port.configure(&PortConfig::default(), pool).unwrap().start().unwrap();
    port.set_promiscuous(true).ok();
    assert!(port.link().unwrap().up);
    assert_eq!(port.mac().unwrap().to_string().len(), 17);
    let (mut rx, mut tx) = (port.take_rx(0).unwrap(), port.take_tx(0).unwrap());
    let mut frames = ArrayVec::<Mbuf, 32>::new();
    for _ in 0..100 {
        assert_eq!(rx.receive(&mut frames), 32);
        assert!(frames.iter().all(|f| f.len() == 60));
        assert_eq!(tx.send(&mut frames), 32);
    }
    // Shared buffers reach the driver once for each clone.
    let shared = frame(pool, 3).share();
    let mut batch: ArrayVec<SharedMbuf, 32> = (0..31).map(|_| shared.clone()).collect();
    batch.push(shared);
    assert_eq!(tx.send(&mut batch), 32);
    assert_eq!(pool.in_use(), 0);
    drop((rx, tx, port));
    // The name is free again.
    drop(Port::virtual_device(eal, "net_null0", "").unwrap());
}

fn lcores(eal: &Eal, pool: &Mempool) {
    assert_eq!(current_lcore(), Some(0), "the thread that starts EAL is the main lcore");
    assert_eq!(std::thread::spawn(current_lcore).join().unwrap(), None);
    let mut workers = eal.take_lcores();
    assert_eq!(workers.len(), 2);
    assert!(eal.take_lcores().is_empty(), "lcores are handed out once");

    // Two lcores send into one ring, and what the third party takes out is all of it.
    let (sender, mut receiver) = multi_producer_ring::<Mbuf>(eal, "mp", 256).unwrap();
    let running: Vec<_> = workers
        .drain(..)
        .map(|lcore| {
            let id = lcore.id();
            let (pool, mut sender) = (pool.clone(), sender.clone());
            let work = move || {
                let mut sent = 0;
                let mut frames = ArrayVec::<Mbuf, 16>::new();
                while sent < 10_000 {
                    if frames.is_empty() && !pool.allocate_into(&mut frames) {
                        std::thread::yield_now();
                    }
                    let count = sender.send(&mut frames);
                    if count == 0 {
                        std::thread::yield_now();
                    }
                    sent += count;
                }
                (current_lcore(), sent)
            };
            (id, lcore.launch(work).unwrap())
        })
        .collect();
    let mut received = 0;
    let mut frames = ArrayVec::<Mbuf, 32>::new();
    while received < 20_000 {
        received += receiver.receive(&mut frames);
        frames.clear();
        std::thread::yield_now();
    }
    let mut sent = 0;
    let mut idle = Vec::new();
    for (id, lcore) in running {
        let (lcore, outcome) = lcore.wait();
        let (ran_on, count) = outcome.unwrap();
        assert_eq!(ran_on, Some(id));
        sent += count;
        idle.push(lcore);
    }
    while received < sent {
        received += receiver.receive(&mut frames);
        frames.clear();
    }
    drop((sender, receiver));

    // A panic on an lcore comes back as one, and the lcore can be used again.
    let lcore = idle.pop().unwrap();
    std::panic::set_hook(Box::new(|_| {}));
    let (lcore, outcome) = lcore.launch(|| panic!("expected")).unwrap().wait();
    let _ = std::panic::take_hook();
    assert_eq!(*outcome.unwrap_err().downcast::<&str>().unwrap(), "expected");
    assert_eq!(lcore.launch(|| 5).unwrap().wait().1.unwrap(), 5);
}

/// The buffer stays valid, whoever is dropped first.
fn pool_outlived_by_an_mbuf(eal: &Eal, pool: Mempool) {
    let mbuf = frame(&pool, 8);
    drop(pool);
    assert!(Mempool::new(eal, "test", 15).is_err(), "the pool is still there");
    assert_eq!(mbuf.bytes(), [8; 60]);
    drop(mbuf);
    // Such a pool keeps EAL, and with it EAL's files.
    std::fs::remove_dir_all(eal.runtime_directory().unwrap()).unwrap();
}

/// A frame of 60 octets, all `value`.
fn frame(pool: &Mempool, value: u8) -> Mbuf {
    let mut mbuf = pool.allocate().unwrap();
    mbuf.append(60).unwrap().fill(value);
    mbuf
}
