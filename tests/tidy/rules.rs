//! The rules that one file alone can break.
//!
//! Invariant: every rule carries a planted text that breaks it and one that does not, and the
//! tests try both, so a rule that has gone blind is noticed.
//!
//! They read text, not meaning: an identifier made by a macro escapes them.

use crate::scan::{File, closing, is_identifier, words};

const COLUMNS_MAX: usize = 100;
const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;
const FILE_BYTES_MAX: usize = 256 * 1024;

/// Longer than the rule, by name: (`path` or `path:function`, lines). An entry may only shrink.
pub(crate) const LONGER: &[(&str, usize)] = &[];

/// What a rule found: one-based line and what is wrong with it.
pub(crate) type Finding = (usize, String);

/// One rule about one file.
pub(crate) struct Rule {
    /// Short name, as printed.
    pub(crate) name: &'static str,
    /// What the file breaks.
    pub(crate) find: fn(&File) -> Vec<Finding>,
    /// Path and text of a file that breaks it.
    pub(crate) bad: (&'static str, &'static str),
    /// Path and text of a file near the edge that keeps it.
    pub(crate) good: (&'static str, &'static str),
}

/// All rules about one file.
pub(crate) const RULES: &[Rule] = &[
    Rule {
        name: "opens with a module doc",
        find: header,
        bad: ("src/a.rs", "use std::fmt;\n//! late\n"),
        good: ("src/a.rs", "\n//! What it is.\n"),
    },
    Rule {
        name: "at most 100 columns",
        find: columns,
        bad: (
            "src/a.rs",
            concat!(
                "//! ",
                "0123456789012345678901234567890123456789012345678",
                "012345678901234567890123456789012345678901234567\n"
            ),
        ),
        good: ("src/a.rs", "//! short\n"),
    },
    Rule {
        name: "no unwrap() in the product",
        find: unwrap,
        bad: ("operators/src/a.rs", "fn a() { b().unwrap(); }\n"),
        good: (
            "src/a.rs",
            "// .unwrap()\n#[cfg(test)]\nmod tests { fn a() { b().unwrap(); } }\n",
        ),
    },
    Rule {
        name: "no #[allow], no #[ignore]",
        find: attributes,
        bad: ("tests/a.rs", "#![allow(dead_code)]\n"),
        good: (
            "src/a.rs",
            "#[expect(dead_code, reason = \"no #[allow] here\")]\nfn a() {}\n",
        ),
    },
    Rule {
        name: "x.rs beside x/, not mod.rs",
        find: module_file,
        bad: ("src/a/mod.rs", "//! a\n"),
        good: ("src/a/model.rs", "//! a\n"),
    },
    Rule {
        name: "no glob imports",
        find: globs,
        bad: ("src/a.rs", "use super::*;\n#[cfg(test)]\nmod tests {}\n"),
        good: (
            "src/a.rs",
            "#[cfg(test)]\nmod tests { use super::*; fn a() { 2 * 3 } }\n",
        ),
    },
    Rule {
        name: "words of the project",
        find: identifiers,
        bad: (
            "src/a.rs",
            concat!(
                "fn a(lowWater",
                "mark: u64) {}\nstruct Back",
                "fillTopic;\n"
            ),
        ),
        good: (
            "src/a.rs",
            "fn a() { c.fetch_watermarks(t); SystemTime::UNIX_EPOCH; } // epoch\n",
        ),
    },
    Rule {
        name: "nothing unfinished, nothing printed by the product",
        find: unfinished,
        bad: ("src/a.rs", "fn a() { println!(); }\n"),
        good: (
            "src/main.rs",
            "fn a() { println!(); let my_todo = 1; } // println!\n",
        ),
    },
    Rule {
        name: "operators/ waits for nothing and reads no clock",
        find: purity,
        bad: ("operators/src/a.rs", "use std::{fmt, thread};\n"),
        good: (
            "operators/src/a.rs",
            "use std::{fmt, mem};\n#[cfg(test)]\nuse std::thread;\n",
        ),
    },
    Rule {
        name: "no path of one machine",
        find: machine_paths,
        bad: ("README.md", concat!("see `/ro", "ot/notes`\n")),
        good: ("README.md", "the path /v1/home/ and src/root/a.rs\n"),
    },
    Rule {
        name: "no host of a package registry",
        find: registry_hosts,
        bad: (
            "tests/run",
            concat!("curl https://static.crates", ".io/a\n"),
        ),
        good: (
            "Cargo.lock",
            "source = \"registry+https://github.com/rust-lang/crates.io-index\"\n",
        ),
    },
    Rule {
        name: "abomonation is a peer of the exchange bench, nothing else",
        find: abomonation,
        bad: (
            "operators/Cargo.toml",
            concat!("[dependencies]\nabomo", "nation = \"0.7\"\n"),
        ),
        good: (
            "operators/Cargo.toml",
            concat!("[dev-dependencies]\nabomo", "nation = \"0.7\"\n"),
        ),
    },
    Rule {
        name: "an example names its command",
        find: example_command,
        bad: (
            "examples/a.rs",
            "//! Shows a.\nfn main() { let cargo = \"cargo run\"; }\n",
        ),
        good: ("examples/a.rs", "//! Shows a: `cargo run --example a`.\n"),
    },
];

