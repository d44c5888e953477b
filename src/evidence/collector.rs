//! The threads that collect evidence, and the desk between them and worker 0.
//!
//! Invariant: `seen`, `watch` and `want_cutoff` copy under a lock that no thread holds while it
//! asks or reads. The threads end by themselves when the collector is dropped, each after the
//! question that it is at; nobody waits for them.
//!
//! It cannot be asked for more than the last state of each thing: there is no history.

use super::database::{Database, Said};
use super::offsets::{self, Mode};
use super::slot::{Look, Proving, by_hand};
use super::{DatabaseSeen, Evidence, GenerationSeen, HeartbeatSeen, LiveSeen, NoticesSeen};
use super::{SnapshotSeen, Watched, topics, wall_ms};
use crate::config::Config;
use crate::connect::{Connect, Offsets};
use crate::error::Error;
use crate::generation::{Cutoff, Scan};
use crate::topic::Topics;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often is asked.
const EVERY: Duration = Duration::from_secs(1);
/// A connector's configuration is asked for anew after so many turns.
const CONFIG_TURNS: u32 = 30;

/// What is asked, and how.
pub struct Settings {
    /// Kafka Connect.
    pub connect: Option<Connect>,
    /// The name of the live connector.
    pub live: Option<String>,
    /// The heartbeat topic.
    pub heartbeat: Option<String>,
    /// The source database.
    pub(super) database: Option<Database>,
    /// What clocks may differ by.
    pub clock_skew_max_ms: i64,
    /// How often Kafka Connect and the database are asked.
    pub every: Duration,
}

impl Settings {
    /// Those of `[source]`.
    ///
    /// # Errors
    /// Of usage: an address that cannot be asked, or a secret that cannot be followed.
    pub fn of(config: &Config) -> Result<Settings, Error> {
        let source = &config.source;
        let connect = source.connect.as_ref();
        let url = connect.and_then(|connect| connect.url.as_ref());
        let url = url.map(|url| url.resolve()).transpose()?;
        let database = source
            .database
            .as_ref()
            .map(|url| url.resolve())
            .transpose()?;
        let skew_ms = source.clock_skew_max.as_millis();
        Ok(Settings {
            connect: url.map(|url| Connect::new(&url)).transpose()?,
            live: connect.and_then(|connect| connect.live.clone()),
            heartbeat: source.heartbeat.clone(),
            database: match database {
                Some(url) => Database::new(&url)?,
                None => None,
            },
            clock_skew_max_ms: i64::try_from(skew_ms).unwrap_or(i64::MAX),
            every: EVERY,
        })
    }
}

/// Collects until it is dropped.
pub struct Collector {
    shared: Arc<Shared>,
}

/// What is watched, by generation, each with the serial number of its watch.
pub(super) type WatchedBySerial = BTreeMap<String, (u64, Watched)>;

/// What the threads and worker 0 share.
pub(super) struct Shared {
    desk: Mutex<Desk>,
    changed: Condvar,
    skew_ms: i64,
    every: Duration,
}

#[derive(Default)]
struct Desk {
    ended: bool,
    /// With what tells one watch of a generation from the next.
    watched: WatchedBySerial,
    /// The slot of the live connector, once its configuration is known.
    slot: Option<String>,
    /// Somebody moves it by hand, so it proves nothing.
    slot_by_hand: bool,
    evidence: Evidence,
    /// Generations that wait for a cutoff.
    wanted: Vec<String>,
    /// Counts what was asked of the threads.
    asked: u64,
    /// Counts that, and what came into topics.
    news: u64,
}

