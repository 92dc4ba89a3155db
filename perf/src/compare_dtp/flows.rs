//! Ten thousand flows at a time over one endpoint of a server, which is one thread.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use heddle_core::dtp::modern::{Identity, Pattern, public_key};
use heddle_dtp::asynchronous::{DtpListener, DtpStream};
use heddle_dtp::{Connector, Settings, Trust};
use heddle_testbed::shutdown::Shutdown;
use miette::{IntoDiagnostic, WrapErr, miette};
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::report::Bar;

/// Both ends know it: nothing is protected here.
const KEY: [u8; 32] = [6; 32];

/// Octets of the buffers of a flow, each way.
const BUFFER: usize = 16 << 10;

/// Threads that open flows.
const OPENERS: usize = 32;

/// For how long octets are counted.
const COUNTED: Duration = Duration::from_secs(20);

/// How even the flows should be (Jain's index: 1 when all are alike).
const LEAST_INDEX: f64 = 0.95;

/// What the flows got.
#[derive(Clone, Debug, Serialize)]
pub struct Flows {
    pub flows: usize,
    pub seconds: f64,
    pub mbit_per_s: f64,
    /// Octets of the flow that got the least and of the one that got the most.
    pub least_octets: u64,
    pub most_octets: u64,
    pub jain_index: f64,
}

/// Jain's index of fairness: (sum of x)^2 / (n x sum of x^2).
fn jain(values: &[u64]) -> f64 {
    let sum: f64 = values.iter().map(|&value| value as f64).sum();
    let squares: f64 = values.iter().map(|&value| (value as f64).powi(2)).sum();
    if squares == 0.0 { 0.0 } else { sum * sum / (values.len() as f64 * squares) }
}

fn settings(flows: usize) -> Settings {
    Settings {
        flows: flows + 256,
        actives: flows + 256,
        buffer: BUFFER,
        flows_of_address: u16::MAX,
        ..Settings::default()
    }
}

/// Opens the flows, lets all of them send as much as they can, and counts what the server reads of each.
pub fn measure(flows: usize, shutdown: &Shutdown) -> miette::Result<(Flows, Vec<Bar>)> {
    println!("\n{flows} flows at a time over one thread of a server, uploads over loopback");
    let counts: Arc<Vec<AtomicU64>> = Arc::new((0..flows).map(|_| AtomicU64::new(0)).collect());
    let stop = Arc::<AtomicBool>::default();
    let server_settings = Settings {
        identity: Identity { private: Some(KEY), server: None, pre_shared: None },
        patterns: vec![Pattern::KnownServer],
        ..settings(flows)
    };
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = heddle_dtp::DtpListener::bind(any, &server_settings).into_diagnostic()?;
    let address = listener.local_addr();
    let server = std::thread::spawn({
        let (counts, stop) = (Arc::clone(&counts), Arc::clone(&stop));
        move || serve(DtpListener::new(listener), &counts, &stop)
    });
    let connector = Connector::with_settings(Trust::Key(public_key(&KEY)), &settings(flows))
        .into_diagnostic()?;
    let streams = open(&connector, address, flows, shutdown)?;
    let client = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || send(streams, &stop)
    });
    // Until the windows have found their size.
    shutdown.sleep(Duration::from_secs(5)).into_diagnostic()?;
    let read = || counts.iter().map(|count| count.load(Ordering::Relaxed));
    let (before, begin) = (read().collect::<Vec<u64>>(), Instant::now());
    shutdown.sleep(COUNTED).into_diagnostic()?;
    let got: Vec<u64> = read().zip(&before).map(|(after, before)| after - before).collect();
    let seconds = begin.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    for (who, thread) in [("server", server), ("client", client)] {
        thread
            .join()
            .map_err(|_| miette!("the {who} has panicked"))?
            .into_diagnostic()
            .wrap_err(who)?;
    }
    let result = Flows {
        flows,
        seconds,
        mbit_per_s: got.iter().sum::<u64>() as f64 * 8.0 / seconds / 1e6,
        least_octets: got.iter().copied().min().unwrap_or(0),
        most_octets: got.iter().copied().max().unwrap_or(0),
        jain_index: jain(&got),
    };
    println!(
        "  {:.0} Mbit/s in all; the least of a flow {} octets in {seconds:.0} s, the most {}; Jain's index {:.3}",
        result.mbit_per_s, result.least_octets, result.most_octets, result.jain_index
    );
    let bars = vec![
        Bar::at_least(format!("{flows} flows: Jain's index"), LEAST_INDEX, result.jain_index),
        Bar::at_least(
            format!("{flows} flows: octets of the one that got the least"),
            1.0,
            result.least_octets as f64,
        ),
    ];
    Ok((result, bars))
}

fn open(
    connector: &Connector,
    address: SocketAddr,
    flows: usize,
    shutdown: &Shutdown,
) -> miette::Result<Vec<DtpStream>> {
    let begin = Instant::now();
    let open_some = |count: usize| -> io::Result<Vec<DtpStream>> {
        let mut streams = Vec::new();
        for _ in 0..count {
            if shutdown.is_wanted() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            streams.push(DtpStream::new(connector.connect(address)?));
        }
        Ok(streams)
    };
    let streams = std::thread::scope(|scope| {
        let open_some = &open_some;
        let threads: Vec<_> = (0..OPENERS)
            .map(|opener| {
                let count = flows / OPENERS + usize::from(opener < flows % OPENERS);
                scope.spawn(move || open_some(count))
            })
            .collect();
        let mut streams = Vec::new();
        for thread in threads {
            streams.extend(
                thread.join().map_err(|_| miette!("an opener has panicked"))?.into_diagnostic()?,
            );
        }
        Ok::<_, miette::Report>(streams)
    })?;
    println!("  opened in {:.1} s", begin.elapsed().as_secs_f64());
    Ok(streams)
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Reads whatever comes, and counts it by flow.
fn serve(listener: DtpListener, counts: &Arc<Vec<AtomicU64>>, stop: &AtomicBool) -> io::Result<()> {
    runtime()?.block_on(async {
        let accept = async {
            for flow in 0..counts.len() {
                let (mut stream, _) = listener.accept().await?;
                let counts = Arc::clone(counts);
                tokio::spawn(async move {
                    let mut buffer = vec![0; BUFFER];
                    while let Ok(octets @ 1..) = stream.read(&mut buffer).await {
                        if let Some(count) = counts.get(flow) {
                            count.fetch_add(octets as u64, Ordering::Relaxed);
                        }
                    }
                });
            }
            std::future::pending::<io::Result<()>>().await
        };
        tokio::select! {
            result = accept => result,
            () = stopped(stop) => Ok(()),
        }
    })
}

/// Writes on all streams as much as they take.
fn send(streams: Vec<DtpStream>, stop: &AtomicBool) -> io::Result<()> {
    runtime()?.block_on(async {
        for mut stream in streams {
            tokio::spawn(async move {
                let octets = vec![0x2a; BUFFER];
                while stream.write_all(&octets).await.is_ok() {}
            });
        }
        stopped(stop).await;
        Ok(())
    })
}

async fn stopped(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::jain;

    #[test]
    fn the_index_is_jains() {
        assert!((jain(&[5, 5, 5]) - 1.0).abs() < 1e-12);
        assert!((jain(&[1, 0, 0, 0]) - 0.25).abs() < 1e-12);
        assert_eq!(jain(&[0, 0]), 0.0);
    }
}
