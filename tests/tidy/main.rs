//! The rules of style that a machine can hold, over every file of the repository.
//!
//! Invariant: a rule that finds nothing in its own planted bad text fails the test: no rule is
//! blind, and none fires on the good text beside it.
//!
//! It cannot judge whether a comment says why, or a name says what.

mod faults;
mod modules;
mod rules;
mod scan;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::{fs, str};

use crate::rules::{LONGER, RULES};
use crate::scan::File;

/// Every file that is, or would be, committed: (path, bytes).
fn repository() -> Vec<(String, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .expect("git is there");
    assert!(output.status.success(), "not a git work tree: {output:?}");
    let names = String::from_utf8(output.stdout).expect("paths are UTF-8");
    let files: Vec<(String, Vec<u8>)> = names
        .split('\0')
        .filter(|name| !name.is_empty())
        // A file that was deleted and not yet committed is still listed.
        .filter_map(|name| Some((name.to_owned(), fs::read(root.join(name)).ok()?)))
        .collect();
    assert!(
        files.len() > 10,
        "only {} files: the listing is wrong",
        files.len()
    );
    files
}

fn text_files() -> Vec<File> {
    let files = repository();
    let text = |(path, bytes): &(String, Vec<u8>)| {
        str::from_utf8(bytes).ok().map(|text| File::new(path, text))
    };
    let mut files: Vec<File> = files.iter().filter_map(text).collect();
    modules::spare_test_modules(&mut files);
    files
}

#[test]
fn every_file_keeps_the_rules() {
    let mut findings = Vec::new();
    for file in text_files() {
        for rule in RULES {
            for (line, said) in (rule.find)(&file) {
                findings.push(format!("{}:{line}: {said} [{}]", file.path, rule.name));
            }
        }
    }
    assert!(
        findings.is_empty(),
        "{} findings\n{}",
        findings.len(),
        findings.join("\n")
    );
}

#[test]
fn every_rule_sees_its_planted_text_and_spares_the_good_one() {
    for rule in RULES {
        let (path, text) = rule.bad;
        assert!(
            !(rule.find)(&File::new(path, text)).is_empty(),
            "`{}` is blind",
            rule.name
        );
        let (path, text) = rule.good;
        let found = (rule.find)(&File::new(path, text));
        assert!(found.is_empty(), "`{}` is over-eager: {found:?}", rule.name);
    }
}

#[test]
fn files_and_functions_are_short() {
    let mut findings = Vec::new();
    let mut listed: BTreeMap<&str, usize> = LONGER.iter().copied().collect();
    for (name, line, lines) in text_files().iter().flat_map(rules::lengths) {
        match listed.remove(&*name) {
            Some(allowed) if lines > allowed => {
                findings.push(format!(
                    "{name} (line {line}): {lines} lines, listed {allowed}"
                ));
            }
            Some(allowed) if lines < allowed => {
                findings.push(format!(
                    "{name} has shrunk: list it with {lines}, not {allowed}"
                ));
            }
            Some(_) => println!("exception: {name}, {lines} lines"),
            None => findings.push(format!("{name} (line {line}): {lines} lines, split it")),
        }
    }
    findings.extend(
        listed
            .keys()
            .map(|name| format!("{name} is short now: take it off LONGER")),
    );
    assert!(
        findings.is_empty(),
        "{} findings\n{}",
        findings.len(),
        findings.join("\n")
    );
}

#[test]
fn a_long_file_and_a_long_function_are_seen() {
    let body = "    x();\n".repeat(69);
    let long = format!("fn a<const N: usize>(x: [u8; 4]) {{\n{body}}}\nfn b();\n");
    let found = rules::lengths(&File::new("src/a.rs", &long));
    assert_eq!(found, [("src/a.rs:a".to_owned(), 1, 71)]);
    let short = long.replacen("    x();\n", "", 1);
    assert_eq!(rules::lengths(&File::new("src/a.rs", &short)), []);
    let file = "//! x\n".repeat(601);
    assert_eq!(rules::lengths(&File::new("src/b.rs", &file)).len(), 1);
}

#[test]
fn no_file_is_large() {
    let large: Vec<String> = repository()
        .into_iter()
        .filter(|(_, bytes)| rules::too_large(bytes.len()))
        .map(|(path, bytes)| format!("{path}: {} bytes", bytes.len()))
        .collect();
    assert!(large.is_empty(), "over 256 KiB: {large:?}");
    assert!(rules::too_large(256 * 1024 + 1) && !rules::too_large(256 * 1024));
}

#[test]
fn every_source_file_is_declared() {
    let dead = modules::undeclared(&text_files());
    assert!(dead.is_empty(), "no crate declares: {dead:?}");
}

