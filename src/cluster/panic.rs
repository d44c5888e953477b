//! A panic anywhere ends the process, and with it the cluster.
//!
//! A worker that panics inside one process with typed channels leaves its siblings running with a
//! frontier that stands still: they go on reading and never say that nothing gets done. So the
//! first panic ends the process here, before its thread unwinds. Its peers then lose their sockets,
//! and timely's threads panic in turn; those panics say nothing new, so they become one quiet line,
//! and the one loud message in all the logs is that of the process that broke first.
//!
//! Known limit: `catch_unwind` no longer catches anything once the hook is in.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::Write;
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long exit handlers (of librdkafka, OpenSSL) may take before the process is aborted.
const EXIT_MS_MAX: u64 = 5_000;
/// Exit code of a process that lost a peer.
const LOST_PEER_CODE: i32 = 1;

/// How timely's network threads begin the message of a panic about a broken connection. Its source
/// asks that the text be kept, because programs look for it (as here).
const TIMELY_PREFIX: &str = "timely communication error:";
/// What the queues between threads say after one of them has panicked.
const POISONED: [&str; 2] = ["MergeQueue poisoned", "MergeQueue mutex poisoned"];

static ENDING: AtomicBool = AtomicBool::new(false);

/// From now on a panic in any thread ends the process with a non-zero code: a lost peer with one
/// line and code 1, everything else with its message and SIGABRT (134 in a shell).
pub fn install_abort_on_panic() {
    std::panic::set_hook(Box::new(|info| {
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("unnamed");
        match lost_peer(thread, message(info)) {
            Some(lost) => end_quietly(&lost),
            None => end_loudly(thread, info),
        }
    }));
}

/// What to say about the lost peer, when the panic is only the echo of one.
fn lost_peer(thread: &str, message: &str) -> Option<String> {
    if let Some(cause) = message.strip_prefix(TIMELY_PREFIX) {
        let cause = cause.trim();
        let remote = ["timely:recv-", "timely:send-"]
            .iter()
            .find_map(|p| thread.strip_prefix(p));
        return Some(match remote {
            Some(process) => format!("process {process}: {cause}"),
            None => cause.to_owned(),
        });
    }
    POISONED
        .iter()
        .any(|text| message.contains(text))
        .then(|| "its queue is closed".to_owned())
}

fn end_quietly(lost: &str) -> ! {
    // Several threads get here at once; one line is enough.
    if !ENDING.swap(true, Ordering::SeqCst) {
        say(&format!(
            "headwater: lost a peer of the cluster ({lost}): ending; restart all processes\n"
        ));
    }
    let watchdog = std::thread::Builder::new().spawn(|| {
        std::thread::sleep(Duration::from_millis(EXIT_MS_MAX));
        std::process::abort();
    });
    drop(watchdog);
    std::process::exit(LOST_PEER_CODE)
}

fn end_loudly(thread: &str, info: &PanicHookInfo<'_>) -> ! {
    ENDING.store(true, Ordering::SeqCst);
    let place = info
        .location()
        .map_or_else(|| "?".to_owned(), ToString::to_string);
    let mut text = format!(
        "headwater: PANIC in thread '{thread}' at {place}: {}\n\
         headwater: this is a bug; ending this process, and with it the cluster: restart all \
         processes\n",
        message(info)
    );
    let trace = Backtrace::capture();
    match trace.status() {
        BacktraceStatus::Captured => text.push_str(&trace.to_string()),
        _ => text.push_str("headwater: set RUST_BACKTRACE=1 to see where it came from\n"),
    }
    say(&text);
    std::process::abort()
}

fn message<'a>(info: &'a PanicHookInfo<'_>) -> &'a str {
    info.payload_as_str().unwrap_or("(no message)")
}

/// One write, so that lines of several processes on one terminal stay whole. There is nobody left
/// to tell if it fails.
fn say(text: &str) {
    drop(std::io::stderr().lock().write_all(text.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::lost_peer;

    #[test]
    fn only_the_echo_of_a_lost_peer_is_quiet() {
        let read = "timely communication error: reading data: socket closed";
        let lost = lost_peer("timely:recv-1", read).unwrap();
        assert_eq!(lost, "process 1: reading data: socket closed");
        assert_eq!(
            lost_peer("main", read).unwrap(),
            "reading data: socket closed"
        );
        assert!(lost_peer("timely:work-0", "MergeQueue poisoned.").is_some());
        for own in [
            "index out of bounds",
            "a timely communication error: no",
            "",
        ] {
            assert_eq!(lost_peer("timely:recv-1", own), None, "{own}");
        }
    }
}
