//! Failures are sentences, and leave things as they were. One EAL, so one test.

mod common;

use dpdk::{Eal, Mempool, Port, PortConfig};

#[test]
fn failures_say_what_and_why() {
    let refused = Eal::init(&common::config(&[1000])).unwrap_err().to_string();
    assert!(refused.contains("CPU 1000"), "{refused}");
    let eal = Eal::init(&common::config(&[common::first_cpu()])).unwrap();
    let again = Eal::init(&common::config(&[0])).unwrap_err().to_string();
    assert!(again.contains("only once"), "{again}");
    assert!(eal.version().starts_with("DPDK "));
    let directory = eal.runtime_directory().unwrap().to_owned();
    assert!(directory.exists());

    let error = Mempool::new(&eal, "huge", 10_000_000).unwrap_err();
    assert_eq!(error.errno(), 12, "{error}");
    assert!(error.to_string().contains("Cannot allocate memory"), "{error}");
    let pool = Mempool::new(&eal, "pool", 255).unwrap();
    let taken = Mempool::new(&eal, "pool", 255).unwrap_err().to_string();
    assert!(taken.contains("The name is taken"), "{taken}");
    assert!(Mempool::new(&eal, "nul\0", 255).is_err());
    assert!(Mempool::new(&eal, &"long".repeat(20), 255).is_err());

    let error = Port::virtual_device(&eal, "net_nosuch0", "").unwrap_err().to_string();
    assert!(error.contains("net_nosuch0"), "{error}");
    let error = Port::virtual_device(&eal, "net_af_packet0", "iface=nosuch").unwrap_err();
    assert!(error.to_string().contains("network namespace"), "{error}");
    let error = Port::probed_at_start(&eal, "0000:ff:00.0").unwrap_err().to_string();
    assert!(error.contains("there is no port"), "{error}");

    let null = Port::virtual_device(&eal, "net_null0", "").unwrap();
    let taken = Port::virtual_device(&eal, "net_null0", "").unwrap_err().to_string();
    assert!(taken.contains("The name is taken"), "{taken}");
    let busy = Port::probed_at_start(&eal, "net_null0").unwrap_err().to_string();
    assert!(busy.contains("in use"), "{busy}");
    let config = PortConfig { tx_queues: 60_000, ..PortConfig::default() };
    let error = null.configure(&config, &pool).unwrap_err().to_string();
    assert!(error.contains("60000 were asked for"), "{error}");
    // The refused port was closed, so its name is free.
    drop(Port::virtual_device(&eal, "net_null0", "").unwrap());

    drop(pool);
    drop(eal);
    assert!(!directory.exists(), "EAL's files go when EAL goes");
}