#[test]
fn an_undeclared_file_is_seen() {
    let files = [
        File::new("src/lib.rs", "//! a\npub mod a;\n// mod dead;\n"),
        File::new("src/a.rs", "//! a\n#[cfg(test)]\nmod tests;\nfn b() {}\n"),
        File::new("src/a/tests.rs", "//! a\n"),
        File::new("src/dead.rs", "//! a\n"),
        File::new(
            "tests/e2e/main.rs",
            "mod b;\n#[path = \"../support/c.rs\"]\nmod c;\n",
        ),
        File::new("tests/e2e/b.rs", "//! a\n"),
        File::new("tests/support/c.rs", "//! a\n"),
        File::new("tests/support/d.rs", "//! a\n"),
    ];
    assert_eq!(
        modules::undeclared(&files),
        ["src/dead.rs", "tests/support/d.rs"]
    );
}

#[test]
fn a_file_declared_for_tests_alone_is_no_product() {
    let unwraps = "//! a\nfn a() { b().unwrap(); }\n";
    let mut files = [
        File::new(
            "src/lib.rs",
            concat!(
                "mod a;\n#[cfg(test)]\nmod rig;\n#[cfg(test)]\npub(crate) mod both;\n",
                "// #[cfg(test)]\nmod plain;\n#[cfg(not(test))]\nmod stub;\n"
            ),
        ),
        File::new("src/a.rs", "#[path = \"both.rs\"]\nmod b;\nmod own;\n"),
        File::new("src/a/own.rs", unwraps),
        File::new("src/rig.rs", &format!("{unwraps}mod part;\n")),
        File::new("src/rig/part.rs", unwraps),
        File::new("src/both.rs", unwraps),
        File::new("src/plain.rs", unwraps),
        File::new("src/stub.rs", unwraps),
        // No declaration leads here: it is judged as product.
        File::new("src/dead.rs", unwraps),
    ];
    modules::spare_test_modules(&mut files);
    let rule = RULES
        .iter()
        .find(|rule| rule.name == "no unwrap() in the product")
        .expect("the rule is there");
    let found: Vec<&str> = files
        .iter()
        .filter(|file| !(rule.find)(file).is_empty())
        .map(|file| &*file.path)
        .collect();
    assert_eq!(
        found,
        [
            "src/a/own.rs",
            "src/both.rs",
            "src/plain.rs",
            "src/stub.rs",
            "src/dead.rs"
        ]
    );
}

#[test]
fn every_fault_point_is_visited_by_one_test() {
    let findings = faults::unvisited(&text_files());
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn a_fault_point_that_is_not_visited_is_seen() {
    let list = |path: &str, names: &str| {
        File::new(
            path,
            &format!("//! a\nconst POINTS: &[&str] = &[{names}];\n\"x\""),
        )
    };
    let product = concat!(
        "//! a\n// fault::point(\"none\")\nfn a() {\n fault::point(\"a.b\")?;\n",
        " fault::write(\n  \"a.new\", b);\n fault::io_point(name)?;\n",
        " fault::point(\"a.c\")?;\n crate::fault::point(\"a.d\")?;\n}\n",
        "#[cfg(test)]\nmod tests { fn b() { fault::point(\"test\"); } }\n"
    );
    let files = [
        File::new("src/a.rs", product),
        list(
            "tests/torture/points.rs",
            "(\"a.b\", true), (\"a.gone\", false)",
        ),
        list("tests/object_store/s3.rs", "\"a.c\""),
        list("tests/kafka_sink.rs", "\"a.c\", \"a.d\""),
    ];
    assert_eq!(
        faults::unvisited(&files),
        [
            "src/a.rs:7: a fault point without a name",
            "src/sink/postgres/tests/tenure.rs: no list of points for a PostgreSQL server",
            "`a.c` is listed twice: [\"tests/object_store/s3.rs\", \"tests/kafka_sink.rs\"]",
            "src/a.rs:5: no test visits `a.new`",
            "[\"tests/torture/points.rs\"]: nothing passes `a.gone`",
        ]
    );
}

#[test]
fn comments_and_literals_are_told_from_code() {
    for (text, code) in [
        ("a /* b /* c */ d */ e", "a                   e"),
        ("a(\"b\\\"c\") // d\ne", "a(      )     \ne"),
        ("a<'b>('c', '\\'', 'é')", "a<'b>(   ,     ,     )"),
        ("r#\"a\"b\"# br\"c\" for_r\"d\"", "               for_r   "),
        ("let s = r\"\\\";x", "let s =     ;x"),
    ] {
        assert_eq!(scan::blank(text), code, "{text}");
    }
}
