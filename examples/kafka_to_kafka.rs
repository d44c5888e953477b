//! Shows the merge of two Kafka topics into a third, an upsert topic: the value of a live row, a
//! tombstone for a deleted one. All three must be there; the snapshot topic must have its
//! end-of-snapshot record in each partition, and nobody may write to them any more.
//!
//! `cargo run --release --example kafka_to_kafka -- --brokers 127.0.0.1:9092
//! --mutations app.public.hello --snapshot snap_g1.public.hello --target merged.public.hello`

use clap::Parser;
use headwater::embed::Embedded;
use headwater::error::Error;
use std::path::PathBuf;

#[derive(Parser)]
struct Flags {
    /// `bootstrap.servers`
    #[arg(long, default_value = "127.0.0.1:9092")]
    brokers: String,
    /// Name of the table, as the records' source block says it
    #[arg(long, default_value = "public.hello")]
    table: String,
    /// The shared topic of live mutations
    #[arg(long, default_value = "app.public.hello")]
    mutations: String,
    /// The private topic of READs
    #[arg(long, default_value = "snap_g1.public.hello")]
    snapshot: String,
    /// The topic to write; should have `cleanup.policy=compact`
    #[arg(long, default_value = "merged.public.hello")]
    target: String,
    /// Folder for checkpoints and for the quarantine
    #[arg(long, default_value = "kafka_to_kafka")]
    state: PathBuf,
}

fn main() {
    let flags = Flags::parse();
    match merge(&flags) {
        Ok(()) => println!("merged into {}", flags.target),
        Err(error) => {
            eprintln!("error: {error}");
            std::process::exit(error.kind.exit_code());
        }
    }
}

fn merge(flags: &Flags) -> Result<(), Error> {
    let config = format!(
        "job = \"kafka_to_kafka\"
         [kafka]
         \"bootstrap.servers\" = {:?}
         [[table]]
         name      = {:?}
         mutations = {:?}
         snapshot  = {:?}
         [sink]
         kind  = \"kafka\"
         topic = {:?}
         [quarantine]
         path = {:?}
         [promote]
         # Nobody writes to the topics any more: what they hold is all there is.
         caught_up = \"unproven\"
         [checkpoint]
         store = {:?}",
        flags.brokers,
        flags.table,
        flags.mutations,
        flags.snapshot,
        flags.target,
        flags.state.join("quarantine"),
        format!("file:{}", flags.state.display()),
    );
    let summary = Embedded::new(config).workers(2).run()?;
    println!("{}", summary.table());
    Ok(())
}
