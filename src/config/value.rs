//! How one setting is read from what was written, and how it is printed.
//!
//! Invariant: `read(write(v)) == v` for values without a literal secret.

use super::secret::Secret;
use super::tree::{Node, Place, Tree};
use super::units::{
    ByteSize, parse_duration, parse_instant, parse_size, print_duration, print_instant, print_size,
};
use crate::error::Error;
use crate::topic::Start;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Why a value was not read.
#[derive(Debug)]
pub enum Fault {
    /// It is not what [`Value::expected`] says; the place and the value, as they may be shown.
    Mismatch {
        /// Where it stands.
        place: Place,
        /// What stands there.
        found: String,
    },
    /// Said by the value itself.
    Told(Error),
}

impl Fault {
    fn at(node: &Node) -> Self {
        Fault::Mismatch {
            place: node.place.clone(),
            found: node.tree.found(),
        }
    }

    /// As `at`, without the value.
    fn hidden(node: &Node) -> Self {
        Fault::Mismatch {
            place: node.place.clone(),
            found: node.tree.sort().to_owned(),
        }
    }
}

/// A type of setting.
pub trait Value: Sized {
    /// What is expected, for an error and for a person.
    fn expected() -> String;

    /// A value as it may be written, in TOML.
    fn example() -> String;

    /// Reads the value of setting `key`.
    ///
    /// # Errors
    /// When it is something else.
    fn read(node: &Node, key: &str) -> Result<Self, Fault>;

    /// The value in TOML, with secrets redacted; `None` when it is not set.
    fn write(&self) -> Option<String>;
}

/// TOML text in quotes.
pub fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Text without a reference, which only [`Secret`]s follow.
fn text(node: &Node) -> Option<String> {
    match &node.tree {
        Tree::Text(text) | Tree::Bare(text) => Some(text.clone()),
        _ => None,
    }
}

/// A scalar in its words, whether quoted or not.
fn words(node: &Node) -> Option<String> {
    match &node.tree {
        Tree::Integer(number) => Some(number.to_string()),
        Tree::Boolean(value) => Some(value.to_string()),
        _ => text(node),
    }
}

impl Value for String {
    fn expected() -> String {
        "text in quotes".to_owned()
    }

    fn example() -> String {
        "\"text\"".to_owned()
    }

    fn read(node: &Node, key: &str) -> Result<Self, Fault> {
        let text = text(node).ok_or_else(|| Fault::at(node))?;
        if text.trim().is_empty() {
            return Err(Fault::at(node));
        }
        if text.contains("${") || text.starts_with('@') {
            let error = Error::usage(format!("`{key}` does not follow references"))
                .line(format!("found     {} ({})", node.tree.found(), node.place))
                .line("expected  the text itself")
                .line(
                    "`${ENV_VAR}` and `@file` are for secrets: [kafka], `sink.url`, \
                     `source.database`, `cluster.secret`.",
                );
            return Err(Fault::Told(error));
        }
        Ok(text)
    }

    fn write(&self) -> Option<String> {
        Some(quoted(self))
    }
}

impl Value for PathBuf {
    fn expected() -> String {
        "a path in quotes".to_owned()
    }

    fn example() -> String {
        "\"./path\"".to_owned()
    }

    fn read(node: &Node, key: &str) -> Result<Self, Fault> {
        String::read(node, key).map(PathBuf::from)
    }

    fn write(&self) -> Option<String> {
        // It was read from UTF-8.
        Some(quoted(&self.to_string_lossy()))
    }
}

impl Value for bool {
    fn expected() -> String {
        "`true` or `false`".to_owned()
    }

    fn example() -> String {
        "true".to_owned()
    }

    fn read(node: &Node, _: &str) -> Result<Self, Fault> {
        match &node.tree {
            Tree::Boolean(value) => Ok(*value),
            Tree::Bare(text) => text.parse().map_err(|_| Fault::at(node)),
            _ => Err(Fault::at(node)),
        }
    }

