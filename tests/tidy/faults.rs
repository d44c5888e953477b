//! Every named fault point of the source stands in one list of points that a test visits.
//!
//! Invariant: the lists are those the tests work through, so that a point which is listed is
//! visited: `const POINTS` of the files in [`LISTS`].
//!
//! It cannot see a point whose name is not written where it is passed; that is a finding.

use std::collections::BTreeMap;

use crate::scan::File;

/// The files with a list, each of a test that visits all of it, and what that test has.
const LISTS: &[(&str, &str)] = &[
    ("tests/torture/points.rs", "a folder, SQLite and JSON lines"),
    ("tests/object_store/s3.rs", "an S3 server"),
    ("tests/kafka_sink.rs", "a broker"),
    ("src/sink/postgres/tests/tenure.rs", "a PostgreSQL server"),
];

const CALLS: &[&str] = &["fault::point(", "fault::io_point(", "fault::write("];

/// The text of the string literal that `text` starts with.
fn literal(text: &str) -> Option<&str> {
    let text = text.trim_start().strip_prefix('"')?;
    text.split_once('"').map(|parts| parts.0)
}

/// The points that the product passes, each with a place; and what is wrong.
fn passed(files: &[File]) -> (BTreeMap<String, String>, Vec<String>) {
    let (mut points, mut findings) = (BTreeMap::new(), Vec::new());
    for file in files.iter().filter(|file| file.path.starts_with("src/")) {
        for call in CALLS {
            for (at, _) in file.product.match_indices(call) {
                let place = format!("{}:{}", file.path, file.line(at));
                match literal(&file.text[at + call.len()..]) {
                    Some(name) => points.insert(name.to_owned(), place),
                    None => {
                        findings.push(format!("{place}: a fault point without a name"));
                        continue;
                    }
                };
            }
        }
    }
    (points, findings)
}

/// The names in a file's list.
fn listed(file: &File) -> Vec<&str> {
    let list = file.text.split_once("const POINTS: ");
    let list = list.and_then(|(_, rest)| rest.split_once("];"));
    let literals = list.map_or("", |(list, _)| list).split('"').skip(1);
    literals.step_by(2).collect()
}

/// What is wrong with the lists.
pub(crate) fn unvisited(files: &[File]) -> Vec<String> {
    let (passed, mut findings) = passed(files);
    let mut lists: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (path, what) in LISTS {
        let file = files.iter().find(|file| file.path == *path);
        let names = file.map(listed).unwrap_or_default();
        if names.is_empty() {
            findings.push(format!("{path}: no list of points for {what}"));
        }
        for name in names {
            lists.entry(name).or_default().push(path);
        }
    }
    for (name, place) in &passed {
        match lists.get(&**name).map(Vec::as_slice) {
            None => findings.push(format!("{place}: no test visits `{name}`")),
            Some([_]) => (),
            Some(several) => findings.push(format!("`{name}` is listed twice: {several:?}")),
        }
    }
    let gone = lists
        .iter()
        .filter(|(name, _)| !passed.contains_key(**name));
    findings.extend(gone.map(|(name, paths)| format!("{paths:?}: nothing passes `{name}`")));
    findings
}