impl Collector {
    /// Starts the threads that these settings need; asks nothing itself. Topics are read from their
    /// first offset on.
    ///
    /// # Errors
    /// When a thread cannot be made.
    pub fn start(settings: Settings, topics: Arc<dyn Topics>) -> Result<Collector, Error> {
        let Settings {
            connect,
            live,
            heartbeat,
            database,
            clock_skew_max_ms,
            every,
        } = settings;
        let shared = Arc::new(Shared {
            desk: Mutex::default(),
            changed: Condvar::new(),
            skew_ms: clock_skew_max_ms,
            every,
        });
        // Dropped on an error, so that the threads that were made end.
        let collector = Collector {
            shared: Arc::clone(&shared),
        };
        shared.tell(|evidence| {
            evidence.heartbeat = heartbeat.as_ref().map(|_| HeartbeatSeen::default());
            evidence.database = database.as_ref().map(|_| DatabaseSeen::default());
            let live = live.as_ref().filter(|_| connect.is_some());
            evidence.live = live.map(|_| LiveSeen::default());
        });
        if let Some(connect) = connect {
            let asker = Asker {
                shared: Arc::clone(&shared),
                connect,
                live,
                modes: BTreeMap::new(),
                turn: 0,
            };
            spawn("evidence-connect", move || asker.run())?;
        }
        if let Some(database) = database {
            let shared = Arc::clone(&shared);
            spawn("evidence-database", move || ask_database(&shared, database))?;
        }
        spawn("evidence-topics", move || {
            topics::run(&shared, &*topics, heartbeat)
        })?;
        Ok(collector)
    }

    /// Watches a generation, or watches it from now on with other sources or another begin: then
    /// what was seen of what has changed is dropped for what `watched` remembers.
    pub fn watch(&self, generation: &str, watched: Watched) {
        let mut desk = self.shared.lock();
        let known = desk.watched.get(generation).map(|(_, known)| known);
        let same_sources = known.is_some_and(|known| known.sources == watched.sources);
        let same = same_sources && known.is_some_and(|known| known.since_ms == watched.since_ms);
        if same {
            return;
        }
        desk.asked += 1;
        let serial = desk.asked;
        let fresh = first(&watched, serial);
        let seen = desk.evidence.generations.entry(generation.to_owned());
        match same_sources {
            true => {
                let seen = seen.or_default();
                seen.serial = serial;
                seen.notices = fresh.notices;
            }
            false => *seen.or_default() = fresh,
        }
        desk.watched
            .insert(generation.to_owned(), (serial, watched));
        self.shared.wake(desk);
    }

    /// Watches a generation no more, and forgets its cutoff.
    pub fn unwatch(&self, generation: &str) {
        let mut desk = self.shared.lock();
        desk.watched.remove(generation);
        desk.evidence.generations.remove(generation);
        desk.evidence.cutoffs.remove(generation);
        desk.wanted.retain(|wanted| wanted != generation);
        self.shared.wake(desk);
    }

    /// Asks for the cutoff of this moment: it comes into [`Evidence::cutoffs`], at once where there
    /// is no database to ask. What was there before stays until then only.
    pub fn want_cutoff(&self, generation: &str) {
        let mut desk = self.shared.lock();
        desk.evidence.cutoffs.remove(generation);
        if desk.evidence.database.is_none() {
            let time_ms = wall_ms().saturating_add(self.shared.skew_ms);
            let cutoff = Cutoff {
                time_ms,
                position: None,
            };
            desk.evidence.cutoffs.insert(generation.to_owned(), cutoff);
        } else if !desk.wanted.iter().any(|wanted| wanted == generation) {
            desk.wanted.push(generation.to_owned());
        }
        self.shared.wake(desk);
    }

    /// What was seen so far.
    pub fn seen(&self) -> Evidence {
        self.shared.lock().evidence.clone()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let mut desk = self.shared.lock();
        desk.ended = true;
        self.shared.wake(desk);
    }
}

