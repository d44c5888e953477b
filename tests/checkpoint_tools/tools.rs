//! `ls`, `verify` and `explain` on a store that is whole.

use crate::binary::{Bench, JSONL};
use crate::store::{made, manifest, numbers, runs};

#[test]
fn a_whole_store_is_listed_verified_and_explained() {
    let made = made();
    let bench = &made.bench;
    let newest = made.second;
    let whole = manifest(bench, newest);

    let listed = bench.run(&["checkpoint", "ls", "--json"]).with(0).json();
    let all = listed["checkpoints"].as_array().expect("a list");
    let found: Vec<u64> = all
        .iter()
        .filter_map(|one| one["number"].as_u64())
        .collect();
    assert_eq!(found, numbers(bench));
    let last = &all.last().expect("the newest")["held"];
    assert_eq!(last["incarnation"], 2, "{last}");
    assert_eq!(last["start_of_run"], false, "{last}");
    assert_eq!(last["written"]["job_ms"], whole["time"]["now_ms"]);
    assert_eq!(last["runs"], runs(bench, newest).len());
    let starts = all.iter().filter(|one| one["held"]["start_of_run"] == true);
    assert_eq!(starts.count(), 2, "one for each run: {listed}");
    let table = bench.run(&["checkpoint", "ls"]).with(0).out;
    assert_eq!(table.lines().count(), found.len() + 2, "{table}");

    let args = ["checkpoint", "verify", "--all", "--json"];
    let verified = bench.run(&args).with(0).json();
    let verified = verified.as_array().expect("a list");
    assert_eq!(verified.len(), found.len());
    for one in verified {
        assert_eq!(one["damage"].as_array().map(Vec::len), Some(0), "{one}");
    }
    let last = verified.last().expect("the newest");
    assert_eq!(last["keys"], 180, "one marker for each key: {last}");
    assert_eq!(last["markers"], all.last().expect("one")["held"]["markers"]);
    assert_eq!(last["bytes"], all.last().expect("one")["held"]["bytes"]);
    let text = bench.run(&["checkpoint", "verify"]).with(0).out;
    for part in [&*made.newer_run(), "whole: ", "of 180 keys"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }

    let explained = bench.run(&["checkpoint", "explain", "--json"]).with(0);
    let explained = explained.json();
    assert_eq!(explained["number"], newest);
    assert_eq!(explained["cut"]["job_ms"], whole["time"]["cut_ms"]);
    assert_eq!(explained["tables"][0], "public.hello");
    assert_eq!(explained["target"], whole["target"]);
    let next: u64 = explained["partitions"]
        .as_array()
        .expect("partitions")
        .iter()
        .filter_map(|partition| partition["next_offset"].as_u64())
        .sum();
    assert_eq!(next, 350, "{explained}");
    let older = made.first.to_string();
    let text = bench.run(&["checkpoint", "explain", &older]).with(0).out;
    for part in [
        &format!("checkpoint  {older} of job hello, made by incarnation 1\n"),
        "mutations file:muts[0]: next_offset 50\n",
        "snapshot file:snap[1]: next_offset 60, its end is not frozen yet\n",
        "public.hello mutations {id: number}\n",
        &format!("goes on from checkpoint {newest}, which is newer"),
        &format!("`--from-checkpoint {older}`"),
        "The configuration fits.",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let secret = whole["fingerprint"]["secret"].as_str().expect("text");
    assert!(!text.contains(secret) && !explained.to_string().contains(secret));
    let changed = [
        "checkpoint",
        "explain",
        "--set",
        "table.public.hello.key=id",
    ];
    let text = bench.run(&changed).with(0).out;
    assert!(text.contains("It is refused: `table[0].key`"), "{text}");
}

#[test]
fn a_job_without_checkpoints_and_a_number_that_is_not_there_are_told() {
    let bench = Bench::new();
    bench.config(&format!("{JSONL}\n[checkpoint]\nstore = \"file:state\""));
    let listed = bench.run(&["checkpoint", "ls"]).with(0);
    assert_eq!(listed.out, "job hello has no checkpoint in file:state\n");
    assert!(!bench.path().join("state").exists(), "nothing is made");
    for verb in ["verify", "explain"] {
        let ended = bench.run(&["checkpoint", verb]).with(1);
        ended.says(&["job hello has no checkpoint", "file:state"]);
        let ended = bench.run(&["checkpoint", verb, "7"]).with(4);
        ended.says(&["no checkpoint 7 of job hello", "hello/manifest/0000000007"]);
    }
}
