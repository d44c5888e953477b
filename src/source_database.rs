//! What a PostgreSQL source says of itself: its clock, its tables, its slot. For `check` and
//! `init --connect`.
//!
//! Invariant: it reads the catalogue alone, never a row, and the session is read-only.
//!
//! It cannot speak TLS, and knows PostgreSQL alone.

use crate::error::Error;
use crate::postgres_session::Session;
use crate::sink::postgres::catalogue::sql_name;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio_postgres::Row;

const SERVER: &str = "
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, pg_is_in_recovery(),
           current_setting('wal_level')";

const TABLE: &str = "
    SELECT c.oid, c.relreplident::text FROM pg_class c
     WHERE c.oid = to_regclass($1) AND c.relkind IN ('r', 'p')";

/// A value of a column that can be stored outside of its row need not come with a change.
const COLUMNS: &str = "
    SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull,
           a.attgenerated <> '', a.attstorage IN ('x', 'e'), a.atttypid = 'numeric'::regtype
      FROM pg_attribute a
     WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped
     ORDER BY a.attnum";

const KEY: &str = "
    SELECT a.attname::text
      FROM pg_index i
     CROSS JOIN unnest(i.indkey) WITH ORDINALITY AS k(attnum, place)
      JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
     WHERE i.indrelid = $1 AND i.indisprimary
     ORDER BY k.place";

const PUBLICATIONS: &str = "
    SELECT p.pubname::text FROM pg_publication p
     WHERE EXISTS (SELECT 1 FROM pg_get_publication_tables(p.pubname) t WHERE t.relid = $1)
     ORDER BY 1";

const SLOT: &str = "
    SELECT active, coalesce(wal_status, ''), coalesce(pg_wal_lsn_diff(
           CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
                ELSE pg_current_wal_lsn() END, confirmed_flush_lsn), 0)::bigint
      FROM pg_replication_slots WHERE slot_name = $1";

/// The server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Host, port and database.
    pub name: String,
    /// Its clock, ms since 1970.
    pub now_ms: i64,
    /// This machine's clock when it was asked, ms since 1970.
    pub asked_ms: i64,
    /// Whether it is a standby.
    pub standby: bool,
    /// `wal_level`.
    pub wal_level: String,
}

/// A table of the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceTable {
    /// REPLICA IDENTITY: `d`efault, `f`ull, `n`othing, `i`ndex.
    pub identity: char,
    /// Columns, in order.
    pub columns: Vec<SourceColumn>,
    /// Columns of the primary key, in its order.
    pub key: Vec<String>,
    /// Publications that have it.
    pub publications: Vec<String>,
}

/// A column of the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceColumn {
    /// Its name.
    pub name: String,
    /// Its type, with length or precision.
    pub type_name: String,
    /// Whether it is NOT NULL.
    pub not_null: bool,
    /// Whether the database computes it.
    pub generated: bool,
    /// Whether a value may be stored outside of the row, and so be missing from a change.
    pub large: bool,
    /// Whether it is numeric.
    pub decimal: bool,
}

/// A replication slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Whether somebody streams from it.
    pub active: bool,
    /// `wal_status`: reserved, extended, unreserved, lost.
    pub wal_status: String,
    /// Bytes of log that it holds back.
    pub behind_bytes: i64,
}

/// A session.
pub struct SourceDatabase(Session);

impl SourceDatabase {
    /// Connects to `url`, which setting `setting` holds.
    ///
    /// # Errors
    /// Of usage: not a URL of PostgreSQL, or one that asks for TLS. Failed: it cannot be reached.
    pub fn open(setting: &'static str, url: &str) -> Result<SourceDatabase, Error> {
        Session::open(setting, url, "headwater/check", "").map(SourceDatabase)
    }

    /// Its clock and kind.
    ///
    /// # Errors
    /// Failed: it does not answer.
    pub fn server(&self) -> Result<Server, Error> {
        let before_ms = wall_ms();
        let rows = self.0.query(SERVER, &[])?;
        let row = rows.first().expect("a query without a table has one row");
        Ok(Server {
            name: self.0.name.clone(),
            now_ms: row.get(0),
            asked_ms: before_ms + (wall_ms() - before_ms) / 2,
            standby: row.get(1),
            wal_level: row.get(2),
        })
    }

    /// A table `schema.table`; nothing when there is no such table, or it cannot be seen.
    ///
    /// # Errors
    /// Failed: it does not answer.
    pub fn table(&self, name: &str) -> Result<Option<SourceTable>, Error> {
        let Some(found) = self.0.query(TABLE, &[&sql_name(name)])?.pop() else {
            return Ok(None);
        };
        let oid: u32 = found.get(0);
        let identity: &str = found.get(1);
        let texts = |rows: Vec<Row>| rows.iter().map(|row| row.get(0)).collect();
        Ok(Some(SourceTable {
            identity: identity.chars().next().unwrap_or('d'),
            columns: self.0.query(COLUMNS, &[&oid])?.iter().map(column).collect(),
            key: texts(self.0.query(KEY, &[&oid])?),
            publications: texts(self.0.query(PUBLICATIONS, &[&oid])?),
        }))
    }

    /// A slot; nothing when there is none of that name.
    ///
    /// # Errors
    /// Failed: it does not answer.
    pub fn slot(&self, name: &str) -> Result<Option<Slot>, Error> {
        let rows = self.0.query(SLOT, &[&name])?;
        Ok(rows.first().map(|row| Slot {
            active: row.get(0),
            wal_status: row.get(1),
            behind_bytes: row.get(2),
        }))
    }
}

/// This machine's clock, ms since 1970.
pub fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    // A clock before 1970 is shown as 1970.
    let ms = since.map_or(0, |since| since.as_millis());
    i64::try_from(ms).unwrap_or(i64::MAX)
}

fn column(row: &Row) -> SourceColumn {
    SourceColumn {
        name: row.get(0),
        type_name: row.get(1),
        not_null: row.get(2),
        generated: row.get(3),
        large: row.get(4),
        decimal: row.get(5),
    }
}
