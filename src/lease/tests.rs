//! The lease on a clock that is moved by hand, and a few times on the real one.

use super::{Beat, Heart, Holder, World, hold, name, read, wait, wait_until_free};
use crate::error::{Error, ErrorKind};
use crate::store::Store;
use std::cell::Cell;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_secs(15);

/// A world whose time passes only in sleep; `each` is told the time after every one.
struct Hand<'t> {
    now: Cell<Duration>,
    gone: bool,
    each: &'t dyn Fn(Duration),
}

impl World for Hand<'_> {
    fn now(&self) -> Duration {
        self.now.get()
    }
    fn sleep(&self, time: Duration) {
        self.now.set(self.now.get() + time);
        (self.each)(self.now.get());
    }
    fn gone(&self, _: &Holder) -> bool {
        self.gone
    }
}

/// Watches for a free job; gives the result, the time that passed and how often it was told.
fn watch(store: &Store, gone: bool, each: &dyn Fn(Duration)) -> (Result<(), Error>, Duration, u32) {
    let now = Cell::new(Duration::ZERO);
    let world = Hand { now, gone, each };
    let mut told = 0;
    let waited = wait(store, "job", LEASE, &world, &mut |_| told += 1);
    (waited, world.now.get(), told)
}

fn heart(store: &Store, incarnation: u32) -> Heart {
    Heart {
        store: store.clone(),
        job: "job".to_owned(),
        holder: Holder::here(incarnation),
    }
}

fn kept(heart: &mut Heart) {
    let beat = heart.beat().expect("the store answers");
    assert!(matches!(beat, Beat::Kept), "{beat:?}");
}

#[test]
fn a_job_that_nobody_holds_is_free_at_once() {
    let store = Store::memory();
    let (free, passed, told) = watch(&store, false, &|_| {});
    assert_eq!(
        (free, passed, told),
        (Ok(()), Duration::ZERO, 0),
        "never held"
    );
    let mut first = heart(&store, 1);
    kept(&mut first);
    let (free, passed, told) = watch(&store, true, &|_| {});
    assert_eq!(
        (free, passed, told),
        (Ok(()), Duration::ZERO, 0),
        "its process is gone"
    );
    first.release().expect("given back");
    let (free, passed, told) = watch(&store, false, &|_| {});
    assert_eq!(
        (free, passed, told),
        (Ok(()), Duration::ZERO, 0),
        "given back"
    );
}

#[test]
fn a_holder_that_beats_is_alive_and_named() {
    let store = Store::memory();
    kept(&mut heart(&store, 7));
    // Late, but within the lease.
    let beats = |now: Duration| {
        if now == Duration::from_secs(14) {
            let mut holder = heart(&store, 7);
            kept(&mut holder);
        }
    };
    let (busy, passed, told) = watch(&store, false, &beats);
    let error = busy.expect_err("it lives");
    assert_eq!((error.kind, told), (ErrorKind::Refused, 1));
    assert_eq!(passed, Duration::from_secs(14));
    let process = format!("process {}", std::process::id());
    for part in [
        "job `job` runs already",
        "incarnation 7 on",
        &process,
        "Stop that process",
    ] {
        assert!(error.text.contains(part), "no {part}: {error}");
    }
}

#[test]
fn a_holder_that_stands_still_is_dead_after_the_lease() {
    let store = Store::memory();
    kept(&mut heart(&store, 1));
    let (free, passed, told) = watch(&store, false, &|_| {});
    assert_eq!((free, passed, told), (Ok(()), LEASE, 1));
    let given_back = |now| {
        if now >= Duration::from_secs(5) {
            heart(&store, 1).release().expect("given back");
        }
    };
    let (free, passed, _) = watch(&store, false, &given_back);
    assert_eq!(
        (free, passed),
        (Ok(()), Duration::from_secs(5)),
        "given back meanwhile"
    );
}

#[test]
fn of_two_newcomers_both_may_pass_and_the_greater_stays() {
    let store = Store::memory();
    kept(&mut heart(&store, 1));
    let pass = || watch(&store, false, &|_| {}).0;
    assert_eq!((pass(), pass()), (Ok(()), Ok(())));
    let (mut second, mut third) = (heart(&store, 2), heart(&store, 3));
    kept(&mut second);
    kept(&mut third);
    let lost = second.beat().expect("the store answers");
    let Beat::Lost(error) = lost else {
        panic!("{lost:?}");
    };
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(
        error.text.contains("fenced: incarnation 3 has taken over"),
        "{error}"
    );
    second.release().expect("nothing of its own is there");
    let found = read(&store, "job").expect("a lease").expect("held");
    assert_eq!((found.incarnation, found.released), (3, false));
    // A paused holder wakes up behind its successor, between its read and its write.
    second.write().expect("written");
    kept(&mut third);
    let healed = read(&store, "job").expect("a lease").expect("held");
    assert_eq!(healed.incarnation, 3);
    assert!(healed.beat > found.beat);
}

