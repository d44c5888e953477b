//! Shows the merge of two folders of `file` topics into JSON lines, without any service. It makes
//! a small input of its own, or takes folders:
//!
//! `cargo run --release --example merge_folders`
//! `cargo run --release --example merge_folders -- --table public.hello --mutations M --snapshot S
//! --out merged`

use clap::Parser;
use headwater::embed::Embedded;
use headwater::error::Error;
use headwater::job::Finish;
use headwater::topic::END_HEADER;
use headwater::topic::file::{FileTopicWriter, NewRecord, create};
use std::path::{Path, PathBuf};

#[derive(Parser)]
struct Flags {
    /// Name of the table, as the records' source block says it
    #[arg(long, default_value = "public.hello")]
    table: String,
    /// Folder with the mutation topic
    #[arg(long, requires = "snapshot")]
    mutations: Option<PathBuf>,
    /// Folder with the snapshot topic
    #[arg(long, requires = "mutations")]
    snapshot: Option<PathBuf>,
    /// Folder of the merged rows [default: a new one]
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Appends a record as Debezium writes it to one of the topic's two partitions.
fn append(topic: &Path, op: &str, id: u32, greeting: &str) -> Result<(), Error> {
    let row = format!(r#"{{"id":{id},"greeting":"{greeting}"}}"#);
    let (before, after) = if op == "d" {
        (&*row, "null")
    } else {
        ("null", &*row)
    };
    let source = r#"{"schema":"public","table":"hello"}"#;
    let value = format!(r#"{{"op":"{op}","before":{before},"after":{after},"source":{source}}}"#);
    FileTopicWriter::open(topic, id % 2)?.append(&NewRecord {
        key: Some(format!(r#"{{"id":{id}}}"#).as_bytes()),
        value: Some(value.as_bytes()),
        ..NewRecord::default()
    })?;
    Ok(())
}

/// Six rows, of which one was changed and one deleted since they were read.
fn make_input(mutations: &Path, snapshot: &Path) -> Result<(), Error> {
    create(mutations, 2)?;
    create(snapshot, 2)?;
    append(mutations, "u", 1, "changed")?;
    append(mutations, "d", 2, "gone")?;
    append(mutations, "c", 7, "new")?;
    for id in 1..=6 {
        append(snapshot, "r", id, &format!("hello {id}"))?;
    }
    for partition in 0..2 {
        FileTopicWriter::open(snapshot, partition)?.append(&NewRecord {
            headers: &[(END_HEADER, Some(b"g1"))],
            ..NewRecord::default()
        })?;
    }
    Ok(())
}

fn main() -> Result<(), Error> {
    let flags = Flags::parse();
    let own = std::env::temp_dir().join(format!("headwater-merge-{}", std::process::id()));
    let out = flags.out.unwrap_or_else(|| own.join("merged"));
    let (mutations, snapshot) = match (flags.mutations, flags.snapshot) {
        (Some(mutations), Some(snapshot)) => (mutations, snapshot),
        _ => {
            let topics = (own.join("mutations"), own.join("snapshot"));
            make_input(&topics.0, &topics.1)?;
            topics
        }
    };
    let config = format!(
        "job = \"merge_folders\"
         [[table]]
         name      = {:?}
         mutations = {:?}
         snapshot  = {:?}
         [sink]
         kind = \"jsonl\"
         path = {:?}
         [quarantine]
         path = {:?}
         [checkpoint]
         store = {:?}",
        flags.table,
        format!("file:{}", mutations.display()),
        format!("file:{}", snapshot.display()),
        out.join("rows"),
        out.join("quarantine"),
        format!("file:{}", out.join("state").display()),
    );
    // Folders of others may lack end-of-snapshot records; the summary then says `assumed`.
    let job = Embedded::new(config).workers(2);
    let summary = job.finish(Finish::Idle { idle_ms: 2000 }).run()?;
    println!("{}", summary.table());
    print_rows(&out)
}

/// Prints the files of merged rows; the last line of a key counts.
fn print_rows(out: &Path) -> Result<(), Error> {
    let unread = |error| Error::failed(format!("{}: {error}", out.display()));
    for entry in std::fs::read_dir(out).map_err(unread)? {
        let path = entry.map_err(unread)?.path();
        if path.extension().is_some_and(|end| end == "jsonl") {
            let lines = std::fs::read_to_string(&path).map_err(unread)?;
            print!("{}:\n{lines}", path.display());
        }
    }
    Ok(())
}