fn header(file: &File) -> Vec<Finding> {
    let opens = file.text.lines().find(|line| !line.trim().is_empty());
    if !file.is_rust() || opens.is_some_and(|line| line.starts_with("//!")) {
        return Vec::new();
    }
    vec![(
        1,
        "does not open with `//!`: what it is, its invariant, what it cannot do".to_owned(),
    )]
}

fn columns(file: &File) -> Vec<Finding> {
    if !file.is_rust() {
        return Vec::new();
    }
    (1..)
        .zip(file.text.lines())
        .map(|(number, line)| (number, line.chars().count()))
        .filter(|&(_, columns)| columns > COLUMNS_MAX)
        .map(|(number, columns)| (number, format!("{columns} columns, at most {COLUMNS_MAX}")))
        .collect()
}

fn unwrap(file: &File) -> Vec<Finding> {
    let found = file.product.match_indices(".unwrap()");
    let said = "unwrap() in the product: handle it, or expect(\"why it cannot fail\")";
    found
        .map(|(at, _)| (file.line(at), said.to_owned()))
        .collect()
}

fn attributes(file: &File) -> Vec<Finding> {
    if !file.is_rust() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (attribute, instead) in [
        ("allow", "#[expect(lint, reason = \"…\")]"),
        ("ignore", "a test that runs, or none"),
    ] {
        for at in words(&file.code, attribute) {
            let before = file.code[..at].trim_end();
            if before.ends_with("#[") || before.ends_with("#![") {
                findings.push((file.line(at), format!("#[{attribute}]: use {instead}")));
            }
        }
    }
    findings
}

fn module_file(file: &File) -> Vec<Finding> {
    if file.path.ends_with("/mod.rs") {
        return vec![(1, "a mod.rs: name the file after the module".to_owned())];
    }
    Vec::new()
}

fn globs(file: &File) -> Vec<Finding> {
    if !file.is_rust() {
        return Vec::new();
    }
    file.code
        .match_indices("::*")
        .map(|(at, _)| at)
        .filter(|&at| {
            let in_tests = file
                .product
                .as_bytes()
                .get(at)
                .is_none_or(|&byte| byte == b' ');
            !(in_tests && file.code[..at].ends_with("super"))
        })
        .map(|at| (file.line(at), "a glob import: name what is used".to_owned()))
        .collect()
}

/// Names of others that hold a banned word: Kafka's own term, the standard library's constant, and
/// what librdkafka and its binding call their functions and error codes. They cannot be renamed
/// here; each is listed in full, so that no name of ours passes beside them.
const NAMES_OF_OTHERS: &[&str] = &[
    "fetch_watermarks",
    "high_watermark",
    "high_watermarks",
    "UNIX_EPOCH",
    "rd_kafka_get_watermark_offsets",
    "FencedLeaderEpoch",
    "UnknownLeaderEpoch",
    "InvalidFetchSessionEpoch",
    "InvalidProducerEpoch",
];

fn identifiers(file: &File) -> Vec<Finding> {
    let banned = [
        ("watermark", "frontier, position or next_offset"),
        ("epoch", "generation, incarnation or tick"),
        ("backfill", "snapshot, or READ for a record"),
    ];
    if !file.is_rust() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut offset = 0;
    for name in file
        .code
        .split(|c: char| !c.is_ascii() || !is_identifier(c as u8))
    {
        let at = offset + file.code[offset..].find(name).expect("a part of the text");
        offset = at + name.len();
        let lower = name.to_lowercase();
        for (word, instead) in banned {
            if lower.contains(word) && !NAMES_OF_OTHERS.contains(&name) {
                findings.push((
                    file.line(at),
                    format!("`{name}` says {word}: say {instead}"),
                ));
            }
        }
    }
    findings
}

fn unfinished(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut look = |code: &str, name: &str| {
        for at in words(code, name) {
            if code[at + name.len()..].starts_with('!') {
                findings.push((file.line(at), format!("{name}! does not belong here")));
            }
        }
    };
    if file.is_rust() {
        look(&file.code, "dbg");
        look(&file.code, "todo");
        look(&file.code, "unimplemented");
    }
    let may_print = ["src/main.rs", "src/cli.rs"].contains(&file.path.as_str())
        || file.path.starts_with("src/cli/");
    if !may_print {
        look(&file.product, "println");
    }
    for (at, _) in file.text.match_indices(concat!("FIX", "ME")) {
        findings.push((file.line(at), "unfinished: do it, or file it".to_owned()));
    }
    findings
}

