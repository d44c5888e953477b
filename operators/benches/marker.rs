//! The marker arrangement beside a differential spine and a hash map.
//!
//! Marks distinct keys in batches, then looks up as many known as unknown keys, and prints a row a
//! store: time, the longest single call, heap bytes a marker. Numbers compare within one run only.
//! `cargo bench -p headwater-operators --bench marker -- 1 10` sets the sizes, in millions.
//! It cannot show what a cold disk or another load on the machine would do.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use differential_dataflow::batcher::{Batcher, Extract};
use differential_dataflow::trace::cursor::{Cursor, cursor_list};
use differential_dataflow::trace::implementations::{KeyBatcher, KeySpine};
use differential_dataflow::trace::{Description, Span, Trace, TraceReader};
use headwater_operators::marker::{Latest, MarkerArrangement, MarkerConfig, MarkerStore};
use timely::dataflow::operators::generic::OperatorInfo;
use timely::progress::Antichain;
use timely::progress::frontier::AntichainRef;

const BATCH: usize = 10_000;
const LOOKUP_BATCHES: usize = 200;
const TICK_MS: u64 = 20;
const HOUR_MS: u64 = 3_600_000;

/// Counts the heap, so that every store is measured by the same rule.
struct Counting;

static HEAP: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: hands every call to the system allocator unchanged, and counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = HEAP.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(now, Relaxed);
        // SAFETY: the caller's promises are those of the system allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HEAP.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above; the pointer came from `alloc`, so from the system allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What the bench asks of a store.
trait Store {
    fn mark(&mut self, tick: u64, fingerprints: &[u128]);
    /// Background work for as many marks as a batch has; true when more is owed.
    fn work(&mut self, idle: bool) -> bool;
    /// How many of the fingerprints have a marker.
    fn look(&mut self, fingerprints: &[u128]) -> usize;
    fn note(&self) -> String;
    /// Forgets through a tick, where the store can.
    fn forget_through(&mut self, _horizon: u64) {}
}

struct Ours(MarkerArrangement, Vec<Option<u64>>);

impl Store for Ours {
    fn mark(&mut self, tick: u64, fingerprints: &[u128]) {
        self.0.mark(tick, fingerprints);
    }

    fn work(&mut self, idle: bool) -> bool {
        self.0.work(if idle { 100_000 } else { 12 * BATCH })
    }

    fn look(&mut self, fingerprints: &[u128]) -> usize {
        self.1.clear();
        self.0.latest(fingerprints, &mut self.1);
        self.1.iter().flatten().count()
    }

    fn forget_through(&mut self, horizon: u64) {
        self.0.forget_through(horizon);
    }

    fn note(&self) -> String {
        let stats = self.0.stats();
        format!(
            "{} runs, {} owed, {} bytes by its own count",
            stats.runs, stats.owed, stats.bytes
        )
    }
}

struct Map(HashMap<u128, u64>);

impl Store for Map {
    fn mark(&mut self, tick: u64, fingerprints: &[u128]) {
        for fingerprint in fingerprints {
            let latest = self.0.entry(*fingerprint).or_insert(0);
            *latest = tick.max(*latest);
        }
    }

    fn work(&mut self, _idle: bool) -> bool {
        false
    }

    fn look(&mut self, fingerprints: &[u128]) -> usize {
        fingerprints
            .iter()
            .filter(|key| self.0.contains_key(key))
            .count()
    }

    fn note(&self) -> String {
        String::new()
    }
}

type Spine = KeySpine<u128, u64, Latest>;

/// Differential's own arrangement, owned as an operator would, with the latest tick as difference.
struct Differential {
    trace: Spine,
    batcher: KeyBatcher<u128, u64, Latest>,
    upper: u64,
}

impl Differential {
    fn new() -> Self {
        let mut trace = Spine::new(OperatorInfo::new(0, 0, Rc::from([])), None, None);
        trace.set_exert_logic(std::sync::Arc::new(|levels: &[(usize, usize, usize)]| {
            let batches = levels.iter().map(|(_, count, _)| count).sum::<usize>();
            (batches > 1).then_some(100_000)
        }));
        Self {
            trace,
            batcher: KeyBatcher::new(None, 0),
            upper: 0,
        }
    }
}

impl Store for Differential {
    fn mark(&mut self, tick: u64, fingerprints: &[u128]) {
        let rows = fingerprints
            .iter()
            .map(|key| ((*key, ()), tick, Latest(tick)));
        self.batcher.insert(&mut rows.collect::<Vec<_>>());
        let frontier = |tick: u64| Antichain::from_elem(tick);
        let (lower, upper) = (frontier(self.upper), frontier(tick + 1));
        let (batch, _) = self.batcher.extract(upper.borrow());
        let description = Description::new(lower, upper.clone(), frontier(0));
        self.trace
            .insert(Span::new(description, batch.map(Into::into)));
        self.trace.set_logical_compaction(upper.borrow());
        self.trace.set_physical_compaction(upper.borrow());
        self.upper = tick + 1;
    }

    fn work(&mut self, idle: bool) -> bool {
        self.trace.exert();
        let mut batches = 0;
        self.trace
            .map_spans(|span| batches += usize::from(span.inner.is_some()));
        idle && batches > 1
    }

    fn look(&mut self, fingerprints: &[u128]) -> usize {
        let mut sorted = fingerprints.to_vec();
        sorted.sort_unstable();
        let batches = self
            .trace
            .batches_through(AntichainRef::new(&[]))
            .expect("all is through");
        let (mut cursor, storage) = cursor_list(batches);
        let mut known = 0;
        for key in &sorted {
            cursor.seek_key(&storage, key);
            if cursor.get_key(&storage) == Some(key) {
                let mut latest = 0;
                cursor.map_times(&storage, |_, tick| latest = latest.max(tick.0));
                known += usize::from(latest < u64::MAX);
            }
        }
        known
    }

