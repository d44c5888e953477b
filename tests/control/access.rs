//! Who is let in, and what happens at an address that cannot be had.

use crate::binary::{Bench, JSONL, Record, hello};
use crate::{LIMIT, address, ask, bearer, config, free_hosts, get, stop, until};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

#[test]
fn changes_need_the_token() {
    let bench = Bench::new();
    bench.hello(1);
    config(&bench, JSONL);
    let child = bench.start("job", &["run"]);
    let at = address(&child);
    until(&child, "the job", || {
        let now = get(&at, "/v1/status").json();
        (now["stage"] == "running").then_some(())
    });
    let (name, token) = bearer();
    for (headers, code) in [
        (&[][..], 401),
        (&[(name, "Bearer something else")], 401),
        (&[(name, &*token), ("Host", "evil.example")], 403),
    ] {
        let answer = ask("POST", &at, "/v1/stop", headers);
        assert_eq!(answer.code, code, "{}", answer.body);
        assert!(answer.json()["error"].is_string());
    }
    let rebound = ask("GET", &at, "/v1/status", &[("Host", "evil.example:7070")]);
    assert_eq!(rebound.code, 403, "{}", rebound.body);
    assert_eq!(get(&at, "/v1/nothing").code, 404);
    assert_eq!(get(&at, "/v1/stop").code, 405);
    let live = get(&at, "/livez");
    assert_eq!((live.code, &*live.body), (200, "ok\n"));
    assert_eq!(live.headers.get("cache-control").expect("set"), "no-store");
    assert_eq!(get(&at, "/readyz").code, 200);
    assert_eq!(stop(&at).code, 202);
    child.end(LIMIT).with(130);
}

#[test]
fn without_a_token_file_nothing_can_be_changed() {
    let bench = Bench::new();
    bench.hello(1);
    bench.config(&format!("{JSONL}\n[control]\nlisten = \"localhost:0\""));
    let child = bench.start("job", &["run"]);
    let at = address(&child);
    let answer = stop(&at);
    assert_eq!(answer.code, 403);
    assert!(
        answer.body.contains("control.token_file"),
        "{}",
        answer.body
    );
}

#[test]
fn an_open_address_needs_a_token_for_everything() {
    let bench = Bench::new();
    bench.hello(1);
    config(&bench, JSONL);
    let open = ["run", "--set", "control.listen=0.0.0.0:0"];
    let child = bench.start("job", &open);
    let port = address(&child);
    let port = port.rsplit(':').next().expect("a port");
    let at = format!("127.0.0.1:{port}");
    assert_eq!(get(&at, "/livez").code, 200);
    for path in ["/v1/status", "/metrics", "/v1/checkpoints"] {
        assert_eq!(get(&at, path).code, 401, "{path}");
        let (name, value) = bearer();
        assert_eq!(ask("GET", &at, path, &[(name, &value)]).code, 200, "{path}");
    }
    // The verb finds the token in the configuration, and asks 127.0.0.1 for 0.0.0.0.
    let listen = format!("control.listen=0.0.0.0:{port}");
    let said = bench.run(&["status", "--set", &listen]).with(0).out;
    assert!(said.contains("job hello"), "{said}");
    drop(child);

    bench.config(&format!("{JSONL}\n[control]\nlisten = \"0.0.0.0:0\""));
    let refused = bench.run(&["run"]).with(2);
    refused.says(&["`control.token_file` is not set", "head -c 32"]);
    config(&bench, JSONL);
    let mode = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(bench.path().join("control.token"), mode).expect("set");
    let refused = bench.run(&["run"]).with(2);
    refused.says(&["open to every user", "mode 644"]);
}

#[test]
fn an_address_that_is_taken_is_an_error_if_it_was_chosen() {
    let bench = Bench::new();
    bench.hello(1);
    bench.config(JSONL);
    bench.append("snap", 0, &[hello('r', 1, "one"), Record::end()]);
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let listen = format!("control.listen={}", taken.local_addr().expect("bound"));
    let refused = bench.run(&["run", "--once", "--set", &listen]).with(1);
    refused.says(&["cannot listen on 127.0.0.1:", "--set control.listen=off"]);
    // Taken by this test, or by another job of this machine.
    let _default = TcpListener::bind("127.0.0.1:7070");
    let noted = bench.run(&["run", "--once"]).with(0);
    noted.says(&["note: no control plane", "127.0.0.1:7070"]);
    assert_eq!(bench.jsonl().len(), 1);
    let off = bench.run(&["run", "--once", "--set", "control.listen=off"]);
    assert!(!off.err.contains("control plane"), "{}", off.err);
}

#[test]
fn process_1_serves_before_its_peers_come_and_sends_on() {
    let bench = Bench::new();
    bench.hello(2);
    config(&bench, JSONL);
    let hosts = free_hosts::free(2);
    std::fs::write(bench.path().join("hosts.txt"), hosts.join("\n")).expect("written");
    // Nobody else uses this IP address.
    let first = free_hosts::free(1).remove(0);
    let (ip, port) = first.rsplit_once(':').expect("an address");
    let port: u16 = port.parse().expect("a port");
    let second = format!("{ip}:{}", port + 1);
    let listen = format!("control.listen={first}");
    let start = |process: &str| {
        let flags = ["run", "-n", "2", "-p", process, "-h", "hosts.txt"];
        let flags = [&flags[..], &["--set", &listen]].concat();
        bench.start(&format!("process{process}"), &flags)
    };
    let one = start("1");
    assert_eq!(address(&one), second);
    assert_eq!(get(&second, "/readyz").code, 200);
    let sent = get(&second, "/v1/status?verbose=1");
    let location = sent.headers.get("location").expect("a place");
    let expected = format!("http://{first}/v1/status?verbose=1");
    assert_eq!(sent.code, 307);
    assert_eq!(location, &*expected);

    let zero = start("0");
    until(&zero, "both", || {
        if !zero.err().contains("control plane at") {
            return None;
        }
        let now = crate::status(&first);
        (now["stage"] == "running" && now["run"]["processes"] == 2).then_some(())
    });
    // Process 1 shows its target from when its own workers run, not those of process 0.
    let metrics = until(&one, "its target", || {
        let text = get(&second, "/metrics").body;
        let there = text.contains("headwater_sink_rows_written_total");
        there.then_some(text)
    });
    assert!(
        !metrics.contains("headwater_mutations_emitted_total"),
        "{metrics}"
    );
    assert_eq!(stop(&first).code, 202);
    for child in [zero, one] {
        child.end(LIMIT).with(130);
    }
}