fn purity(file: &File) -> Vec<Finding> {
    let banned = ["fs", "net", "thread", "time"];
    if !file.path.starts_with("operators/src/") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (at, root) in file.product.match_indices("std::") {
        let rest = &file.product[at + root.len()..];
        let end = rest.find(|c: char| !c.is_ascii() || !is_identifier(c as u8));
        let used: Vec<&str> = if rest.starts_with('{') {
            banned
                .into_iter()
                .filter(|name| !words(&rest[..closing(rest, 0)], name).is_empty())
                .collect()
        } else {
            vec![&rest[..end.unwrap_or(rest.len())]]
        };
        for name in used.into_iter().filter(|name| banned.contains(name)) {
            let said =
                format!("std::{name} in operators/: I/O, waiting and clocks are the caller's");
            findings.push((file.line(at), said));
        }
    }
    findings
}

fn machine_paths(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for folder in [
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("/ho", "me/"),
    ] {
        for (at, _) in file.text.match_indices(folder) {
            let before = file.text[..at].chars().next_back();
            let leads = before.is_none_or(|c| !(c.is_alphanumeric() || "._-/})~".contains(c)));
            if leads {
                findings.push((file.line(at), format!("a path of one machine, {folder}")));
            }
        }
    }
    findings
}

fn registry_hosts(file: &File) -> Vec<Finding> {
    let hosts = [
        concat!("index.crates", ".io"),
        concat!("static.crates", ".io"),
        concat!("repo1.maven", ".org"),
        concat!("repo.maven.apache", ".org"),
        concat!("deb.debian", ".org"),
        concat!("pypi", ".org"),
        concat!("npmjs", ".org"),
        concat!("proxy.golang", ".org"),
    ];
    let mut findings = Vec::new();
    for host in hosts {
        for (at, _) in file.text.match_indices(host) {
            findings.push((
                file.line(at),
                format!("{host}: the clients know their registry"),
            ));
        }
    }
    findings
}

fn abomonation(file: &File) -> Vec<Finding> {
    let word = concat!("abomo", "nation");
    // The last four only speak of it.
    let whole = [
        "operators/benches/",
        "README.md",
        "Cargo.lock",
        "deny.toml",
        "tests/",
    ];
    if whole.iter().any(|place| file.path.starts_with(place)) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (at, _) in file.text.match_indices(word) {
        let section = file.text[..at].lines().rfind(|line| line.starts_with('['));
        if file.path != "operators/Cargo.toml" || section != Some("[dev-dependencies]") {
            let said = format!("{word} belongs to the exchange bench of operators/ alone");
            findings.push((file.line(at), said));
        }
    }
    findings
}

fn example_command(file: &File) -> Vec<Finding> {
    let is_example = file.path.starts_with("examples/") && file.is_rust();
    let root = file.path.matches('/').count() == 1 || file.path.ends_with("/main.rs");
    let mut docs = file.text.lines().filter(|line| line.starts_with("//!"));
    if !is_example || !root || docs.any(|line| line.contains("cargo run")) {
        return Vec::new();
    }
    vec![(
        1,
        "its doc does not name the `cargo run …` that starts it".to_owned(),
    )]
}

/// Lengths beyond the rule: (`path` or `path:function`, line, lines).
pub(crate) fn lengths(file: &File) -> Vec<(String, usize, usize)> {
    let mut longer = Vec::new();
    if !file.is_rust() {
        return longer;
    }
    let lines = file.text.lines().count();
    if lines > FILE_LINES_MAX {
        longer.push((file.path.clone(), 1, lines));
    }
    for at in words(&file.code, "fn") {
        let rest = &file.code[at..];
        let body = rest
            .find('{')
            .filter(|&brace| !signature_ends(&rest[..brace]));
        let Some(brace) = body else { continue };
        let name: String = rest[2..]
            .trim_start()
            .bytes()
            .take_while(|&b| is_identifier(b))
            .map(char::from)
            .collect();
        let first = file.line(at);
        let lines = file.line(closing(&file.code, at + brace) - 1) - first + 1;
        if !name.is_empty() && lines > FUNCTION_LINES_MAX {
            longer.push((format!("{}:{name}", file.path), first, lines));
        }
    }
    longer
}

/// Whether a signature ends in `;` before any body. The `;` of an array type is no end.
fn signature_ends(signature: &str) -> bool {
    let mut depth = 0_i32;
    signature.bytes().any(|byte| {
        depth += i32::from(byte == b'[' || byte == b'(') - i32::from(byte == b']' || byte == b')');
        byte == b';' && depth == 0
    })
}

/// Whether a file is too large to be in the repository.
pub(crate) fn too_large(bytes: usize) -> bool {
    bytes > FILE_BYTES_MAX
}
