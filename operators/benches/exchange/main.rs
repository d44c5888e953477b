//! What a record costs on its way to another worker: our container and routed exchange beside
//! `Vec<Record>` as timely serialises it (bincode), the same with `serde_bytes`, and abomonation.
//!
//! Two placements: two workers of one process (typed channels, nothing is serialised) and two
//! processes over loopback, one worker each (the bench starts itself as the second process). Half
//! of the records stay where they are. Prints M records/s a worker, the ratios to ours, and ns a
//! record for encoding and decoding alone.
//!
//! It cannot say anything about a real network. Without `--bench` (as under `cargo test`) it runs a
//! few records to show that it works.

mod codecs;
mod run;

use codecs::{Abomonated, Fixed, Plain, Thin, record};
use headwater_operators::exchange::{RoutedBuilder, routed};
use headwater_operators::record::{RecordRef, Records};
use run::{Placement, coding, in_child, measure};
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::{Exchange, ExchangeCore};
use timely::worker::Worker;

/// The compared forms, ours first.
const CODECS: [&str; 4] = ["records", "bincode", "serde_bytes", "abomonation"];

/// Sends `count` records with values of `N` bytes in the form of `codec`; seconds they took.
fn exchange<const N: usize>(worker: &mut Worker, codec: &str, count: u64) -> f64 {
    match codec {
        "records" => run::exchange::<RoutedBuilder, _, _>(
            worker,
            count,
            routed(),
            |builder, workers| builder.route_to(workers),
            record::<N>,
            |records: &Records| records.iter().map(|r| r.offset ^ touch(r.value)).sum(),
        ),
        "bincode" => run::exchange::<CapacityContainerBuilder<Vec<Plain>>, _, _>(
            worker,
            count,
            Exchange::new(|r: &Plain| (r.fingerprint >> 64) as u64),
            |_, _| {},
            |id| Plain::from(record::<N>(id)),
            |records: &Vec<Plain>| records.iter().map(|r| r.offset ^ touch(&r.value)).sum(),
        ),
        "serde_bytes" => run::exchange::<CapacityContainerBuilder<Vec<Thin>>, _, _>(
            worker,
            count,
            Exchange::new(|r: &Thin| (r.fingerprint >> 64) as u64),
            |_, _| {},
            |id| Thin::from(record::<N>(id)),
            |records: &Vec<Thin>| records.iter().map(|r| r.offset ^ touch(&r.value)).sum(),
        ),
        _ => run::exchange::<CapacityContainerBuilder<Abomonated<N>>, _, _>(
            worker,
            count,
            ExchangeCore::<CapacityContainerBuilder<Abomonated<N>>, _>::new_core(|r: &Fixed<N>| {
                r.high
            }),
            |_, _| {},
            |id| Fixed::<N>::from(record::<N>(id)),
            |records: &Abomonated<N>| records.0.iter().map(|r| r.offset ^ touch(&r.value)).sum(),
        ),
    }
}

fn touch(value: &[u8]) -> u64 {
    u64::from(value[value.len() / 2])
}

fn codings<const N: usize>(count: u64) {
    let records: Vec<RecordRef<'_>> = (0..count).map(record::<N>).collect();
    let sum = |records: &Records| records.iter().map(|r| r.offset ^ touch(r.value)).sum();
    coding(
        CODECS[0],
        &mut Records::default(),
        &records,
        |c, r| c.push(*r),
        sum,
    );
    let sum = |rows: &Vec<Plain>| rows.iter().map(|r| r.offset ^ touch(&r.value)).sum();
    coding(
        CODECS[1],
        &mut Vec::new(),
        &records,
        |c, r| c.push(Plain::from(*r)),
        sum,
    );
    let sum = |rows: &Vec<Thin>| rows.iter().map(|r| r.offset ^ touch(&r.value)).sum();
    coding(
        CODECS[2],
        &mut Vec::new(),
        &records,
        |c, r| c.push(Thin::from(*r)),
        sum,
    );
    let sum = |rows: &Abomonated<N>| rows.0.iter().map(|r| r.offset ^ touch(&r.value)).sum();
    let mut container = Abomonated::default();
    coding(
        CODECS[3],
        &mut container,
        &records,
        |c, r| c.0.push(Fixed::from(*r)),
        sum,
    );
}

fn bench<const N: usize>(count: u64, rounds: usize) {
    println!("\n{N}-byte values, {count} records a worker");
    for placement in [Placement::Workers, Placement::Processes] {
        let mut best = [f64::INFINITY; CODECS.len()];
        // Interleaved, so that a busy moment of the machine meets all of them.
        for _ in 0..rounds {
            for (codec, best) in CODECS.iter().zip(&mut best) {
                let seconds = measure(placement, codec, N, count, move |worker, codec| {
                    exchange::<N>(worker, codec, count)
                });
                *best = best.min(seconds);
            }
        }
        for (codec, seconds) in CODECS.iter().zip(best) {
            let rate = count as f64 / seconds / 1e6;
            let ratio = seconds / best[0];
            println!(
                "  {placement:?} {codec:12} {rate:6.2} M records/s a worker, ours is {ratio:.2}x"
            );
        }
    }
    codings::<N>(400.min(count));
}

fn main() {
    if let Some(child) = in_child() {
        let (value_bytes, count) = (child.value_bytes, child.count);
        let run = move |worker: &mut Worker, codec: &str| match value_bytes {
            100 => exchange::<100>(worker, codec, count),
            _ => exchange::<500>(worker, codec, count),
        };
        return run::child(&child, run);
    }
    let bench_run = std::env::args().any(|arg| arg == "--bench");
    let (count, rounds) = if bench_run {
        (1_000_000, 3)
    } else {
        (2_000, 1)
    };
    bench::<100>(count, rounds);
    bench::<500>(count / 3, rounds);
}
