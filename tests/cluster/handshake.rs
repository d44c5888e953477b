//! Who comes to the start of a cluster, who does not, and who should not. Processes are threads.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::common::{self, end, hosts, run, spec, start, start_reporting, texts};
use headwater::cluster::{Cluster, ClusterError};

#[test]
fn three_processes_run_one_dataflow_in_any_order_of_start() {
    let hosts = hosts(3);
    let mut started = Vec::new();
    for process in [2, 0, 1] {
        started.push(start(spec(process, &hosts)));
        std::thread::sleep(Duration::from_millis(60));
    }
    let clusters: Vec<Cluster> = started.into_iter().map(|s| end(s).unwrap()).collect();
    for cluster in &clusters {
        assert_eq!(cluster.incarnation, clusters[0].incarnation);
        assert_eq!(cluster.builders.len(), 2);
    }
    // The listeners are gone before the workers start.
    for host in &hosts {
        assert!(TcpStream::connect(host).is_err(), "{host} still listens");
    }
    run(clusters);
}

#[test]
fn two_starts_have_two_incarnations_and_reuse_the_ports() {
    let hosts = hosts(2);
    let mut seen = Vec::new();
    for _ in 0..2 {
        let started: Vec<_> = (0..2).map(|p| start(spec(p, &hosts))).collect();
        let clusters: Vec<Cluster> = started.into_iter().map(|s| end(s).unwrap()).collect();
        seen.push(clusters[0].incarnation);
        run(clusters);
    }
    assert_ne!(seen[0], seen[1]);
}

