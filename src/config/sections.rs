//! The sections of `headwater.toml`: every key, its type, its default and its comment.
//!
//! Source: experience.md's sample, "The first hour". A key marked `Later` is read and checked for
//! its type, and whoever sets it is told that it does nothing yet.

use super::choices::{
    CaughtUp, EmptyValue, Framing, KeepMarkers, OnError, OnForgotten, OnUndecodable, OtherTables,
    SinkKind, SnapshotFrom, SourceFinished, TargetNotEmpty, Unavailable, UniqueConstraints,
    UnknownColumns,
};
use super::secret::Secret;
use super::section::section;
use super::tree::{Node, Tree};
use super::units::ByteSize;
use super::value::{Fault, Properties, Value};
use crate::table::Table;
use crate::topic::Start;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

section! {
    /// The job.
    pub struct JobConfig {
        /// Names the job; one job = one rebuild target.
        job: String = "headwater".to_owned(), Built;
    }
}

section! {
    /// One for each table; topics may be shared by tables. A topic is a Kafka name or `file:PATH`.
    pub struct TableConfig {
        /// `schema.table`, as the envelope's source block says it.
        name: String = String::new(), Required;
        /// The shared topic of live mutations.
        mutations: String = String::new(), Required;
        /// The private topic of READs, of this one rebuild.
        snapshot: String = String::new(), Required;
        /// The key columns; by default those of the record key.
        key: Option<Vec<String>> = None, Built;
    }
}

impl TableConfig {
    /// The table as the job sees it.
    pub fn table(&self) -> Table {
        Table {
            name: self.name.clone(),
            mutations: self.mutations.clone(),
            snapshot: self.snapshot.clone(),
            key: self.key.clone(),
        }
    }
}

section! {
    /// Where mutations are read from, and what lets readiness be proven instead of declared.
    pub struct SourceConfig {
        /// Where each mutation topic is read from: "beginning", or a time (which must be
        /// at or before the snapshot's start minus `retention.start_margin`).
        start: Start = Start::Beginning, Built;
        /// Exact first offsets instead, for some topics: one for each partition, in order.
        start_offsets: BTreeMap<String, Vec<u64>> = BTreeMap::new(), Built;
        /// Which server the snapshot reads: "primary", or "replica", a standby.
        snapshot_from: SnapshotFrom = SnapshotFrom::Primary, Built;
        /// With "replica": how far it may lag; added to `retention.start_margin`.
        replica_lag_max: Duration = Duration::ZERO, Built;
        /// Debezium's notification topic of the snapshot connector.
        notifications: Option<String> = None, Built;
        /// The heartbeat topic of the live connector.
        heartbeat: Option<String> = None, Built;
        /// Kafka Connect, asked for the offsets of its connectors.
        connect: Option<ConnectConfig> = None, Built;
        /// The source database, `postgres://…` or an SQLite file: `headwater verify` compares its
        /// rows with the target. PostgreSQL is also asked for its position, which the live
        /// connector must pass.
        database: Option<Secret> = None, Built;
        /// What the clocks of source, connectors and this machine may differ by.
        clock_skew_max: Duration = Duration::from_secs(5), Built;
        /// "quiet": how long the snapshot topic must stand still to count as whole.
        end_settle: Duration = Duration::from_secs(30), Built;
        /// "seen": how long is waited behind the first sign that the cutoff has been passed.
        live_settle: Duration = Duration::from_secs(5), Built;
    }
}

section! {
    /// Kafka Connect's REST interface.
    pub struct ConnectConfig {
        /// Its address.
        url: Option<Secret> = None, Built;
        /// The name of the live connector.
        live: Option<String> = None, Built;
        /// The name of the snapshot connector.
        snapshot: Option<String> = None, Built;
    }
}

section! {
    /// How long it is remembered which keys have changed.
    pub struct RetentionConfig {
        /// "until_ready" keeps what an open generation needs; "ttl" is the classic rule.
        keep_markers: KeepMarkers = KeepMarkers::UntilReady, Built;
        /// With "ttl": how long a marker lives after its key's last mutation, in job time.
        ttl: Duration = 3 * DAY, Built;
        /// An alarm when a rebuild is open for longer. A compacted mutation topic must keep DELETEs
        /// (`delete.retention.ms`) for as long.
        rebuild_alarm_after: Duration = 3 * DAY, Built;
        /// How much earlier than its first READ a snapshot is taken to have begun.
        start_margin: Duration = 15 * MINUTE, Built;
        /// Whether a ttl shorter than the budget is refused; else it is warned of.
        require_budget: bool = false, Built;
        /// READs a second that the budget reckons with while none have been measured.
        rows_per_second_min: u64 = 1000, Built;
        /// With no generation open: how late one may be opened after its snapshot began.
        open_late_max: Duration = 60 * MINUTE, Built;
        /// What becomes of a READ that may be stale because its marker was forgotten.
        on_forgotten: OnForgotten = OnForgotten::Quarantine, Built;
    }
}

