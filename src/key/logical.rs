//! The type of a column as a Kafka Connect schema names it (wire.md W14).
//!
//! Read once for each schema that is met, never on the hot path. A type it does not know is
//! [`Logical::Other`], which is no key and which sinks take as the JSON it is.

use super::Class;
use serde_json::Value;

/// How many of a unit make a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// 1,000.
    Milli,
    /// 1,000,000.
    Micro,
    /// 1,000,000,000.
    Nano,
}

impl Unit {
    /// Nanoseconds in one.
    pub fn nanos(self) -> i128 {
        match self {
            Unit::Milli => 1_000_000,
            Unit::Micro => 1_000,
            Unit::Nano => 1,
        }
    }
}

/// A column type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logical {
    /// int8 to int64, float, double.
    Number,
    /// string, and what Debezium sends as text (json, enum, xml, ltree, intervals).
    Text,
    /// boolean.
    Bool,
    /// bytes, as base64.
    Bytes,
    /// A uuid.
    Uuid,
    /// A decimal: base64 of the big-endian two's complement unscaled value.
    Decimal {
        /// Digits after the point; negative when the value ends in zeros.
        scale: i32,
    },
    /// `{"scale": n, "value": base64}`.
    VariableDecimal,
    /// Days since 1970.
    Date,
    /// Since midnight.
    Time(Unit),
    /// Since 1970.
    Timestamp(Unit),
    /// ISO text.
    IsoDate,
    /// ISO text.
    IsoTime,
    /// ISO text.
    IsoTimestamp,
    /// ISO text with an offset.
    ZonedTime,
    /// ISO text with an offset.
    ZonedTimestamp,
    /// Array, map, struct: no key.
    Other,
}

impl Logical {
    /// The type of a schema node.
    pub fn of(schema: &Value) -> Logical {
        let name = schema.get("name").and_then(Value::as_str).unwrap_or("");
        match name {
            "org.apache.kafka.connect.data.Decimal" => Logical::Decimal {
                scale: scale(schema),
            },
            "io.debezium.data.VariableScaleDecimal" => Logical::VariableDecimal,
            "io.debezium.data.Uuid" => Logical::Uuid,
            "io.debezium.time.Date" | "org.apache.kafka.connect.data.Date" => Logical::Date,
            "io.debezium.time.Time" | "org.apache.kafka.connect.data.Time" => {
                Logical::Time(Unit::Milli)
            }
            "io.debezium.time.MicroTime" => Logical::Time(Unit::Micro),
            "io.debezium.time.NanoTime" => Logical::Time(Unit::Nano),
            "io.debezium.time.Timestamp" | "org.apache.kafka.connect.data.Timestamp" => {
                Logical::Timestamp(Unit::Milli)
            }
            "io.debezium.time.MicroTimestamp" => Logical::Timestamp(Unit::Micro),
            "io.debezium.time.NanoTimestamp" => Logical::Timestamp(Unit::Nano),
            "io.debezium.time.IsoDate" => Logical::IsoDate,
            "io.debezium.time.IsoTime" => Logical::IsoTime,
            "io.debezium.time.IsoTimestamp" => Logical::IsoTimestamp,
            "io.debezium.time.ZonedTime" => Logical::ZonedTime,
            "io.debezium.time.ZonedTimestamp" => Logical::ZonedTimestamp,
            _ => Logical::plain(schema),
        }
    }

    fn plain(schema: &Value) -> Logical {
        match schema.get("type").and_then(Value::as_str).unwrap_or("") {
            "int8" | "int16" | "int32" | "int64" | "float" | "double" => Logical::Number,
            "string" => Logical::Text,
            "boolean" => Logical::Bool,
            "bytes" => Logical::Bytes,
            _ => Logical::Other,
        }
    }

    /// The type of a value without a schema, by its first byte; none for null and arrays.
    /// An object is taken for a decimal of variable scale, the one object that Debezium has in
    /// keys.
    pub fn of_bare(raw: &[u8]) -> Option<Logical> {
        match raw.first()? {
            b'-' | b'0'..=b'9' => Some(Logical::Number),
            b'"' => Some(Logical::Text),
            b't' | b'f' => Some(Logical::Bool),
            b'{' => Some(Logical::VariableDecimal),
            _ => None,
        }
    }

    /// The class of its values in a key.
    pub fn class(self) -> Option<Class> {
        Some(match self {
            Logical::Number | Logical::Decimal { .. } | Logical::VariableDecimal => Class::Number,
            Logical::Text => Class::Text,
            Logical::Bool => Class::Bool,
            Logical::Bytes => Class::Bytes,
            Logical::Uuid => Class::Uuid,
            Logical::Date | Logical::IsoDate => Class::Date,
            Logical::Time(_) | Logical::IsoTime => Class::Time,
            Logical::ZonedTime => Class::TimeTz,
            Logical::Timestamp(_) | Logical::IsoTimestamp => Class::Timestamp,
            Logical::ZonedTimestamp => Class::TimestampTz,
            Logical::Other => return None,
        })
    }

    /// The named fields of a struct schema, given as its text.
    pub fn fields(schema: &[u8]) -> Vec<(String, Logical)> {
        serde_json::from_slice::<Value>(schema).map_or_else(|_| Vec::new(), |s| fields_of(&s))
    }

    /// The named fields of the row in an envelope's schema: those of `after` or `before`, or of the
    /// schema itself when the row is flattened.
    pub fn row_fields(schema: &[u8]) -> Vec<(String, Logical)> {
        let Ok(schema) = serde_json::from_slice::<Value>(schema) else {
            return Vec::new();
        };
        let named = |wanted: &str| {
            let fields = schema.get("fields")?.as_array()?;
            fields.iter().find(|field| {
                field.get("field").and_then(Value::as_str) == Some(wanted)
                    && field.get("type").and_then(Value::as_str) == Some("struct")
            })
        };
        match (named("after"), named("source")) {
            (Some(after), Some(_)) => fields_of(after),
            _ => fields_of(&schema),
        }
    }

    /// The name of a schema, such as `app.public.hello.Key`, and the type of the whole.
    pub fn whole(schema: &[u8]) -> Option<(Option<String>, Logical)> {
        let schema = serde_json::from_slice::<Value>(schema).ok()?;
        let name = schema.get("name").and_then(Value::as_str);
        Some((name.map(str::to_owned), Logical::of(&schema)))
    }
}

fn fields_of(schema: &Value) -> Vec<(String, Logical)> {
    let fields = schema.get("fields").and_then(Value::as_array);
    fields
        .into_iter()
        .flatten()
        .filter_map(|field| {
            let name = field.get("field")?.as_str()?;
            Some((name.to_owned(), Logical::of(field)))
        })
        .collect()
}

fn scale(schema: &Value) -> i32 {
    let text = schema.pointer("/parameters/scale").and_then(Value::as_str);
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}
