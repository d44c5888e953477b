//! The README is true where a test can tell: its commands parse, its sample loads, its paths are
//! there, its exit codes and examples are those of the code.
//!
//! It cannot judge prose.

use headwater::checkpoint::manifest::FORMAT;
use headwater::cli;
use headwater::config::Config;
use headwater::config::section::Section;
use headwater::config::sections::CheckpointConfig;
use headwater::error::ErrorKind;
use headwater::store::Kind;
use std::collections::BTreeSet;
use std::path::Path;

const README: &str = include_str!("../README.md");

/// The text of every fenced block of a language.
fn blocks(language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = README.lines();
    while let Some(line) = lines.next() {
        let Some(fence) = line.strip_prefix("```") else {
            continue;
        };
        let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        if fence == language {
            blocks.push(body.join("\n"));
        }
    }
    blocks
}

/// Every text between single backquotes, outside of blocks.
fn quoted() -> Vec<&'static str> {
    let outside = README.split("```").step_by(2);
    outside
        .flat_map(|text| text.split('`').skip(1).step_by(2))
        .collect()
}

/// The rows of the table under a heading, as cells.
fn table(heading: &str) -> Vec<Vec<&'static str>> {
    let (_, after) = README
        .split_once(&format!("\n## {heading}\n"))
        .unwrap_or_else(|| panic!("no heading {heading}"));
    let section = after.split("\n## ").next().expect("it begins with it");
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| {
        let cells = row.trim_matches('|').split('|');
        cells.map(str::trim).collect()
    })
    .collect()
}

#[test]
fn every_command_line_parses() {
    let shell = blocks("sh");
    let in_blocks = shell.iter().flat_map(|block| block.lines());
    let commands: Vec<&str> = in_blocks
        .chain(quoted())
        .filter_map(|line| line.split('#').next())
        .map(str::trim)
        .filter(|line| line.starts_with("headwater ") || line.contains("run --release -- "))
        .collect();
    assert!(commands.len() >= 10, "{commands:?}");
    for command in commands {
        let command = command.replace("cargo run --release --", "headwater");
        // A verb alone is a name, and `init` lacks its topics then.
        if let Err(error) = cli::parse(command.split_whitespace()) {
            panic!("`{command}`: {error}");
        }
    }
}