section! {
    /// Checked at the moment of promotion, not before.
    pub struct PromoteConfig {
        /// connect_offsets > ordered > counted > operator_said > quiet
        source_finished: SourceFinished = SourceFinished::Counted, Built;
        /// live_offsets > delivered > seen > unproven. By default "seen"; "unproven" where all
        /// mutation topics are files and nothing of `[source]` tells of the live stream.
        caught_up: Option<CaughtUp> = None, Built;
        /// How far behind the live stream the target may be.
        live_lag_max: Duration = Duration::from_secs(5), Built;
        /// A command that swaps the view or alias. It may be run again with the same
        /// HEADWATER_PROMOTION_ID, and must then do the same thing.
        hook: Option<Vec<String>> = None, Built;
        /// How long it may take; then it is killed, and the generation is not promoted.
        hook_timeout: Duration = MINUTE, Built;
    }
}

section! {
    /// How records are read.
    pub struct DecodeConfig {
        /// What a record with a key and an empty value (zero bytes, not null) is.
        empty_value: EmptyValue = EmptyValue::Error, Built;
        /// What is done about a mutation that cannot be decoded: "fail", or "dead_letter" (see
        /// `[dead_letter]`).
        on_error: OnUndecodable = OnUndecodable::Fail, Built;
        /// How keys are framed: "auto", or "bare" for keys with columns `schema` and `payload`.
        key_framing: Framing = Framing::Auto, Built;
        /// How values are framed, likewise.
        value_framing: Framing = Framing::Auto, Built;
        /// `schema.table` of the signalling table; its rows are left out.
        signal_table: Option<String> = None, Built;
        /// What is done about rows of tables that are not configured, on a topic of one table.
        other_tables: OtherTables = OtherTables::Refuse, Built;
    }
}

section! {
    /// Where merged rows go. A key that the kind does not have is an error.
    pub struct SinkConfig {
        /// sqlite | postgres | kafka | jsonl | null
        kind: SinkKind = SinkKind::Sqlite, Built;
        /// postgres: where it is, `postgres://user:${PASSWORD}@host/database`.
        url: Option<Secret> = None, Built;
        /// sqlite: the file. jsonl: the folder and the first part of the files' names.
        /// By default JOB.sqlite and JOB.
        path: Option<PathBuf> = None, Built;
        /// kafka: the topic, when there is one table.
        topic: Option<String> = None, Built;
        /// The name of a table (or topic) at the target, by the table's name; by default its own,
        /// for sqlite without its schema.
        names: BTreeMap<String, String> = BTreeMap::new(), Built;
        /// kafka: properties of librdkafka over those of `[kafka]`.
        kafka: Properties = Properties::default(), Built;
        /// kafka: one transaction a flush, which keeps an older run of the job from writing.
        /// `false` is not fenced; it is faster for flushes of less than some thousand rows.
        transactional: bool = true, Built;
        /// sqlite: SQL that is run before the check; with it the file is made.
        setup_sql: Option<String> = None, Built;
        /// Records folded and written at once, at most.
        batch_rows_max: u64 = 10_000, Built;
        /// Bytes of records folded and written at once, about, at most.
        batch_bytes_max: ByteSize = ByteSize(8 << 20), Built;
        /// Connections of each worker; by default 2 for postgres, 1 for kafka.
        connections: Option<u64> = None, Built;
        /// What is done about columns that the target lacks: "refuse" or "drop".
        unknown_columns: UnknownColumns = UnknownColumns::Refuse, Built;
        /// What is done about unique constraints beyond the key: "refuse" or "one_connection".
        unique_constraints: UniqueConstraints = UniqueConstraints::Refuse, Built;
        /// What is done about a row that the target refuses.
        on_error: OnError = OnError::Fail, Built;
        /// Why a sink that is not replay-safe is safe after all.
        replay_unsafe_because: Option<String> = None, Built;
        /// What is done with a target that already holds rows.
        target_not_empty: TargetNotEmpty = TargetNotEmpty::Refuse, Built;
        /// What is done about a placeholder of an unchanged TOAST column.
        unavailable: Unavailable = Unavailable::Refuse, Built;
    }
}

