//! Settings that are one of a few words.
//!
//! What the words do is decided where they are used; nothing is decided here.

use super::section::choice;

choice! {
    /// Which markers are kept.
    pub enum KeepMarkers {
        /// Every marker that an open generation may need.
        UntilReady = "until_ready",
        /// Each for `ttl` after its key's last mutation.
        Ttl = "ttl",
    }
}

choice! {
    /// What becomes of a READ whose marker may have been forgotten.
    pub enum OnForgotten {
        /// To the quarantine output, with its reason.
        Quarantine = "quarantine",
        /// The job stops.
        Fail = "fail",
        /// It is emitted; the generation is unsafe all the same.
        Emit = "emit",
    }
}

choice! {
    /// Where merged rows go.
    pub enum SinkKind {
        /// A SQLite file.
        Sqlite = "sqlite",
        /// PostgreSQL.
        Postgres = "postgres",
        /// A Kafka topic.
        Kafka = "kafka",
        /// Files of JSON lines.
        Jsonl = "jsonl",
        /// Nowhere.
        Null = "null",
    }
}

choice! {
    /// Which server the snapshot connector reads.
    pub enum SnapshotFrom {
        /// The one that takes writes.
        Primary = "primary",
        /// A standby, which may lag.
        Replica = "replica",
    }
}

choice! {
    /// What is done with a target that already holds rows.
    pub enum TargetNotEmpty {
        /// The job does not start: rows whose DELETE nobody saw would stay.
        Refuse = "refuse",
        /// It starts.
        Accept = "accept",
    }
}

choice! {
    /// What is done about a placeholder of an unchanged TOAST column.
    pub enum Unavailable {
        /// The job stops.
        Refuse = "refuse",
        /// It is passed on as it came.
        Pass = "pass",
    }
}

choice! {
    /// What is done about columns that the target lacks.
    pub enum UnknownColumns {
        /// The job stops and names them.
        Refuse = "refuse",
        /// They are left out.
        Drop = "drop",
    }
}

choice! {
    /// What is done about unique constraints of the target beyond its key.
    pub enum UniqueConstraints {
        /// The job does not start.
        Refuse = "refuse",
        /// Everything is written over one connection.
        OneConnection = "one_connection",
    }
}

choice! {
    /// How keys or values are framed.
    pub enum Framing {
        /// Found out for each record: `schema` and `payload`, or bare.
        Auto = "auto",
        /// Never framed: for a table that has exactly the columns `schema` and `payload`.
        Bare = "bare",
    }
}

choice! {
    /// What is done about rows of tables that are not configured, on a topic of one table.
    pub enum OtherTables {
        /// The job stops: a router may have renamed the topic.
        Refuse = "refuse",
        /// They are counted and left out.
        Ignore = "ignore",
    }
}

choice! {
    /// What a record with a key and an empty value (zero bytes, not null) is.
    pub enum EmptyValue {
        /// A record that cannot be decoded.
        Error = "error",
        /// A tombstone.
        Tombstone = "tombstone",
    }
}

choice! {
    /// What is done about a mutation that cannot be decoded.
    pub enum OnUndecodable {
        /// The job stops and names topic, partition and offset. Skipping a mutation would let a
        /// stale READ through.
        Fail = "fail",
        /// It is set aside, its key is poisoned, and no generation of its table is ready before a
        /// person has accepted that.
        DeadLetter = "dead_letter",
    }
}

choice! {
    /// What is done about a row that the target refuses.
    pub enum OnError {
        /// The job stops and names topic, partition and offset.
        Fail = "fail",
    }
}

choice! {
    /// How it is known that the snapshot has delivered all its READs; strongest first.
    pub enum SourceFinished {
        /// The offsets of the snapshot connector.
        ConnectOffsets = "connect_offsets",
        /// Its end in the topic of all READs.
        Ordered = "ordered",
        /// As many READs as it says it scanned.
        Counted = "counted",
        /// A person or an end-of-snapshot record said so.
        OperatorSaid = "operator_said",
        /// Nothing came for a while.
        Quiet = "quiet",
    }
}

choice! {
    /// How it is known that the live connector is past the snapshot; strongest first.
    pub enum CaughtUp {
        /// Its committed offset.
        LiveOffsets = "live_offsets",
        /// Each partition has delivered a newer record.
        Delivered = "delivered",
        /// A newer record was seen anywhere.
        Seen = "seen",
        /// It is not known.
        Unproven = "unproven",
    }
}