/// What is seen of a generation before anything was asked.
fn first(watched: &Watched, serial: u64) -> GenerationSeen {
    let sources = &watched.sources;
    GenerationSeen {
        serial,
        notices: sources.notifications.as_ref().map(|_| NoticesSeen {
            scan: watched.scan.clone(),
            ..NoticesSeen::default()
        }),
        connector: sources.connector.as_ref().map(|_| SnapshotSeen {
            before: watched.before.clone(),
            ..SnapshotSeen::default()
        }),
        sources: sources.clone(),
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    let started = thread.spawn(run);
    started
        .map_err(|error| Error::failed(format!("the thread {name} cannot be made")).line(error))?;
    Ok(())
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// After something was asked of the threads.
    fn wake(&self, mut desk: MutexGuard<'_, Desk>) {
        desk.asked += 1;
        desk.news += 1;
        drop(desk);
        self.changed.notify_all();
    }

    /// Wakes the thread that reads topics.
    pub(super) fn news(&self) {
        self.lock().news += 1;
        self.changed.notify_all();
    }

    /// Changes what was seen.
    pub(super) fn tell(&self, change: impl FnOnce(&mut Evidence)) {
        change(&mut self.lock().evidence);
    }

    /// What notifications of a generation have told so far.
    fn scan(&self, generation: &str) -> Scan {
        let desk = self.lock();
        let seen = desk.evidence.generations.get(generation);
        let notices = seen.and_then(|seen| seen.notices.as_ref());
        notices
            .map(|notices| notices.scan.clone())
            .unwrap_or_default()
    }

    /// What is watched; none when the collector is gone.
    pub(super) fn watched(&self) -> Option<WatchedBySerial> {
        let desk = self.lock();
        (!desk.ended).then(|| desk.watched.clone())
    }

    /// Waits until something is asked, or for the time of a turn.
    fn wait_asked(&self, known: &mut u64) {
        *known = self.wait(|desk| desk.asked, *known).asked;
    }

    /// Waits until something is asked or comes into a topic, or for the time of a turn.
    pub(super) fn wait_news(&self, known: &mut u64) {
        *known = self.wait(|desk| desk.news, *known).news;
    }

    fn wait(&self, count: fn(&Desk) -> u64, known: u64) -> MutexGuard<'_, Desk> {
        let none = |desk: &mut Desk| count(desk) == known && !desk.ended;
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), self.every, none);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// The thread that asks Kafka Connect.
struct Asker {
    shared: Arc<Shared>,
    connect: Connect,
    live: Option<String>,
    /// How connectors take their snapshots.
    modes: BTreeMap<String, Mode>,
    turn: u32,
}

/// What was asked of a connector: state, why it does not run, offsets.
type Asked = (Option<String>, Option<String>, Offsets);

impl Asker {
    fn run(mut self) {
        let mut known = 0;
        while let Some(watched) = self.shared.watched() {
            if self.turn.is_multiple_of(CONFIG_TURNS) {
                self.modes.clear();
            }
            self.turn = self.turn.wrapping_add(1);
            self.ask_live();
            for (generation, (serial, watched)) in &watched {
                if let Some(connector) = &watched.sources.connector {
                    self.ask_snapshot(generation, *serial, watched, connector);
                }
            }
            self.shared.wait_asked(&mut known);
        }
    }

    fn ask(&self, name: &str) -> Result<Asked, String> {
        let said = |error: Error| error.text;
        let Some(status) = self.connect.status(name).map_err(said)? else {
            let none = format!("there is no connector `{name}`");
            return Ok((None, Some(none), Offsets::default()));
        };
        let offsets = self
            .connect
            .offsets(name)
            .map_err(said)?
            .unwrap_or_default();
        let stopped = status.trouble();
        Ok((Some(status.state), stopped, offsets))
    }

    /// How a connector takes its snapshots, asked now and then.
    fn mode(&mut self, name: &str) -> Result<Mode, String> {
        if let Some(mode) = self.modes.get(name) {
            return Ok(*mode);
        }
        let config = self.connect.config(name).map_err(|error| error.text)?;
        let Some(config) = config else {
            return Ok(Mode::Other);
        };
        let mode = Mode::of(config.get("snapshot.mode"));
        self.modes.insert(name.to_owned(), mode);
        if self.live.as_deref() == Some(name) {
            let slot = config.get("slot.name").unwrap_or("debezium");
            let by_hand = by_hand(config.get("lsn.flush.mode"), config.get("flush.lsn.source"));
            let mut desk = self.shared.lock();
            desk.slot = Some(slot.to_owned());
            desk.slot_by_hand = by_hand;
        }
        Ok(mode)
    }

    fn ask_live(&mut self) {
        let Some(name) = self.live.clone() else {
            return;
        };
        let asked = self.ask(&name);
        let mode = self.mode(&name);
        self.shared.tell(|evidence| {
            let seen = evidence.live.get_or_insert_default();
            match asked.and_then(|asked| mode.map(|_| asked)) {
                Ok((state, stopped, offsets)) => {
                    *seen = LiveSeen {
                        offsets: offsets::live(&offsets),
                        state,
                        stopped,
                        asked_ms: wall_ms(),
                        trouble: None,
                    }
                }
                Err(trouble) => seen.trouble = Some(trouble),
            }
        });
    }