section! {
    /// Where READs go that may be stale.
    pub struct QuarantineConfig {
        /// jsonl | kafka
        kind: SinkKind = SinkKind::Jsonl, Built;
        /// As `sink.url`.
        url: Option<Secret> = None, Later;
        /// jsonl: the folder of the files; by default JOB.quarantine.
        path: Option<PathBuf> = None, Built;
        /// kafka: a topic of its own; a record's key says where its READ stands.
        topic: Option<String> = None, Built;
    }
}

section! {
    /// Where mutations go that cannot be decoded, with `decode.on_error = "dead_letter"`.
    pub struct DeadLetterConfig {
        /// jsonl | kafka
        kind: SinkKind = SinkKind::Jsonl, Built;
        /// As `sink.url`.
        url: Option<Secret> = None, Later;
        /// jsonl: the folder of the files; by default JOB.dead_letter.
        path: Option<PathBuf> = None, Built;
        /// kafka: a topic of its own; a record's key says where its mutation stands.
        topic: Option<String> = None, Built;
        /// More that nobody has accepted stop the job: it is no matter of single records then.
        records_max: u64 = 10_000, Built;
    }
}

section! {
    /// The durable state of the job.
    pub struct CheckpointConfig {
        /// `file:PATH`, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX; the
        /// credentials of the last three come from the environment.
        store: String = "file:./state".to_owned(), Built;
        /// How often.
        interval: Duration = Duration::from_secs(10), Built;
        /// How long an instance of the job that no longer says that it lives is waited for.
        lease: Duration = Duration::from_secs(15), Built;
        /// Checkpoints that are kept.
        kept: u64 = 3, Built;
    }
}

section! {
    /// HTTP: status, readiness, metrics, dashboard.
    pub struct ControlConfig {
        /// Address and port; process p of a cluster listens on port + p. Port 0 takes a free one;
        /// "off" has none.
        listen: String = "127.0.0.1:7070".to_owned(), Built;
        /// A file with the token that changes need, and everything on an address that is not
        /// loopback. Open to nobody else (mode 600).
        token_file: Option<PathBuf> = None, Built;
        /// Told of every transition of every generation: a Kafka topic, `file:PATH`, or a webhook,
        /// `http://HOST/PATH`. What is secret in it comes from "${ENV_VAR}".
        events: Option<Secret> = None, Built;
    }
}

section! {
    /// Several processes. Rows travel in clear between them: private network only.
    pub struct ClusterConfig {
        /// The shared secret by which they know each other.
        secret: Option<Secret> = None, Built;
        /// How long a process waits for the others at start.
        deadline: Duration = Duration::from_secs(60), Built;
    }
}

section! {
    /// Memory and speed.
    pub struct LimitsConfig {
        /// Bytes of key and value in flight, for each worker. Bounds the rate: about this in the
        /// time of a tick and a flush.
        inflight_bytes_max: ByteSize = ByteSize(64 << 20), Built;
        /// The part of it that READs may use.
        reads_inflight_bytes_max: ByteSize = ByteSize(16 << 20), Built;
        /// Bytes that are read again after a restart and written at once, so that readers of an SQL
        /// target never see a row go back; beyond it they may until the job has caught up.
        replay_bytes_max: ByteSize = ByteSize(256 << 20), Built;
        /// READs a second of the whole job; by default as fast as they come.
        reads_per_second_max: Option<u64> = None, Built;
        /// Length of a step of logical time, in ms, 1 to 1000.
        tick_ms: u64 = 20, Built;
        /// Markers of the whole job (about 16 bytes each); at it READs wait.
        markers_max: u64 = 200_000_000, Built;
    }
}

/// A section inside a key is written `{ key = value }`.
impl Value for ConnectConfig {
    fn expected() -> String {
        "a table with `url`, `live`, `snapshot`".to_owned()
    }

    fn example() -> String {
        "{ url = \"http://connect:8083\", live = \"app\", snapshot = \"snap_g1\" }".to_owned()
    }

    fn read(node: &Node, key: &str) -> Result<Self, Fault> {
        let Tree::Table(entries) = &node.tree else {
            return Err(Fault::Mismatch {
                place: node.place.clone(),
                found: node.tree.found(),
            });
        };
        let mut connect = ConnectConfig::default();
        super::read::section(&mut connect, key, entries).map_err(Fault::Told)?;
        Ok(connect)
    }

    fn write(&self) -> Option<String> {
        use super::section::Section;
        let keys = self.keys();
        let items: Vec<String> = keys
            .iter()
            .zip(self.values())
            .filter_map(|(key, value)| value.map(|value| format!("{} = {value}", key.name)))
            .collect();
        Some(format!("{{ {} }}", items.join(", ")))
    }
}
