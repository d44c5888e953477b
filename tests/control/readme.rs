//! The examples of the README's section on the control plane, each run as it stands against a job,
//! with the port of the job in place of the default one.

use crate::binary::{Bench, JSONL, Record, hello};
use crate::{LIMIT, address, until};
use std::process::Command;

const README: &str = include_str!("../../README.md");

/// The lines of the shell blocks of a section.
fn examples(heading: &str) -> Vec<&'static str> {
    let (_, after) = README
        .split_once(&format!("\n## {heading}\n"))
        .expect("the heading");
    let section = after.split("\n## ").next().expect("it begins with it");
    let blocks = section.split("```").skip(1).step_by(2);
    let shell = blocks.filter_map(|block| block.strip_prefix("sh\n"));
    shell.flat_map(str::lines).collect()
}

#[test]
fn every_example_of_the_section_runs() {
    let lines = examples("Control plane");
    assert!(lines.len() >= 6, "{lines:?}");
    let bench = Bench::new();
    bench.hello(1);
    bench.config(&format!(
        "{JSONL}\n[control]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"control.token\""
    ));
    bench.append("snap", 0, &[hello('r', 1, "one"), Record::end()]);
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_headwater"));
    let path = std::env::var("PATH").expect("a path");
    let path = format!("{}:{path}", binary.parent().expect("a folder").display());
    let shell = |line: &str| {
        let output = Command::new("sh")
            .args(["-c", line])
            .env("PATH", &path)
            .env("NO_PROXY", "*")
            .current_dir(bench.path())
            .output()
            .expect("sh is there");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{line}\n{said}");
        String::from_utf8(output.stdout).expect("text")
    };
    // The first makes the token, which must be there when the job starts.
    let (token, others) = lines.split_first().expect("lines");
    assert!(token.contains("control.token"), "{token}");
    shell(token);
    let child = bench.start("job", &["run"]);
    let at = address(&child);
    until(&child, "the row", || {
        (bench.jsonl().len() == 1).then_some(())
    });
    for line in others {
        let (command, _) = line.split_once('#').unwrap_or((line, ""));
        let command = command.trim().replace("127.0.0.1:7070", &at);
        let command = match command.strip_prefix("headwater ") {
            Some(rest) => format!("headwater {rest} --set control.listen={at}"),
            None => command,
        };
        let out = shell(&command);
        assert!(!out.is_empty(), "{command} says nothing");
    }
    child.end(LIMIT).with(130);
}
