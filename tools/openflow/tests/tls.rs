//! TLS with certificates on both sides.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod host;

use heddle_openflow::client::Client;
use heddle_openflow::controller::{Config, Final, MemoryStore, run};
use heddle_openflow::driver::Settings;
use heddle_openflow::{Tls, TlsFiles};
use host::{Host, LONG, address, connect, until};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;

/// An authority, and a certificate of it for the loopback addresses.
fn files(directory: &Path, name: &str) -> TlsFiles {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.distinguished_name.push(DnType::CommonName, format!("authority of {name}"));
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = ["127.0.0.1", "::1", "localhost"].map(str::to_owned);
    let mut certificate = CertificateParams::new(names).unwrap();
    certificate.distinguished_name.push(DnType::CommonName, name);
    let certificate = certificate.signed_by(&key, &issuer).unwrap();
    let write = |what: &str, text: String| {
        let path = directory.join(format!("{name}-{what}.pem"));
        std::fs::write(&path, text).unwrap();
        path
    };
    TlsFiles {
        certificate: write("certificate", certificate.pem()),
        key: write("key", key.serialize_pem()),
        authority: write("authority", issuer.pem()),
    }
}

#[test]
fn both_sides_show_certificates() {
    let directory = tempfile::tempdir().unwrap();
    let (ours, others) = (files(directory.path(), "ours"), files(directory.path(), "others"));
    let controller = TcpListener::bind("[::1]:0").unwrap();
    let settings = Settings {
        listen: vec![address("tls:127.0.0.1:0")],
        controllers: vec![address(&format!("tls:{}", controller.local_addr().unwrap()))],
        tls: Some(ours.clone()),
        ..Settings::default()
    };
    let host = Host::new(settings, 8);
    let tls = Tls::load(&ours).unwrap();
    let to_switch = format!("tls:{}", host.addresses[0]);
    let mut client = connect(&to_switch, Some(&tls));
    let program = [b"\x7fELF".to_vec(), vec![9; 300_000]].concat();
    client.put_program(3, &program).unwrap();
    assert_eq!(client.program(3).unwrap(), program);
    let mut accepted = Client::accept(controller.accept().unwrap().0, Some(&tls), LONG).unwrap();
    assert_eq!(accepted.programs().unwrap().len(), 1);
    // Who has a certificate of another authority, or none, is not let in.
    let strange = Tls::load(&others).unwrap();
    Client::connect(&address(&to_switch), Some(&strange), LONG).unwrap_err();
    let plain = format!("tcp:{}", host.addresses[0]);
    Client::connect(&address(&plain), None, LONG).unwrap_err();
    until("both are counted", || host.counters().tls_failed == 2);
    client.barrier().unwrap();
    accepted.barrier().unwrap();
}

/// `ovs-ofctl` brings a TLS of its own.
#[test]
fn others_have_the_same_tls() {
    let directory = tempfile::tempdir().unwrap();
    let ours = files(directory.path(), "ours");
    let settings = Settings {
        listen: vec![address("tls:127.0.0.1:0")],
        tls: Some(ours.clone()),
        ..Settings::default()
    };
    let host = Host::new(settings, 8);
    let ask = |key: &Path| {
        Command::new("ovs-ofctl")
            .args(["-O", "OpenFlow13", "--timeout=60", "-c"])
            .arg(&ours.certificate)
            .arg("-p")
            .arg(key)
            .arg("-C")
            .arg(&ours.authority)
            .args(["show", &format!("ssl:{}", host.addresses[0])])
            .output()
            .expect("ovs-ofctl is there: tools/setup --tests installs it")
    };
    let output = ask(&ours.key);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("dpid:0000000000000099"), "{output:?}");
}

#[test]
fn files_that_are_of_no_use_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let good = files(directory.path(), "good");
    let missing = TlsFiles { key: directory.path().join("absent.pem"), ..good.clone() };
    let error = Tls::load(&missing).unwrap_err().to_string();
    assert!(
        error.contains("cannot read a private key in") && error.contains("absent.pem"),
        "{error}"
    );
    let wrong = TlsFiles { authority: good.key.clone(), ..good };
    let error = Tls::load(&wrong).unwrap_err().to_string();
    assert!(error.contains("an authority's certificate"), "{error}");
}

/// To read a pipe that nobody writes to would hold up the switch for ever.
#[test]
fn what_is_no_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let good = files(directory.path(), "good");
    let device = || Path::new("/dev/zero").to_owned();
    for bad in [
        TlsFiles { certificate: device(), ..good.clone() },
        TlsFiles { key: device(), ..good.clone() },
        TlsFiles { authority: device(), ..good.clone() },
    ] {
        let error = Tls::load(&bad).unwrap_err().to_string();
        assert!(error.contains("/dev/zero") && error.contains("no file"), "{error}");
    }
}

#[test]
fn switches_find_their_controller_by_tls() {
    let directory = tempfile::tempdir().unwrap();
    let files = files(directory.path(), "ours");
    let text = format!(
        "gateway = \"192.0.2.1\"\nlisten = [\"tls:127.0.0.1:0\"]\n\
         tls = {{ certificate = {:?}, key = {:?}, authority = {:?} }}\n\
         [[island]]\nname = \"i\"\ndatapath_id = \"99\"\nforwarder = \"127.0.0.1\"\n",
        files.certificate, files.key, files.authority
    );
    let config = Config::parse(&text).unwrap();
    let (stop, show) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let switches = Arc::new(AtomicUsize::new(0));
    let (tell, told) = channel();
    let controller = {
        let (stop, show, switches) = (stop.clone(), show.clone(), switches.clone());
        let ready = move |addresses: &[SocketAddr]| tell.send(addresses[0]).unwrap();
        let shown = move |status: &Final| switches.store(status.switches, Ordering::Relaxed);
        std::thread::spawn(move || {
            run(config, &mut MemoryStore::default(), &stop, &show, ready, shown).unwrap()
        })
    };
    let controllers = vec![address(&format!("tls:{}", told.recv_timeout(LONG).unwrap()))];
    let host = Host::new(Settings { controllers, tls: Some(files), ..Settings::default() }, 8);
    until("the switch is set up", || {
        show.store(true, Ordering::Relaxed);
        switches.load(Ordering::Relaxed) == 1
    });
    drop(host);
    stop.store(true, Ordering::Relaxed);
    assert_eq!(controller.join().unwrap().counters.switches_set_up, 1);

    let without =
        Config::parse("gateway = \"192.0.2.1\"\nlisten = [\"tls:127.0.0.1:0\"]\n").unwrap();
    let refusal = run(without, &mut MemoryStore::default(), &stop, &show, |_| {}, |_| {});
    assert!(refusal.unwrap_err().to_string().contains("needs certificates"));
}
