//! One pass over a payload: the members of Debezium's envelope, and what else it could be.
//!
//! It says what stands there, not what it means: the role of the topic decides that. All members
//! are walked, so a payload that is damaged anywhere is found.

use super::scan::{Broken, Scanner};
use super::shape::Shape;
use super::text::quoted;

/// What is read of a source block.
const SOURCE: [&[u8]; 5] = [b"schema", b"table", b"db", b"snapshot", b"ts_ms"];

/// The `source` block, as far as it is read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Source<'a> {
    /// Raw `schema`, `table`, `db`: the inside of the strings.
    pub(crate) schema: Option<&'a [u8]>,
    /// See `schema`.
    pub(crate) table: Option<&'a [u8]>,
    /// See `schema`.
    pub(crate) db: Option<&'a [u8]>,
    /// Raw `snapshot`.
    pub(crate) snapshot: Option<&'a [u8]>,
    /// Raw `ts_ms`.
    pub(crate) ts_ms: Option<&'a [u8]>,
}

/// What is known of a payload after one pass. Raw values, as they stand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Payload<'a> {
    /// `op`.
    pub(crate) op: Option<&'a [u8]>,
    /// `before`, which may be null.
    pub(crate) before: Option<&'a [u8]>,
    /// `after`, which may be null.
    pub(crate) after: Option<&'a [u8]>,
    /// `source`, when it is an object.
    pub(crate) source: Option<Source<'a>>,
    /// `ts_ms`.
    pub(crate) ts_ms: Option<&'a [u8]>,
    /// The helper members of a flattened row.
    pub(crate) flat: Flat<'a>,
    /// Bits of [`signs`].
    pub(crate) signs: u32,
    /// How many members there are.
    pub(crate) members: usize,
}

/// What `ExtractNewRecordState` adds to a flattened row (wire.md W12).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flat<'a> {
    /// `__deleted`.
    pub(crate) deleted: Option<&'a [u8]>,
    /// `__op`.
    pub(crate) op: Option<&'a [u8]>,
    /// `__source_snapshot`.
    pub(crate) snapshot: Option<&'a [u8]>,
    /// `__source_ts_ms`, or `__ts_ms`.
    pub(crate) ts_ms: Option<&'a [u8]>,
    /// `__source_schema` or `__schema`.
    pub(crate) schema: Option<&'a [u8]>,
    /// `__source_table` or `__table`.
    pub(crate) table: Option<&'a [u8]>,
}

/// Members that tell records apart which are no rows.
pub(crate) mod signs {
    pub(crate) const STATUS: u32 = 1;
    pub(crate) const ID: u32 = 1 << 1;
    pub(crate) const EVENT_COUNT: u32 = 1 << 2;
    pub(crate) const DATA_COLLECTIONS: u32 = 1 << 3;
    pub(crate) const DDL: u32 = 1 << 4;
    pub(crate) const TABLE_CHANGES: u32 = 1 << 5;
    pub(crate) const AGGREGATE_TYPE: u32 = 1 << 6;
    pub(crate) const TYPE: u32 = 1 << 7;
    pub(crate) const DATA: u32 = 1 << 8;
    pub(crate) const SPECVERSION: u32 = 1 << 9;
    pub(crate) const DATABASE: u32 = 1 << 10;
    pub(crate) const TABLE: u32 = 1 << 11;
    pub(crate) const IS_DDL: u32 = 1 << 12;

    pub(crate) const TRANSACTION: u32 = STATUS | ID | EVENT_COUNT | DATA_COLLECTIONS;
    pub(crate) const MAXWELL: u32 = DATABASE | TABLE | TYPE | DATA;
}

impl<'a> Payload<'a> {
    /// Reads the object that `scanner` stands before, to its end; `shape` is of its source block.
    pub(crate) fn read(scanner: &mut Scanner<'a>, shape: &mut Shape) -> Result<Self, Broken> {
        let mut payload = Payload::default();
        let mut members = scanner.object()?;
        while let Some(name) = scanner.member(&mut members)? {
            payload.members += 1;
            if name == b"source" && scanner.peek() == b'{' {
                payload.source = Some(Source::read(scanner, shape)?);
                continue;
            }
            let value = scanner.value()?;
            match name {
                b"op" => payload.op = Some(value),
                b"before" => payload.before = Some(value),
                b"after" => payload.after = Some(value),
                b"ts_ms" => payload.ts_ms = Some(value),
                b"transaction" | b"ts_us" | b"ts_ns" => {}
                _ => payload.other(name, value),
            }
        }
        Ok(payload)
    }

    fn other(&mut self, name: &[u8], value: &'a [u8]) {
        self.signs |= match name {
            b"status" => signs::STATUS,
            b"id" => signs::ID,
            b"event_count" => signs::EVENT_COUNT,
            b"data_collections" => signs::DATA_COLLECTIONS,
            b"ddl" => signs::DDL,
            b"tableChanges" => signs::TABLE_CHANGES,
            b"aggregate_type" => signs::AGGREGATE_TYPE,
            b"type" => signs::TYPE,
            b"data" => signs::DATA,
            b"specversion" => signs::SPECVERSION,
            b"database" => signs::DATABASE,
            b"table" => signs::TABLE,
            b"isDdl" => signs::IS_DDL,
            _ => 0,
        };
        if !name.starts_with(b"__") {
            return;
        }
        let flat = &mut self.flat;
        match &name[2..] {
            b"deleted" => flat.deleted = Some(value),
            b"op" => flat.op = Some(value),
            b"source_snapshot" => flat.snapshot = Some(value),
            b"source_ts_ms" | b"ts_ms" => flat.ts_ms = Some(value),
            b"source_schema" | b"schema" => flat.schema = quoted(value),
            b"source_table" | b"table" => flat.table = quoted(value),
            _ => {}
        }
    }

