//! Shows one job on two processes of two workers each, with a hostfile: this program starts itself
//! twice, and each of the two does what `headwater run` does.
//!
//! `cargo run --release --example cluster`
//!
//! Rows travel in clear between processes. On loopback addresses no secret is needed; anywhere else
//! `cluster.secret` is, and a private network.

use headwater::cli::{self, Command as Verb};
use headwater::error::Error;
use headwater::topic::END_HEADER;
use headwater::topic::file::{FileTopicWriter, NewRecord, create};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, exit};

const PROCESSES: u32 = 2;
const PARTITIONS: u32 = 4;
const ROWS: u32 = 1000;

const CONFIG: &str = r#"
job = "cluster"
[[table]]
name      = "public.hello"
mutations = "file:mutations"
snapshot  = "file:snapshot"
[sink]
kind = "jsonl"
path = "merged/rows"
"#;

fn main() {
    let child = std::env::args().nth(1).is_some_and(|verb| verb == "run");
    let done = if child { run() } else { parent() };
    exit(done.map_or_else(|error| cli::report(&error), |()| 0));
}

/// One process of the cluster.
fn run() -> Result<(), Error> {
    match cli::parse(std::env::args_os())? {
        Verb::Run(args) => headwater::run::run(&args),
        other => Err(Error::usage(format!("expected `run`, found {other:?}"))),
    }
}

/// Writes topics, configuration and hostfile into a folder, then starts the processes in it.
fn parent() -> Result<(), Error> {
    let folder = std::env::temp_dir().join(format!("headwater-cluster-{}", std::process::id()));
    let failed = |error: std::io::Error| Error::failed(format!("{}: {error}", folder.display()));
    make_topics(&folder)?;
    std::fs::create_dir(folder.join("merged")).map_err(failed)?;
    std::fs::write(folder.join("headwater.toml"), CONFIG).map_err(failed)?;
    // Both are held until both are known, so that they differ.
    let free = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0"));
    let mut hosts = "# process p listens on line p\n".to_owned();
    for listener in free {
        let address = listener.and_then(|l| l.local_addr()).map_err(failed)?;
        hosts += &format!("{address}\n");
    }
    std::fs::write(folder.join("hosts.txt"), hosts).map_err(failed)?;

    let mut children = Vec::new();
    for process in 0..PROCESSES {
        let flags = format!("run --once -w 2 -n {PROCESSES} -p {process} -h hosts.txt");
        println!("headwater {flags}");
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.args(flags.split(' ')).current_dir(&folder);
        children.push(command.spawn().map_err(failed)?);
    }
    let ends: Vec<_> = children.iter_mut().map(Child::wait).collect();
    for (process, end) in ends.into_iter().enumerate() {
        let end = end.map_err(failed)?;
        if !end.success() {
            return Err(Error::failed(format!("process {process} ended with {end}")));
        }
    }
    for entry in std::fs::read_dir(folder.join("merged")).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let rows = std::fs::read_to_string(&path).map_err(failed)?;
        println!("{}: {} lines", path.display(), rows.lines().count());
    }
    Ok(())
}

/// READs of all rows, and a mutation of every tenth.
fn make_topics(folder: &Path) -> Result<(), Error> {
    let source = r#"{"schema":"public","table":"hello"}"#;
    for (name, op, step) in [("mutations", "u", 10), ("snapshot", "r", 1)] {
        let topic = folder.join(name);
        create(&topic, PARTITIONS)?;
        for partition in 0..PARTITIONS {
            let mut writer = FileTopicWriter::open(&topic, partition)?;
            let mine = |id: &u32| id / step % PARTITIONS == partition;
            for id in (0..ROWS).step_by(step as usize).filter(mine) {
                let row = format!(r#"{{"id":{id},"greeting":"{name}"}}"#);
                let value = format!(r#"{{"op":"{op}","after":{row},"source":{source}}}"#);
                writer.append(&NewRecord {
                    key: Some(format!(r#"{{"id":{id}}}"#).as_bytes()),
                    value: Some(value.as_bytes()),
                    ..NewRecord::default()
                })?;
            }
            if name == "snapshot" {
                writer.append(&NewRecord {
                    headers: &[(END_HEADER, Some(b"g1"))],
                    ..NewRecord::default()
                })?;
            }
            writer.flush()?;
        }
    }
    Ok(())
}
