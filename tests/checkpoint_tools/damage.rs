//! Each kind of damage to the newest checkpoint: `verify` and `run` refuse with the object's name,
//! and `run --from-checkpoint N` goes on from an older one and ends in the right rows.

use crate::binary::{Bench, Record};
use crate::store::{Made, made, objects};
use std::fs;
use std::path::PathBuf;

/// The file of an object `hello/…`.
fn file(bench: &Bench, object: &str) -> PathBuf {
    let name = object.strip_prefix("hello/").expect("of the job");
    objects(bench).join(name)
}

fn halve(bench: &Bench, object: &str) {
    let path = file(bench, object);
    let bytes = fs::read(&path).expect("the object");
    fs::write(path, &bytes[..bytes.len() / 2]).expect("written");
}

fn flip(bench: &Bench, object: &str) {
    let path = file(bench, object);
    let mut bytes = fs::read(&path).expect("the object");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(path, bytes).expect("written");
}

fn remove(bench: &Bench, object: &str) {
    fs::remove_file(file(bench, object)).expect("removed");
}

/// Damages an object of the newest checkpoint in a copy of the store, and goes on from the older.
fn damaged(made: &Made, object: &str, what: &str, damage: fn(&Bench, &str)) {
    let bench = made.copy();
    damage(&bench, object);
    for partition in 0..2 {
        bench.append("snap", partition, &[Record::end()]);
    }
    let newest = made.second.to_string();
    let verified = bench.run(&["checkpoint", "verify"]).with(4);
    let verified = verified.says(&[
        &format!("checkpoint {newest} of job hello is damaged"),
        &format!("object    {object} in file:state"),
    ]);
    assert!(
        verified.out.contains(&format!("damaged: {object}\n")),
        "{what}"
    );
    let all = bench.run(&["checkpoint", "verify", "--all", "--json"]);
    let all = all.with(4).json();
    let older = all.as_array().expect("a list").iter();
    let mut older = older.filter(|one| one["number"] == made.first);
    let older = older.next().expect("it is there");
    assert_eq!(older["damage"].as_array().map(Vec::len), Some(0), "{what}");

    let refused = bench.run(&["run", "--once"]).with(4);
    refused.says(&[object, "--from-checkpoint N"]);

    let first = made.first.to_string();
    let arguments = ["run", "--once", "--from-checkpoint", &first, "-w", "3"];
    let ended = bench.run(&[&arguments[..], &["--json"]].concat()).with(0);
    assert_eq!(ended.json()["outcome"], "ready", "{what}: {}", ended.out);
    assert_eq!(bench.rows(), made.rows, "{what}");
    bench.run(&["checkpoint", "verify"]).with(0);
}

#[test]
fn a_damaged_object_is_named_and_an_older_checkpoint_helps() {
    let made = made();
    let run = made.newer_run();
    damaged(&made, &run, "a run cut off", halve);
    damaged(&made, &run, "a changed byte in a run", flip);
    damaged(&made, &run, "a run that is gone", remove);
    let manifest = format!("hello/manifest/{:010}", made.second);
    damaged(&made, &manifest, "a manifest cut off", halve);
    damaged(&made, &manifest, "a changed byte in a manifest", flip);
    // `ls` says so too, and shows the others.
    let bench = made.copy();
    halve(&bench, &manifest);
    remove(&bench, &run);
    let table = bench.run(&["checkpoint", "ls"]).with(0).out;
    assert!(
        table.contains(&format!("{manifest}: its checksum is wrong")),
        "{table}"
    );
    let explained = bench.run(&["checkpoint", "explain"]).with(4);
    explained.says(&[&manifest]);
}
