//! The effective configuration as commented TOML that reads back as the same configuration (except
//! for literal secrets, which are redacted).

use super::Config;
use super::section::{Section, State};
use super::value::{Value, quoted};
use std::fmt::Write;

/// All of it, with comments.
pub(super) fn config(config: &Config) -> String {
    let mut out = String::from("# The effective configuration: defaults, file, --set.\n\n");
    keys(&mut out, &config.job, true);
    out.push_str(
        "\n# Any property of librdkafka, as it is; values may be \"${ENV_VAR}\" or \"@file\".\n\
         [kafka]\n",
    );
    if config.kafka.0.is_empty() {
        out.push_str("# \"bootstrap.servers\" = \"127.0.0.1:9092\"\n");
    }
    for (name, value) in &config.kafka.0 {
        let value = value.write().expect("a secret always prints");
        line(&mut out, format_args!("{} = {value}", quoted(name)));
    }
    for (index, table) in config.tables.iter().enumerate() {
        out.push('\n');
        if index == 0 {
            about(&mut out, table.about());
        }
        out.push_str("[[table]]\n");
        keys(&mut out, table, index == 0);
    }
    if config.tables.is_empty() {
        let table = super::sections::TableConfig::default();
        out.push('\n');
        about(&mut out, table.about());
        out.push_str("# [[table]]\n");
        for key in table.keys() {
            about(&mut out, key.about);
            line(&mut out, format_args!("# {} = {}", key.name, key.example));
        }
    }
    for (name, section) in config.sections() {
        out.push('\n');
        about(&mut out, section.about());
        line(&mut out, format_args!("[{name}]"));
        keys(&mut out, section, true);
    }
    out
}

/// The settings that processes must share, one a line, without comments.
pub(super) fn agreement(config: &Config) -> String {
    let mut out = String::new();
    let mut add = |path: &str, section: &dyn Section| {
        for (key, value) in section.keys().iter().zip(section.values()) {
            if let Some(value) = value {
                line(&mut out, format_args!("{path}.{} = {value}", key.name));
            }
        }
    };
    add("", &config.job);
    for table in &config.tables {
        add("table", table);
    }
    for (name, section) in config.sections() {
        if name != "control" {
            add(name, section);
        }
    }
    for (name, value) in &config.kafka.0 {
        line(&mut out, format_args!("kafka.{name} = {value}"));
    }
    out
}

fn keys(out: &mut String, section: &dyn Section, comments: bool) {
    for (key, value) in section.keys().iter().zip(section.values()) {
        if comments {
            about(out, key.about);
            if key.state == State::Later {
                out.push_str("# (not built yet: ignored)\n");
            }
        }
        match (value, &key.default) {
            // As a comment, so that what is printed can be used without a notice for each.
            (Some(value), Some(default)) if value == *default && key.state == State::Later => {
                line(out, format_args!("# {} = {value}", key.name));
            }
            (Some(value), Some(default)) if value != *default => {
                line(
                    out,
                    format_args!("{} = {value} # default {default}", key.name),
                );
            }
            (Some(value), _) => line(out, format_args!("{} = {value}", key.name)),
            (None, _) => line(out, format_args!("# {} = {}", key.name, key.example)),
        }
    }
}

fn about(out: &mut String, lines: &[&str]) {
    for text in lines {
        line(out, format_args!("#{text}"));
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("a string takes all that is written");
}