    fn write(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Value for u64 {
    fn expected() -> String {
        "a whole number from 0, without quotes".to_owned()
    }

    fn example() -> String {
        "1000".to_owned()
    }

    fn read(node: &Node, _: &str) -> Result<Self, Fault> {
        let number = match &node.tree {
            Tree::Integer(number) => u64::try_from(*number).ok(),
            Tree::Bare(text) => text.replace('_', "").parse().ok(),
            _ => None,
        };
        number.ok_or_else(|| Fault::at(node))
    }

    fn write(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Value for Duration {
    fn expected() -> String {
        "a duration: a whole number and its unit (ms, s, m, h, d), in quotes".to_owned()
    }

    fn example() -> String {
        "\"90s\"".to_owned()
    }

    fn read(node: &Node, _: &str) -> Result<Self, Fault> {
        text(node)
            .and_then(|text| parse_duration(&text))
            .ok_or_else(|| Fault::at(node))
    }

    fn write(&self) -> Option<String> {
        Some(quoted(&print_duration(*self)))
    }
}

impl Value for ByteSize {
    fn expected() -> String {
        "a size: a whole number and its unit (B, KiB, MiB, GiB, kB, MB, GB), in quotes".to_owned()
    }

    fn example() -> String {
        "\"512MiB\"".to_owned()
    }

    fn read(node: &Node, _: &str) -> Result<Self, Fault> {
        text(node)
            .and_then(|text| parse_size(&text))
            .ok_or_else(|| Fault::at(node))
    }

    fn write(&self) -> Option<String> {
        Some(quoted(&print_size(*self)))
    }
}

impl Value for Start {
    fn expected() -> String {
        "\"beginning\", or a time with its offset from UTC".to_owned()
    }

    fn example() -> String {
        "2026-11-29T10:00:00Z".to_owned()
    }

    fn read(node: &Node, _: &str) -> Result<Self, Fault> {
        match text(node).as_deref() {
            Some("beginning") => Ok(Start::Beginning),
            Some(time) => parse_instant(time)
                .map(Start::Time)
                .ok_or_else(|| Fault::at(node)),
            None => Err(Fault::at(node)),
        }
    }

    fn write(&self) -> Option<String> {
        Some(match self {
            Start::Beginning => quoted("beginning"),
            Start::Time(ms) => print_instant(*ms),
        })
    }
}

impl Value for Secret {
    fn expected() -> String {
        "text in quotes, \"${ENV_VAR}\" or \"@file\"".to_owned()
    }

    fn example() -> String {
        "\"${ENV_VAR}\"".to_owned()
    }

    fn read(node: &Node, key: &str) -> Result<Self, Fault> {
        let text = text(node)
            .filter(|text| !text.is_empty())
            .ok_or_else(|| Fault::hidden(node))?;
        let name = key.rsplit('.').next().unwrap_or(key);
        // A key that is called a secret is one as a whole; others are URLs that may hold one.
        Ok(if name == "secret" {
            Secret::whole(key, text)
        } else {
            Secret::url(key, text)
        })
    }

    fn write(&self) -> Option<String> {
        Some(quoted(&self.to_string()))
    }
}

impl<V: Value> Value for Option<V> {
    fn expected() -> String {
        V::expected()
    }

    fn example() -> String {
        V::example()
    }

    fn read(node: &Node, key: &str) -> Result<Self, Fault> {
        V::read(node, key).map(Some)
    }

    fn write(&self) -> Option<String> {
        self.as_ref().and_then(V::write)
    }
}

impl<V: Value> Value for Vec<V> {
    fn expected() -> String {
        format!("a list; each item {}", V::expected())
    }

    fn example() -> String {
        format!("[{}]", V::example())
    }

    fn read(node: &Node, key: &str) -> Result<Self, Fault> {
        let bare = |text: &str| -> Vec<Node> {
            // A shell has eaten the quotes of `["a", "b"]`.
            let inner = text.trim_start_matches('[').trim_end_matches(']');
            let items = inner.split(',').filter(|item| !item.trim().is_empty());
            items
                .map(|item| Node {
                    tree: Tree::Bare(item.trim().to_owned()),
                    place: node.place.clone(),
                })
                .collect()
        };
        match &node.tree {
            Tree::List(items) => items.iter().map(|item| V::read(item, key)).collect(),
            Tree::Bare(text) => bare(text).iter().map(|item| V::read(item, key)).collect(),
            _ => Err(Fault::at(node)),
        }
    }

    fn write(&self) -> Option<String> {
        let items: Vec<String> = self.iter().filter_map(V::write).collect();
        Some(format!("[{}]", items.join(", ")))
    }
}

impl<V: Value> Value for BTreeMap<String, V> {
    fn expected() -> String {
        format!("a table; each value {}", V::expected())
    }

    fn example() -> String {
        format!("{{ \"name\" = {} }}", V::example())
    }

    fn read(node: &Node, key: &str) -> Result<Self, Fault> {
        let Tree::Table(entries) = &node.tree else {
            return Err(Fault::at(node));
        };
        let read = |(name, inner): (&String, &Node)| {
            Ok((name.clone(), V::read(inner, &format!("{key}.{name}"))?))
        };
        entries.iter().map(read).collect()
    }

    fn write(&self) -> Option<String> {
        let write = |(name, value): (&String, &V)| {
            value
                .write()
                .map(|value| format!("{} = {value}", quoted(name)))
        };
        let items: Vec<String> = self.iter().filter_map(write).collect();
        (!items.is_empty()).then(|| format!("{{ {} }}", items.join(", ")))
    }
}

/// Properties of librdkafka, as they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties(pub BTreeMap<String, Secret>);

impl Properties {
    /// Reads one property of a section; numbers and booleans are taken in their words.
    ///
    /// # Errors
    /// When it is a list or a table, or one that only the job may set.
    pub fn put(&mut self, section: &str, name: &str, node: &Node) -> Result<(), Fault> {
        let key = format!("{section}.\"{name}\"");
        if let Some(why) = reserved(name) {
            let error = Error::usage(format!("`{key}` cannot be set"))
                .line(format!("found     {}", node.place))
                .line(why);
            return Err(Fault::Told(error));
        }
        let text = words(node).ok_or_else(|| Fault::hidden(node))?;
        let secret = [
            "password",
            "secret",
            "passphrase",
            "key.pem",
            "private.key",
            "jaas",
            "token",
        ]
        .iter()
        .any(|part| name.contains(part))
            || name == "sasl.oauthbearer.config";
        let value = if secret {
            Secret::whole(key, text)
        } else {
            Secret::url(key, text)
        };
        self.0.insert(name.to_owned(), value);
        Ok(())
    }
}

impl Properties {
    /// The properties with secrets followed. For the client alone, never for a message.
    ///
    /// # Errors
    /// Of usage: an environment variable or a file that is missing.
    pub fn resolve(&self) -> Result<BTreeMap<String, String>, Error> {
        let properties = self.0.iter();
        properties
            .map(|(name, value)| Ok((name.clone(), value.resolve()?.expose().to_owned())))
            .collect()
    }
}

impl Value for Properties {
    fn expected() -> String {
        "a table of librdkafka properties, their names in quotes".to_owned()
    }

    fn example() -> String {
        "{ \"compression.type\" = \"lz4\" }".to_owned()
    }

    fn read(node: &Node, key: &str) -> Result<Self, Fault> {
        let Tree::Table(entries) = &node.tree else {
            return Err(Fault::hidden(node));
        };
        let mut properties = Properties::default();
        for (name, value) in entries {
            properties.put(key, name, value)?;
        }
        Ok(properties)
    }

    fn write(&self) -> Option<String> {
        self.0.write()
    }
}

fn reserved(name: &str) -> Option<&'static str> {
    match name {
        "auto.offset.reset" => {
            Some("It is `error`: a start that the log no longer holds must stop the job.")
        }
        "enable.auto.commit" | "enable.auto.offset.store" => {
            Some("Offsets are kept by the job, never by the broker.")
        }
        "enable.partition.eof" => Some("The job needs it and sets it."),
        _ => None,
    }
}