    /// Whether it is an envelope and not a row that has a column `op`: no column is an object with
    /// these names, as a struct column has a schema of its own and JSON columns are text.
    pub(crate) fn is_envelope(&self) -> bool {
        let op_is_text = self.op.is_some_and(|op| op.starts_with(b"\""));
        let object = |raw: Option<&[u8]>| raw.is_some_and(|raw| raw.starts_with(b"{"));
        let both = self.before.is_some() && self.after.is_some();
        op_is_text && (self.source.is_some() || object(self.before) || object(self.after) || both)
    }

    /// Whether all of these members are there.
    pub(crate) fn has(&self, signs: u32) -> bool {
        self.signs & signs == signs
    }
}

impl<'a> Source<'a> {
    fn read(scanner: &mut Scanner<'a>, shape: &mut Shape) -> Result<Self, Broken> {
        let [schema, table, db, snapshot, ts_ms] = shape.read(scanner, &SOURCE)?;
        Ok(Source {
            schema: schema.and_then(quoted),
            table: table.and_then(quoted),
            db: db.and_then(quoted),
            snapshot,
            ts_ms,
        })
    }

    /// Whether the row was read by a snapshot, in all forms of the last ten years (wire.md W1, W4).
    pub(crate) fn is_snapshot(&self) -> bool {
        is_snapshot(self.snapshot)
    }
}

/// Null, absent, empty and false mean no; anything else yes. `{"string": "last"}` is how Avro's
/// JSON form writes a union.
pub(crate) fn is_snapshot(raw: Option<&[u8]>) -> bool {
    let word = raw.map_or(&[][..], snapshot_word);
    !word.is_empty() && !word.eq_ignore_ascii_case(b"false")
}

/// Whether a row says that it is the last one of its snapshot.
pub(crate) fn is_last(raw: Option<&[u8]>) -> bool {
    raw.is_some_and(|raw| snapshot_word(raw).eq_ignore_ascii_case(b"last"))
}

/// The word of a raw `snapshot`; nothing when it has none.
fn snapshot_word(raw: &[u8]) -> &[u8] {
    match raw.first() {
        Some(b'"') => quoted(raw).unwrap_or_default(),
        Some(b'{') => {
            let mut scanner = Scanner::new(raw);
            let inner = scanner.object().and_then(|mut members| {
                let name = scanner.member(&mut members)?;
                name.map(|_| scanner.value()).transpose()
            });
            inner.ok().flatten().and_then(quoted).unwrap_or_default()
        }
        Some(b't') => raw,
        _ => &[],
    }
}

/// Milliseconds since 1970 of a raw number; 0 when it is none.
pub(crate) fn millis(raw: Option<&[u8]>) -> u64 {
    raw.and_then(|raw| std::str::from_utf8(raw).ok())
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{Payload, is_last, is_snapshot, millis};
    use crate::decode::scan::Scanner;
    use crate::decode::shape::Shape;

    #[test]
    fn snapshot_flags_of_all_ages() {
        for raw in [
            "true",
            "\"true\"",
            "\"first\"",
            "\"last\"",
            "\"incremental\"",
            "{\"string\":\"last\"}",
        ] {
            assert!(is_snapshot(Some(raw.as_bytes())), "{raw}");
        }
        for raw in [
            "false",
            "\"false\"",
            "\"\"",
            "null",
            "{\"string\":\"false\"}",
            "{}",
        ] {
            assert!(!is_snapshot(Some(raw.as_bytes())), "{raw}");
        }
        assert!(!is_snapshot(None));
        for (raw, last) in [
            ("\"last\"", true),
            ("{\"string\":\"last\"}", true),
            ("\"last_in_data_collection\"", false),
            ("true", false),
        ] {
            assert_eq!(is_last(Some(raw.as_bytes())), last, "{raw}");
        }
        assert_eq!(millis(Some(b"-5")), 0);
        assert_eq!(millis(Some(b"1795967576943")), 1_795_967_576_943);
    }

    #[test]
    fn a_row_with_a_column_op_is_no_envelope() {
        fn read(text: &str) -> Payload<'_> {
            Payload::read(&mut Scanner::new(text.as_bytes()), &mut Shape::default()).unwrap()
        }
        assert!(read(r#"{"op":"c","after":{"id":1}}"#).is_envelope());
        assert!(read(r#"{"op":"d","before":null,"after":null}"#).is_envelope());
        assert!(read(r#"{"op":"t","source":{}}"#).is_envelope());
        assert!(!read(r#"{"op":"c","id":1,"after":"x","source":"y"}"#).is_envelope());
        assert!(!read(r#"{"op":null,"source":{}}"#).is_envelope());
    }
}
