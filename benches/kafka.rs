//! Records/s of `headwater run --once` from Kafka to the null sink, beside bare readers.
//!
//! `cargo bench --profile ci --bench kafka` (`-- --mutations N --reads N --rounds N`; without
//! `--bench`, as in `cargo test --benches`, a small smoke run).
//!
//! Isolated is what Headwater costs on top of librdkafka: within one run, on one broker and the
//! same topics (4 + 4 partitions, uncompressed, bare Debezium JSON of about 500 bytes with the
//! key), rounds alternate between `poll` (rdkafka's own call), `queue` (Headwater's reader), both
//! with 2 clients of 4 partitions on 2 threads copying each record's bytes, and the binary of the
//! same profile with 2 workers. The clock of the binary runs from start to exit: broker connection,
//! generation and completion are in it, so small sizes say nothing.
//!
//! CPU a record counts the reader's process alone, not the broker's. Numbers of two runs on a busy
//! machine are not to be compared; ratios of one run are. `--hold` keeps the broker until a line
//! comes on stdin, so that a profiler can run the binary on the printed configuration.

#[path = "kafka/bare.rs"]
mod bare;
#[path = "kafka/fill.rs"]
mod fill;
#[path = "../tests/support/kafka.rs"]
mod kafka;
#[path = "../tests/support/services.rs"]
#[expect(dead_code, reason = "Kafka alone is started here")]
mod services;

use serde_json::Value;
use services::Services;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const MUTATIONS: &str = "bench.mutations";
const SNAPSHOT: &str = "bench.snapshot";
const PARTITIONS: i32 = 4;
/// Clock ticks a second in /proc: fixed on Linux for what it tells programs.
const TICKS_PER_SECOND: f64 = 100.0;

struct Options {
    mutations: u64,
    reads: u64,
    rounds: usize,
    hold: bool,
}

impl Options {
    fn read() -> Self {
        let args: Vec<String> = std::env::args().collect();
        let flag = |name: &str| args.iter().any(|arg| arg == name);
        let number = |name: &str, default: u64| {
            let at = args.iter().position(|arg| arg == name);
            let text = at.map(|at| args.get(at + 1).expect("a number follows the flag"));
            text.map_or(default, |text| text.parse().expect("a whole number"))
        };
        let full = flag("--bench");
        let records = if full { 4_000_000 } else { 20_000 };
        Options {
            mutations: number("--mutations", records),
            reads: number("--reads", records),
            rounds: number("--rounds", if full { 3 } else { 1 }) as usize,
            hold: flag("--hold"),
        }
    }
}

/// CPU seconds of this process and of the children it has waited for.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let (_, after_name) = stat.rsplit_once(')').expect("a name in parentheses");
    let fields = after_name.split_whitespace().skip(11).take(4);
    let ticks: u64 = fields.map(|f| f.parse::<u64>().expect("a number")).sum();
    ticks as f64 / TICKS_PER_SECOND
}

/// What one reading of all records took.
#[derive(Clone, Copy)]
struct Measure {
    seconds: f64,
    cpu_seconds: f64,
}

fn measure<T>(what: impl FnOnce() -> T) -> (Measure, T) {
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let result = what();
    let seconds = start.elapsed().as_secs_f64();
    let cpu_seconds = cpu_seconds() - cpu;
    (
        Measure {
            seconds,
            cpu_seconds,
        },
        result,
    )
}

impl Measure {
    fn print(self, name: &str, records: u64, more: &str) {
        let rate = records as f64 / self.seconds / 1e6;
        let cpu_us = self.cpu_seconds / records as f64 * 1e6;
        eprintln!("  {name:10} {rate:6.3} M records/s  {cpu_us:6.3} us CPU a record{more}");
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Runs the binary to its end and returns its summary.
fn headwater(folder: &Path) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(["run", "--once", "--json", "-w", "2", "-c"])
        .arg(folder.join("headwater.toml"))
        .current_dir(folder)
        .output()
        .expect("cargo built the binary");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "headwater failed: {errors}");
    serde_json::from_slice(&output.stdout).expect("a JSON summary")
}

fn number(summary: &Value, name: &str) -> u64 {
    summary[name].as_u64().unwrap_or(0)
}

/// Nothing is lost on the way: every record has come out or was dropped by its marker.
fn check(summary: &Value, options: &Options) -> String {
    assert_eq!(summary["outcome"], "ready", "{summary}");
    assert_eq!(number(summary, "mutations_emitted"), options.mutations);
    let dropped = number(&summary["reads_dropped"], "marker");
    assert_eq!(number(summary, "reads_emitted") + dropped, options.reads);
    format!(
        "  {} markers of {} bytes, {dropped} READs dropped",
        number(summary, "markers"),
        summary["bytes_per_marker"]
    )
}

fn write_config(folder: &Path, servers: &str) {
    let text = format!(
        "job = \"bench\"\n[kafka]\n\"bootstrap.servers\" = \"{servers}\"\n\
         [[table]]\nname = \"public.hello\"\nmutations = \"{MUTATIONS}\"\n\
         snapshot = \"{SNAPSHOT}\"\n[sink]\nkind = \"null\"\n"
    );
    std::fs::write(folder.join("headwater.toml"), text).expect("the folder can be written");
}

fn main() {
    let options = Options::read();
    let services = Services::start_kafka();
    let servers = services.bootstrap_servers();
    let kafka = kafka::Kafka::new(&servers);
    let folder = tempfile::tempdir().expect("a folder");
    write_config(folder.path(), &servers);
    kafka.create_topics(&[(MUTATIONS, PARTITIONS), (SNAPSHOT, PARTITIONS)]);
    let start = Instant::now();
    let bytes = fill::fill(&servers, options.mutations, options.reads);
    let records = options.mutations + options.reads;
    let written = (kafka.count(MUTATIONS) + kafka.count(SNAPSHOT)) as u64;
    assert_eq!(written, records, "all records were written");
    kafka.end_snapshot(SNAPSHOT, "g1");
    eprintln!(
        "{} mutations + {} READs of {} bytes written in {:.0} s",
        options.mutations,
        options.reads,
        bytes / records,
        start.elapsed().as_secs_f64()
    );
    let mut all = [Vec::new(), Vec::new(), Vec::new()];
    for round in 1..=options.rounds {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        eprintln!("round {round} (load {})", load.trim());
        let (poll, read) = measure(|| bare::poll(&servers));
        assert_eq!(read, bytes, "the bytes that were written");
        poll.print("poll", records, "");
        let (queue, read) = measure(|| bare::queue(&servers));
        assert_eq!(read, bytes, "the bytes that were written");
        queue.print("queue", records, "");
        let (run, summary) = measure(|| headwater(folder.path()));
        run.print("headwater", records, &check(&summary, &options));
        for (list, one) in all.iter_mut().zip([poll, queue, run]) {
            list.push(one);
        }
    }
    let rate = |of: &[Measure]| median(of.iter().map(|m| 1.0 / m.seconds));
    let cpu = |of: &[Measure]| median(of.iter().map(|m| m.cpu_seconds));
    let [poll, queue, run] = &all;
    for (name, bare) in [("poll", poll), ("queue", queue)] {
        let rates = rate(run) / rate(bare);
        let cpus = cpu(run) / cpu(bare);
        eprintln!("headwater / {name}: records/s x{rates:.2}, CPU a record x{cpus:.2}");
    }
    if options.hold {
        let config = folder.path().join("headwater.toml");
        eprintln!("held: {}", config.display());
        let _ = std::io::stdin().read_line(&mut String::new());
    }
}