#[test]
fn strangers_neither_kill_nor_delay_a_bring_up() {
    let hosts = hosts(2);
    let (first, lines) = start_reporting(spec(0, &hosts));
    let dial = || {
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(10) {
            if let Ok(stream) = TcpStream::connect(&hosts[0]) {
                return stream;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("nobody listens at {} after 10 s", hosts[0]);
    };
    drop(dial());
    let mut http = dial();
    http.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    let mut answer = Vec::new();
    drop(http.read_to_end(&mut answer));
    assert!(answer.is_empty(), "a stranger is told nothing");
    let mut garbage = dial();
    drop(garbage.write_all(&vec![0xa5; 1 << 20]));
    // Right magic, then a hello that never ends.
    let mut liar = dial();
    liar.write_all(b"headwtr\x01\x01\x00").unwrap();
    liar.write_all(&[0; 32]).unwrap();
    liar.write_all(&[0xff; 2]).unwrap();
    let mut opening = Vec::new();
    drop(liar.read_to_end(&mut opening));
    assert_eq!(opening.len(), 42, "a nonce, and nothing about the job");
    // More silent connections than are kept, held open to the end, and one that drips.
    let mut silent: Vec<TcpStream> = (0..100).map(|_| dial()).collect();
    let mut drip = dial();
    std::thread::spawn(move || {
        while drip.write_all(b"h").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    std::thread::sleep(Duration::from_millis(200));

    let before = Instant::now();
    let second = start(spec(1, &hosts));
    let clusters = vec![end(first).unwrap(), end(second).unwrap()];
    let took = before.elapsed();
    assert!(took < Duration::from_secs(3), "the bring-up took {took:?}");
    run(clusters);
    silent.clear();
    let lines = lines.lock().unwrap().join("\n");
    assert!(
        lines.contains("is not a Headwater process (it starts with \"GET /liv\")"),
        "{lines}"
    );
    assert!(
        lines.contains("announced a hello of 65535 bytes, over 2048"),
        "{lines}"
    );
    assert!(lines.contains("closed before it said who it is"), "{lines}");
}

#[test]
fn an_absent_process_is_named_with_its_address() {
    let hosts = hosts(3);
    let mut short = spec(0, &hosts);
    short.deadline = Duration::from_millis(800);
    let (zero, one) = (start(short), start(spec(1, &hosts)));
    let zero = end(zero).unwrap_err();
    let text = zero.to_string();
    assert!(text.contains("process 0 gave up after 8"), "{text}");
    assert!(
        text.contains(&format!("2={} (has not connected)", hosts[2])),
        "{text}"
    );
    assert!(
        text.contains(&format!("1={} (is here, but waits for [2])", hosts[1])),
        "{text}"
    );
    assert_eq!(zero.exit_code(), 1);
    // The other does not wait for its own deadline.
    let one = end(one).unwrap_err();
    assert!(
        one.to_string()
            .contains("process 0 ended the start of the cluster"),
        "{one}"
    );
    assert!(
        one.to_string().contains(&format!("2={}", hosts[2])),
        "{one}"
    );
    assert_eq!(one.exit_code(), 1);

    let mut lonely = spec(1, &hosts);
    lonely.deadline = Duration::from_millis(400);
    let text = end(start(lonely)).unwrap_err().to_string();
    assert!(text.contains(&format!("0={} (", hosts[0])), "{text}");
    assert!(text.contains("Connection refused"), "{text}");
}

#[test]
fn a_wrong_secret_is_reported_on_both_sides_and_kills_nobody() {
    let hosts = hosts(2);
    let patience = Duration::from_millis(1500);
    let mut zero = spec(0, &hosts);
    zero.deadline = patience;
    let mut one = spec(1, &hosts);
    one.deadline = patience;
    one.secret = Some(b"another secret than theirs".to_vec());
    let errors = texts(vec![start(zero), start(one)]);
    assert!(
        errors[0].contains("A connection from 127.0.0.1 failed authentication"),
        "{errors:?}"
    );
    assert!(errors[0].contains("times)"), "{errors:?}");
    assert!(
        errors[1].contains("it says our secret is not its own"),
        "{errors:?}"
    );
    assert!(
        errors.iter().all(|e| !e.contains("another secret than")),
        "{errors:?}"
    );

    // Somebody with another job, another configuration and no secret is only a stranger.
    let mut stranger = spec(1, &hosts);
    stranger.secret = None;
    stranger.job = "intruder".to_owned();
    stranger.config_hash = [99; 32];
    stranger.hosts[1] = common::hosts(1).remove(0);
    stranger.deadline = Duration::from_millis(700);
    let (zero, stranger) = (start(spec(0, &hosts)), start(stranger));
    assert!(matches!(
        end(stranger).unwrap_err(),
        ClusterError::Deadline { .. }
    ));
    let one = start(spec(1, &hosts));
    run(vec![end(zero).unwrap(), end(one).unwrap()]);
}

#[test]
fn loopback_needs_no_secret() {
    let hosts = hosts(2);
    let started = (0..2).map(|process| {
        let mut spec = spec(process, &hosts);
        spec.secret = None;
        start(spec)
    });
    let started: Vec<_> = started.collect();
    run(started.into_iter().map(|s| end(s).unwrap()).collect());
}

#[test]
fn what_differs_is_an_error_on_every_side_with_both_values() {
    type Change = fn(&mut headwater::cluster::ClusterSpec);
    let cases: [(Change, &str, &str, &str); 4] = [
        (
            |s| s.job = "other".to_owned(),
            "\"other\"",
            "\"hello\"",
            "job",
        ),
        (
            |s| s.config_hash = [0xab; 32],
            "abababababababab",
            "0707070707070707",
            "configuration files",
        ),
        (|s| s.threads = 5, "-w 5", "-w 2", "workers"),
        (
            |s| {
                s.processes = 4;
                s.hosts.push("127.0.0.1:9".to_owned());
            },
            "-n 4",
            "-n 3",
            "processes",
        ),
    ];
    for (change, theirs, ours, hint) in cases {
        let hosts = hosts(3);
        let good = [start(spec(0, &hosts)), start(spec(1, &hosts))];
        std::thread::sleep(Duration::from_millis(150));
        let mut odd = spec(2, &hosts);
        change(&mut odd);
        let odd = end(start(odd)).unwrap_err();
        assert!(matches!(odd, ClusterError::Mismatch { .. }), "{odd}");
        assert!(
            odd.to_string()
                .contains(&format!("{ours} there, {theirs} here")),
            "{odd}"
        );
        for error in good.map(|s| end(s).unwrap_err()) {
            let text = error.to_string();
            assert!(
                text.contains(&format!("{theirs} there, {ours} here")),
                "{text}"
            );
            assert!(
                text.contains("process 2 (127.0.0.1:") && text.contains(hint),
                "{text}"
            );
            assert_eq!(error.exit_code(), 2, "{text}");
        }
    }
}

#[test]
fn two_processes_with_one_index_are_an_error() {
    // On one machine the second cannot listen.
    let hosts = hosts(3);
    let started = [start(spec(0, &hosts)), start(spec(1, &hosts))];
    std::thread::sleep(Duration::from_millis(150));
    let error = end(start(spec(1, &hosts))).unwrap_err();
    assert!(
        matches!(error, ClusterError::Listen { process: 1, .. }),
        "{error}"
    );
    assert!(
        error.to_string().contains("another process with -p 1"),
        "{error}"
    );

    // With a hostfile of its own it comes as far as process 0, which tells everyone.
    let mut second = spec(1, &hosts);
    second.hosts[1] = common::hosts(1).remove(0);
    let [zero, one] = started;
    for text in texts(vec![zero, one, start(second)]) {
        assert!(
            text.contains("two processes were started with -p 1: one at 127.0.0.1:"),
            "{text}"
        );
    }
}

#[test]
fn swapped_lines_of_a_hostfile_are_an_error() {
    let hosts = hosts(3);
    let started = vec![start(spec(0, &hosts)), start(spec(1, &hosts))];
    std::thread::sleep(Duration::from_millis(150));
    let mut swapped = spec(2, &hosts);
    swapped.hosts.swap(0, 1);
    for text in texts(started.into_iter().chain([start(swapped)]).collect()) {
        assert!(
            text.contains("hostfiles differ or their lines are swapped"),
            "{text}"
        );
        assert!(
            text.contains("process 2 ") && text.contains("process 1"),
            "{text}"
        );
    }
    // Our own line among them: somebody listens there already.
    let zero = start(spec(0, &hosts));
    std::thread::sleep(Duration::from_millis(100));
    let mut swapped = spec(1, &hosts);
    swapped.hosts.swap(0, 1);
    swapped.deadline = Duration::from_millis(500);
    let error = end(start(swapped)).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("hostfile has its lines in another order"),
        "{error}"
    );
    let mut alien = spec(1, &hosts);
    alien.hosts[1] = "192.0.2.1:2101".to_owned();
    let error = end(start(alien)).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("is not an address of this machine"),
        "{error}"
    );
    let (one, two) = (start(spec(1, &hosts)), start(spec(2, &hosts)));
    run(vec![
        end(zero).unwrap(),
        end(one).unwrap(),
        end(two).unwrap(),
    ]);
}

#[test]
fn a_process_that_leaves_before_the_start_may_come_back() {
    let hosts = hosts(3);
    let zero = start(spec(0, &hosts));
    let mut short = spec(2, &hosts);
    short.deadline = Duration::from_millis(400);
    assert!(matches!(
        end(start(short)).unwrap_err(),
        ClusterError::Deadline { .. }
    ));
    let (one, two) = (start(spec(1, &hosts)), start(spec(2, &hosts)));
    run(vec![
        end(zero).unwrap(),
        end(one).unwrap(),
        end(two).unwrap(),
    ]);
}