    fn note(&self) -> String {
        String::new()
    }
}

fn fingerprint(n: u64) -> u128 {
    let mix = |mut z: u64| {
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    let n = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (u128::from(mix(n)) << 64) | u128::from(mix(!n))
}

#[repr(C)]
struct TimeSpec {
    seconds: i64,
    nanoseconds: i64,
}

unsafe extern "C" {
    fn clock_gettime(clock: i32, time: *mut TimeSpec) -> i32;
}

/// Seconds of CPU that this thread has used, so that neighbours on the machine do not count.
fn cpu_seconds() -> f64 {
    const CLOCK_THREAD_CPUTIME_ID: i32 = 3;
    let mut time = TimeSpec {
        seconds: 0,
        nanoseconds: 0,
    };
    // SAFETY: `time` is a valid timespec of 64-bit Linux for the length of the call.
    let result = unsafe { clock_gettime(CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(
        result, 0,
        "the thread's CPU clock (64-bit Linux) cannot be read"
    );
    time.seconds as f64 + time.nanoseconds as f64 / 1e9
}

/// Runs a call; its result, seconds of CPU, and the longest so far in `longest`.
fn timed<R>(longest: &mut f64, call: impl FnOnce() -> R) -> (R, f64) {
    let start = cpu_seconds();
    let result = call();
    let seconds = cpu_seconds() - start;
    *longest = longest.max(seconds);
    (result, seconds)
}

fn measure(name: &str, markers: usize, hours: u64, make: impl FnOnce() -> Box<dyn Store>) {
    let heap = HEAP.load(Relaxed);
    PEAK.store(heap, Relaxed);
    let mut store = make();
    let (mut marking, mut working, mut looking) = (0.0, 0.0, 0.0);
    let mut longest = [0.0; 3];
    let batches = markers / BATCH;
    let tick = |batch: usize| hours * HOUR_MS * batch as u64 / batches as u64 / TICK_MS * TICK_MS;
    for batch in 0..batches {
        let first = (batch * BATCH) as u64;
        let keys: Vec<_> = (first..first + BATCH as u64).map(fingerprint).collect();
        marking += timed(&mut longest[0], || store.mark(tick(batch), &keys)).1;
        working += timed(&mut longest[1], || store.work(false)).1;
    }
    let peak = PEAK.load(Relaxed) - heap;
    let note_loaded = store.note();
    let mut known = 0;
    for batch in 0..LOOKUP_BATCHES {
        let key = |n: usize| fingerprint((batch * BATCH + n) as u64 * 7919 % (2 * markers) as u64);
        let keys: Vec<_> = (0..BATCH).map(key).collect();
        let (found, seconds) = timed(&mut longest[2], || store.look(&keys));
        (known, looking) = (known + found, looking + seconds);
    }
    let lookups = LOOKUP_BATCHES * BATCH;
    assert!(
        known * 10 > lookups * 4 && known * 10 < lookups * 6,
        "{known} of {lookups} known"
    );
    while timed(&mut longest[1], || store.work(true)).0 {}
    let bytes = HEAP.load(Relaxed) - heap;
    let each = |seconds: f64, count: usize| seconds * 1e9 / count as f64;
    println!(
        "{name:<24} {:>5} {hours:>5} {:>8.0} {:>8.0} {:>8.0} {:>9.1} {:>9.1} {:>9.1} {:>8.2} \
         {:>8.2}",
        markers / 1_000_000,
        each(marking, markers),
        each(working, markers),
        each(looking, lookups),
        longest[0] * 1e3,
        longest[1] * 1e3,
        longest[2] * 1e3,
        bytes as f64 / markers as f64,
        peak as f64 / markers as f64,
    );
    for note in [note_loaded, store.note()]
        .iter()
        .filter(|note| !note.is_empty())
    {
        println!("    {note}");
    }
    let mut longest = 0.0;
    for part in 1..=64 {
        let horizon = hours * HOUR_MS * part / 64;
        timed(&mut longest, || store.forget_through(horizon));
        while timed(&mut longest, || store.work(true)).0 {}
    }
    println!(
        "    longest call while all is forgotten: {:.1} ms",
        longest * 1e3
    );
}

fn main() {
    let sizes: Vec<usize> = std::env::args()
        .filter_map(|arg| arg.parse().ok())
        .collect();
    let sizes = if sizes.is_empty() { vec![1, 10] } else { sizes };
    println!("ns a marker or lookup; longest call in ms; heap bytes a marker, at rest and at most");
    println!(
        "{:<24} {:>5} {:>5} {:>8} {:>8} {:>8} {:>9} {:>9} {:>9} {:>8} {:>8}",
        "store",
        "M",
        "hours",
        "mark",
        "merge",
        "lookup",
        "mark max",
        "merge max",
        "look max",
        "bytes",
        "peak"
    );
    for millions in sizes {
        let markers = millions * 1_000_000;
        for hours in [1, 72] {
            measure("marker arrangement", markers, hours, || {
                let config = MarkerConfig::new(0..=u64::MAX, TICK_MS);
                Box::new(Ours(MarkerArrangement::new(config), Vec::new()))
            });
        }
        measure("differential spine, max", markers, 72, || {
            Box::new(Differential::new())
        });
        measure("HashMap<u128, u64>", markers, 72, || {
            Box::new(Map(HashMap::new()))
        });
    }
}