/// What messages tell a person to run. A verb alone is a name, and may lack what it needs.
#[test]
fn every_command_that_a_message_names_parses() {
    let mut files = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let (mut commands, mut wrong) = (0, Vec::new());
    while let Some(path) = files.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).expect("listed");
            files.extend(entries.map(|entry| entry.expect("listed").path()));
            continue;
        }
        let program = path.extension().is_some_and(|end| end == "rs");
        if !program || path.ends_with("tests.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("text");
        let program = text.split("#[cfg(test)]").next().unwrap_or_default();
        let lines = program.lines().map(str::trim_start);
        // Not comments; and texts that go on in the next line are one.
        let text: String = lines
            .filter(|line| !line.starts_with("//"))
            .map(|line| {
                line.strip_suffix('\\')
                    .map_or(format!("{line}\n"), str::to_owned)
            })
            .collect();
        let quoted = text.split('`').skip(1).step_by(2);
        let alone = text
            .split('"')
            .filter(|part| part.starts_with("headwater "));
        for command in quoted
            .chain(alone)
            .filter(|part| part.starts_with("headwater "))
        {
            // What is signed, not what is run, or no text of one line.
            let other = command.starts_with("headwater cluster handshake");
            if other || command.contains(['\n', '…', '\\']) {
                continue;
            }
            let words = command
                .split_whitespace()
                .map(|word| match word.contains('{') {
                    _ if word == "N" => "7",
                    true => "g1",
                    false => word,
                });
            let words: Vec<&str> = words.collect();
            commands += 1;
            if cli::parse(words.iter().copied()).is_err() && words.len() > 3 {
                wrong.push(format!("{}: `{command}`", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(commands > 20, "{commands}");
}

#[test]
fn the_sample_loads_and_means_what_it_says() {
    let [sample] = &blocks("toml")[..] else {
        panic!("one sample is expected");
    };
    let loaded = Config::parse("README.md", sample, &[]).expect("the sample is right");
    loaded.config.check().expect("its settings fit");
    assert!(loaded.notices.is_empty(), "{:?}", loaded.notices);
    assert_eq!(loaded.config.job.job, "hello");
    // Where it shows a default, it is the default.
    let defaults = Config::default();
    assert_eq!(loaded.config.retention, defaults.retention);
    assert_eq!(loaded.config.limits, defaults.limits);
    assert_eq!(loaded.config.decode, defaults.decode);
    assert_eq!(loaded.config.cluster.deadline, defaults.cluster.deadline);
    assert_eq!(loaded.config.checkpoint, defaults.checkpoint);
}

#[test]
fn formats_and_credentials_are_those_of_the_code() {
    let version = env!("CARGO_PKG_VERSION");
    let (minor, _) = version.rsplit_once('.').expect("three numbers");
    let row = format!("| {minor} | {FORMAT} | ");
    assert!(README.contains(&row), "{row}");
    for kind in [Kind::S3, Kind::Google, Kind::Azure] {
        let names = kind
            .environment()
            .split(|c: char| !(c.is_ascii_uppercase() || c == '_'));
        for name in names.filter(|name| name.contains('_')) {
            assert!(README.contains(&format!("`{name}`")), "{name}");
        }
    }
    let keys = CheckpointConfig::default().keys();
    let (_, section) = README
        .split_once("| key of `[checkpoint]`")
        .expect("its keys");
    for key in keys {
        assert!(
            section.contains(&format!("\n| `{}` |", key.name)),
            "{}",
            key.name
        );
    }
}

#[test]
fn every_path_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let map = table("Code map");
    assert!(map.len() > 20, "{map:?}");
    let in_map = map.iter().map(|row| row[0].trim_matches('`'));
    let folders = ["src/", "operators/", "tests/", "examples/", ".ci/"];
    let is_path = |text: &&str| folders.iter().any(|folder| text.starts_with(folder));
    let paths: Vec<&str> = in_map.chain(quoted().into_iter().filter(is_path)).collect();
    for path in paths {
        let file = path.split(' ').next().expect("not empty");
        assert!(root.join(file).exists(), "{file} is not there");
    }
}

#[test]
fn exit_codes_are_those_of_the_code() {
    let kinds = [
        ErrorKind::Failed,
        ErrorKind::Usage,
        ErrorKind::NotReady,
        ErrorKind::Refused,
        ErrorKind::Interrupted,
    ];
    let mut expected = BTreeSet::from([(0, String::new())]);
    expected.extend(kinds.map(|kind| (kind.exit_code(), format!("{kind:?}"))));
    let found: BTreeSet<(i32, String)> = table("Exit codes")
        .iter()
        .map(|row| (row[0].parse().expect("a number"), row[1].to_owned()))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn every_example_is_named() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let there: BTreeSet<String> = std::fs::read_dir(root)
        .expect("there are examples")
        .map(|entry| entry.expect("listed").path())
        .map(|path| path.file_stem().expect("named").to_string_lossy().into())
        .collect();
    let named: BTreeSet<String> = table("Examples")
        .iter()
        .map(|row| row[0].trim_matches('`').to_owned())
        .collect();
    assert_eq!(named, there);
}

#[test]
fn words_of_the_connectors_are_those_of_the_recipes() {
    let live = include_str!("services/connectors/live.json");
    let snapshot = include_str!("services/connectors/snapshot.json");
    for (recipe, setting) in [
        (live, "snapshot.mode=no_data"),
        (live, "skipped.operations=none"),
        (snapshot, "snapshot.mode=initial_only"),
    ] {
        assert!(README.contains(&format!("`{setting}`")), "{setting}");
        let (name, value) = setting.split_once('=').expect("a pair");
        let line = format!("\"{name}\": \"{value}\"");
        assert!(recipe.contains(&line), "{line} is not in the recipe");
    }
}