#[test]
fn a_late_holder_is_refused_and_told_of_its_loss() {
    let store = Store::memory();
    let (tell, told) = channel();
    let lease = Duration::from_millis(30);
    let lost = move |error| tell.send(error).expect("the test waits");
    let first = hold(&store, "job", 1, lease, lost).expect("free");
    kept(&mut heart(&store, 2));
    let error = told.recv_timeout(LEASE).expect("it is lost");
    assert!(
        error.text.contains("incarnation 2 has taken over"),
        "{error}"
    );
    drop(first);
    let found = read(&store, "job").expect("a lease").expect("held");
    assert_eq!(
        (found.incarnation, found.released),
        (2, false),
        "not written over"
    );
    let error = hold(&store, "job", 1, lease, |_| {}).expect_err("too late");
    assert!(error.text.contains("fenced: incarnation 2"), "{error}");
}

#[test]
fn a_second_instance_waits_for_the_end_of_the_first() {
    let store = Store::memory();
    let lease = Duration::from_millis(300);
    let first = hold(&store, "job", 1, lease, |error| panic!("{error}")).expect("free");
    let mut said = Vec::new();
    let mut say = |text: &str| said.push(text.to_owned());
    let error = wait_until_free(&store, "job", lease, &mut say).expect_err("it lives");
    assert_eq!(error.kind, ErrorKind::Refused);
    drop(first);
    wait_until_free(&store, "job", LEASE, &mut say).expect("given back");
    assert_eq!(said.len(), 1, "{said:?}");
    let again = hold(&store, "job", 2, lease, |_| {}).expect("free");
    drop(again);
}

#[test]
fn a_paused_process_is_waited_for_and_a_killed_one_is_not() {
    let store = Store::memory();
    let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn();
    let child = child.as_mut().expect("sleep is there");
    let mut first = heart(&store, 1);
    first.holder.pid = child.id();
    first.holder.started = super::host::started(child.id()).expect("it runs");
    kept(&mut first);
    // It lives and does not beat, as after SIGSTOP.
    let lease = Duration::from_millis(200);
    let begun = Instant::now();
    wait_until_free(&store, "job", lease, &mut |_| {}).expect("it ran out");
    assert!(begun.elapsed() >= lease);
    child.kill().expect("killed");
    child.wait().expect("reaped");
    let hour = Duration::from_secs(3600);
    wait_until_free(&store, "job", hour, &mut |text| panic!("{text}")).expect("at once");
}

#[test]
fn trouble_with_the_store_is_no_loss() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(&format!("file:{}", folder.path().display())).expect("a store");
    let lease = Duration::from_millis(60);
    let held = hold(&store, "job", 1, lease, |error| panic!("{error}")).expect("free");
    let until = |what: &str, holds: &dyn Fn() -> bool| {
        let end = Instant::now() + LEASE;
        while !holds() {
            assert!(Instant::now() < end, "not {what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    store.put(&name("job"), b"{").expect("written");
    until("told", &|| held.trouble().is_some());
    let said = held.trouble().expect("told");
    assert!(said.contains("`job/lease` is not a lease"), "{said}");
    let error = wait_until_free(&store, "job", lease, &mut |_| {}).expect_err("not a lease");
    assert!(error.text.contains("remove the object"), "{error}");
    store.delete(&name("job")).expect("removed");
    until("over", &|| held.trouble().is_none());
    drop(held);
    let found = read(&store, "job").expect("a lease").expect("written");
    assert!(found.released);
}

#[test]
fn the_object_is_json_that_a_person_can_read() {
    let store = Store::memory();
    kept(&mut heart(&store, 4));
    let bytes = store.get("job/lease").expect("asked").expect("there");
    let text = String::from_utf8(bytes).expect("text");
    assert!(text.starts_with(r#"{"incarnation":4,"host":""#), "{text}");
    // An older program wrote no `released`.
    let old = text.replace(r#","released":false"#, "");
    assert_ne!(old, text);
    store.put("job/lease", old.as_bytes()).expect("written");
    assert!(
        !read(&store, "job")
            .expect("a lease")
            .expect("there")
            .released
    );
}

#[test]
fn a_newcomer_that_stood_still_looks_again_before_it_calls_a_holder_dead() {
    // Its terminal has stopped it while it said that it waits; the holder beats meanwhile.
    let store = Store::memory();
    kept(&mut heart(&store, 7));
    let world = Hand {
        now: Cell::new(Duration::ZERO),
        gone: false,
        each: &|_| {},
    };
    let waited = wait(&store, "job", LEASE, &world, &mut |_| {
        world.now.set(LEASE * 2);
        kept(&mut heart(&store, 7));
    });
    assert_eq!(waited.expect_err("it lives").kind, ErrorKind::Refused);
}