    fn ask_snapshot(&mut self, generation: &str, serial: u64, watched: &Watched, name: &str) {
        // What was told before the offsets are asked for: they must not be older.
        let scan = self.shared.scan(generation);
        let scan = scan.trusted().cloned().unwrap_or_default();
        let asked = self.ask(name);
        let mode = self.mode(name);
        let (since_ms, skew_ms) = (watched.since_ms, self.shared.skew_ms);
        self.shared.tell(|evidence| {
            // Another source may have been given, or none, while it was asked.
            let seen = evidence.generations.get_mut(generation);
            let Some(seen) = seen.filter(|seen| seen.serial == serial) else {
                return;
            };
            let Some(seen) = &mut seen.connector else {
                return;
            };
            match asked.and_then(|asked| mode.map(|mode| (asked, mode))) {
                Ok(((state, stopped, offsets), mode)) => {
                    offsets::remember(&mut seen.before, &offsets);
                    let known = offsets::Known {
                        mode,
                        before: &seen.before,
                        scan: &scan,
                        since_ms,
                        clock_skew_max_ms: skew_ms,
                    };
                    seen.proof = Some(offsets::proves(&offsets, known));
                    seen.offsets = offsets::snapshot(&offsets);
                    seen.digest = offsets::digest(&offsets);
                    seen.state = state;
                    seen.stopped = stopped;
                    seen.asked_ms = wall_ms();
                    seen.trouble = None;
                }
                Err(trouble) => seen.trouble = Some(trouble),
            }
        });
    }
}

/// The thread that asks the source database.
fn ask_database(shared: &Shared, mut database: Database) {
    let mut known = 0;
    let (mut proving, mut of) = (Proving::default(), (0, None));
    loop {
        let (slot, by_hand, wanted) = {
            let mut desk = shared.lock();
            if desk.ended {
                return;
            }
            let wanted = std::mem::take(&mut desk.wanted);
            (desk.slot.clone(), desk.slot_by_hand, wanted)
        };
        let said = database.ask(slot.as_deref());
        let now_ms = wall_ms();
        if let Ok(said) = &said {
            let now = (
                said.connection,
                said.slot.as_ref().map(|slot| slot.name.clone()),
            );
            if now != of {
                // Another slot, or maybe another server, whose log lacks the end of the one before.
                (proving, of) = (Proving::default(), now);
            }
        }
        let proven = match &said {
            Ok(said) if !by_hand => prove(&mut proving, said, !wanted.is_empty()),
            _ => None,
        };
        let held = proving.held_by().map(held);
        shared.tell(|evidence| {
            let seen = evidence.database.get_or_insert_default();
            let mut cutoff = Cutoff {
                time_ms: now_ms.saturating_add(shared.skew_ms),
                position: None,
            };
            match said {
                Ok(said) => {
                    cutoff.position = said.position;
                    // Source time: the later of the two clocks.
                    cutoff.time_ms = now_ms.max(said.clock_ms).saturating_add(shared.skew_ms);
                    let standby = "a standby cannot tell the position of its primary";
                    *seen = DatabaseSeen {
                        clock_ahead_ms: said.clock_ms.saturating_sub(now_ms),
                        trouble: said.standby.then(|| standby.to_owned()),
                        asked_ms: now_ms,
                        proven,
                        held,
                        said,
                    };
                }
                Err(error) => seen.trouble = Some(error.text),
            }
            for generation in wanted {
                evidence.cutoffs.insert(generation, cutoff.clone());
            }
        });
        shared.wait_asked(&mut known);
    }
}

/// Transactions that must end before the slot proves anything.
fn held(by: &BTreeSet<u32>) -> String {
    let oldest = by.first().copied().unwrap_or_default();
    format!(
        "{} transactions of the source that ran when its position was taken have not ended, among \
         them xid {oldest} (pg_stat_activity, pg_prepared_xacts): end them, or wait",
        by.len()
    )
}

/// What the slot proves. A cutoff that is wanted is what it is to prove next.
fn prove(proving: &mut Proving, said: &Said, wanted: bool) -> Option<u64> {
    let position = said.position?;
    let proven = proving.look(Look {
        running: &said.running,
        position,
        confirmed: said.slot.as_ref().map(|slot| slot.confirmed),
    });
    if wanted {
        proving.next(position);
    }
    proven
}
