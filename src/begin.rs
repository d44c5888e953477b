//! How a run of a job begins: from the newest checkpoint, or afresh, as its only live run.
//!
//! In order: the lease (is an older run alive?), the checkpoint, what must not have changed, the
//! topics, the target; then the claim: the next manifest of the chain, by which this run owns the
//! job; then the target is taken. Processes other than 0 follow: they read the claim.
//!
//! Invariant: nothing is written before the claim but the lease, and no row before the target was
//! taken. A run that lost a race has changed nothing.
//!
//! It cannot tell a copied store from the original.

use crate::checkpoint::give_up::{give_up, way_out};
mod announce;

pub use announce::{announce, follow};

use crate::checkpoint::manifest::{
    FingerprintKey, JobTime, Markers, PartitionState, ReadControl, RetentionState, secret_hex,
};
use crate::checkpoint::reopen::{self, Need};
use crate::checkpoint::{self, Manifest};
use crate::cli;
use crate::config::Config;
use crate::error::Error;
use crate::events::Place;
use crate::failure::Failures;
use crate::guard::{fresh, margin_ms};
use crate::job::{Partitions, topic_names};
use crate::lease::{self, Lease};
use crate::run;
use crate::sink::admit::admit;
use crate::sink::{Applied, Claim, Claimed, Sink};
use crate::store::Store;
use crate::table::{Role, Table};
use crate::topic::resume::{resumable, same_topic};
use crate::topic::{Assignment, Topics};
use headwater_operators::fingerprint::FINGERPRINT_ID;
use headwater_operators::retention::KeepMarkers;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

/// What a run is begun with.
pub struct Terms<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// Its tables.
    pub tables: &'a [Table],
    /// The topics.
    pub topics: &'a dyn Topics,
    /// The target.
    pub sink: &'a dyn Sink,
    /// Where checkpoints are.
    pub store: &'a Store,
    /// Workers of all processes.
    pub workers: usize,
    /// Told when a later run has taken over.
    pub failures: &'a Arc<Failures>,
    /// An older checkpoint to go back to.
    pub from_checkpoint: Option<u64>,
    /// A generation to give up.
    pub abort_generation: Option<&'a str>,
    /// So many partitions of a grown mutation topic are accepted.
    pub accept_partitions: Option<u32>,
}

/// A run that owns its job.
pub struct Begun {
    /// The claim: what it goes on from.
    pub manifest: Manifest,
    /// Whether no checkpoint was there.
    pub fresh: bool,
    /// The checkpoint that it goes on from.
    pub from: Option<u64>,
    /// What the target answered.
    pub claimed: Claimed,
    /// How far the target is beyond the checkpoint, or may be.
    pub replay: Vec<Applied>,
    /// Shows others that this run lives.
    pub lease: Lease,
}

/// Process 0: makes this run the owner of the job and of the target.
///
/// # Errors
/// Whatever must be refused; see the module.
pub fn lead(terms: &Terms<'_>) -> Result<Begun, Error> {
    let job = &terms.config.job.job;
    // What is wrong with them is said before anything is written.
    Place::of(terms.config)?;
    run::settings::quarantine_topic(terms.config)?;
    run::settings::dead_letters(terms.config)?;
    let lease_time = terms.config.checkpoint.lease;
    lease::wait_until_free(terms.store, job, lease_time, &mut |text| cli::note(text))?;
    let numbers = checkpoint::numbers(terms.store, job)?;
    let mut previous = match (terms.from_checkpoint, numbers.last()) {
        (Some(number), _) => Some(checkpoint::load(terms.store, job, number)?),
        (None, Some(newest)) => Some(checkpoint::load(terms.store, job, *newest)?),
        (None, None) => None,
    };
    let fresh = previous.is_none();
    if let Some(id) = terms.abort_generation {
        given_up(terms, previous.as_mut(), id)?;
    }
    admit(
        terms.sink,
        terms.config.sink.replay_unsafe_because.as_deref(),
        fresh,
        run::settings::target_not_empty(terms.config),
    )?;
    let mut manifest = match &previous {
        Some(previous) => resumed(terms, previous)?,
        None => first(terms)?,
    };
    manifest.retention = retention(terms.config, previous.as_ref().map(|of| &of.retention));
    manifest.number = numbers.last().map_or(1, |newest| newest + 1);
    manifest.incarnation = next_incarnation(terms.store, job, &numbers);
    let shards = terms.workers * terms.sink.shards_a_worker().max(1);
    // An older checkpoint does not know of the shards of runs after it.
    let newest = numbers
        .last()
        .and_then(|newest| checkpoint::load(terms.store, job, *newest).ok());
    let of_newest = newest.map_or(0, |newest| newest.shards_max);
    let shards_before = manifest.shards_max.max(of_newest);
    manifest.shards_max = shards_before.max(shards);
    if fresh {
        terms.store.prove_create_if_absent(job)?;
    }
    checkpoint::claim(terms.store, &manifest)?;
    let failures = Arc::clone(terms.failures);
    let lost = move |error| failures.report(error);
    let lease = lease::hold(terms.store, job, manifest.incarnation, lease_time, lost)?;
    crate::fault::point("claim.target.before")?;
    let claimed = terms.sink.claim(&Claim {
        job: job.clone(),
        incarnation: manifest.incarnation,
        checkpoint: manifest.target_note,
        identity: manifest.target.clone(),
        shards_before,
    })?;
    crate::fault::point("claim.target.after")?;
    manifest.target.clone_from(&claimed.identity);
    let replay = match terms.sink.keeps_progress() {
        true => replay(terms, &mut manifest, &claimed.applied)?,
        false if fresh => Vec::new(),
        false => stream(terms, &manifest)?,
    };
    Ok(Begun {
        manifest,
        fresh,
        from: previous.map(|previous| previous.number),
        claimed,
        replay,
        lease,
    })
}

/// Goes on without a generation.
fn given_up(terms: &Terms<'_>, previous: Option<&mut Manifest>, id: &str) -> Result<(), Error> {
    let Some(previous) = previous else {
        return Err(Error::usage("there is no checkpoint, so no generation")
            .line("`--abort-generation` is for a job that has run before: start without it."));
    };
    let topics = terms.tables.iter().map(|table| table.snapshot.clone());
    let first = (run::FIRST_GENERATION, (0..).zip(topics).collect());
    let wall_ms = u64::try_from(wall_ms()).unwrap_or(0);
    if !give_up(previous, id, first, wall_ms)? {
        cli::note(&format!(
            "generation {id} is over: --abort-generation does nothing more"
        ));
    }
    Ok(())
}

/// What the target has seen of each partition beyond the checkpoint, and the log still holds.
fn replay(
    terms: &Terms<'_>,
    manifest: &mut Manifest,
    applied: &[Applied],
) -> Result<Vec<Applied>, Error> {
    let mut replay = Vec::new();
    for seen in applied {
        let same = |state: &&mut PartitionState| {
            state.role == seen.role
                && state.topic == seen.topic
                && state.partition == seen.partition
        };
        let Some(state) = manifest.offsets.iter_mut().find(same) else {
            continue;
        };
        if seen.next_offset <= state.next_offset {
            continue;
        }
        if crate::fault::planted("progress-skips") {
            state.next_offset = seen.next_offset;
            continue;
        }
        let ranges = terms.topics.ranges(&seen.topic)?;
        let high = ranges
            .get(seen.partition as usize)
            .map_or(0, |range| range.high);
        if seen.next_offset > high {
            return Err(seen_and_gone(seen, high));
        }
        replay.push(seen.clone());
    }
    Ok(replay)
}

/// The error about records that the target has and the log has no more.
fn seen_and_gone(seen: &Applied, high: u64) -> Error {
    let (topic, partition, next_offset) = (&seen.topic, seen.partition, seen.next_offset);
    Error::refused(format!(
        "topic {topic} partition {partition}: the target has seen more than the log holds"
    ))
    .line(format!(
        "the target goes up to offset {next_offset}, the log ends at {high}"
    ))
    .line("the log was cut (an unclean leader election, a restored broker): rows of records that")
    .line("are gone would stay in the target for ever")
    .line("what to do: start a new job with a new snapshot and an empty target")
}

/// For a target that does not say how far it is: no farther than the topics are now.
fn stream(terms: &Terms<'_>, manifest: &Manifest) -> Result<Vec<Applied>, Error> {
    let mut replay = Vec::new();
    let topics: BTreeSet<&String> = manifest.offsets.iter().map(|state| &state.topic).collect();
    for topic in topics {
        let ranges = terms.topics.ranges(topic)?;
        for state in manifest
            .offsets
            .iter()
            .filter(|state| state.topic == *topic)
        {
            let range = ranges.get(state.partition as usize);
            if let Some(range) = range.filter(|range| range.high > state.next_offset) {
                replay.push(Applied {
                    role: state.role,
                    topic: topic.clone(),
                    partition: state.partition,
                    next_offset: range.high,
                });
            }
        }
    }
    Ok(replay)
}

/// Looks again whether this run owns the job, when its writers are made: one that was paused
/// between its claim and then would take the target from its successor. Writers first, then this
/// look: either this sees the successor's claim, or the successor's writers come after ours.
///
/// # Errors
/// When a later run has claimed the job.
pub fn still_owned(store: &Store, manifest: &Manifest) -> Result<(), Error> {
    let job = &manifest.job;
    // Of this run there is no other manifest before all its workers have begun.
    match checkpoint::numbers(store, job)?.last() {
        Some(last) if *last > manifest.number => {
            let object = checkpoint::name(job, *last);
            Err(
                Error::refused(format!("fenced: another run of job {job} has taken over"))
                    .line(format!("found     {object} in {}", store.place()))
                    .line("This run has written nothing. One job has one live run."),
            )
        }
        _ => Ok(()),
    }
}

/// Refuses a checkpoint whose marker runs are not all there, before anything is claimed.
fn whole(store: &Store, manifest: &Manifest) -> Result<(), Error> {
    for run in manifest.markers.runs.iter().filter(|run| run.markers > 0) {
        let size = store.size(&run.file)?;
        if size != Some(run.bytes) {
            let found = size.map_or_else(|| "nothing".to_owned(), |size| format!("{size} bytes"));
            return Err(checkpoint::damaged(store, manifest.number, run, &found));
        }
    }
    Ok(())
}

/// Greater than that of every run before. A damaged manifest can hide one number at most.
pub(crate) fn next_incarnation(store: &Store, job: &str, numbers: &[u64]) -> u32 {
    let (mut greatest, mut damaged) = (0, 0);
    for number in numbers {
        match checkpoint::load(store, job, *number) {
            Ok(manifest) => greatest = greatest.max(manifest.incarnation),
            Err(_) => damaged += 1,
        }
    }
    greatest + damaged + 1
}

/// What a fresh job would go on from: the start of its topics.
fn first(terms: &Terms<'_>) -> Result<Manifest, Error> {
    let mut secret = [0; 16];
    getrandom::fill(&mut secret)
        .map_err(|error| Error::failed(format!("no random numbers here: {error}")))?;
    let partitions = run::partitions(terms.topics, terms.tables, terms.config)?;
    // After the starts were looked up: what is appended from now on is read.
    let found = fresh::look(
        terms.topics,
        terms.tables,
        terms.config,
        &partitions,
        wall_ms(),
    )?;
    found.notes.iter().for_each(|note| cli::note(note));
    let states = [Role::Mutations, Role::Snapshot].map(|role| {
        let states = partitions.of(role).iter();
        states.map(move |from| PartitionState {
            role,
            topic: from.topic.clone(),
            partition: from.partition,
            next_offset: from.next_offset,
            end: None,
            first_source_ms: None,
            last_source_ms: None,
        })
    });
    let mut topic_ids = BTreeMap::new();
    for topic in topic_names_of_all(terms.tables) {
        if let Some(id) = terms.topics.topic_id(&topic)? {
            topic_ids.insert(topic, id);
        }
    }
    Ok(Manifest {
        number: 0,
        job: terms.config.job.job.clone(),
        incarnation: 0,
        claimant: None,
        identity: identity(terms.config, terms.tables),
        target: None,
        target_note: 0,
        fingerprint: FingerprintKey {
            id: u32::from(FINGERPRINT_ID),
            secret: secret_hex(&secret),
        },
        time: JobTime {
            tick_ms: terms.config.limits.tick_ms,
            cut_ms: 0,
            now_ms: 0,
            wall: Vec::new(),
        },
        topic_ids,
        offsets: states.into_iter().flatten().collect(),
        retention: RetentionState::default(),
        markers: Markers::default(),
        poison_marks: Vec::new(),
        dead_letters: Vec::new(),
        generations: Vec::new(),
        requests: Vec::new(),
        read_control: ReadControl::default(),
        events_sent: 0,
        starts: found.starts,
        shapes: Vec::new(),
        shards_max: 0,
    })
}

/// The time, ms since 1970.
fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}

/// Of the configuration; but a ttl that a person has set while the job ran counts until the
/// configuration says something else.
fn retention(config: &Config, previous: Option<&RetentionState>) -> RetentionState {
    let start_margin_ms = margin_ms(config);
    match run::settings::keep_markers(config) {
        KeepMarkers::Ttl { ttl_ms } => {
            let set = previous.filter(|of| of.ttl_configured_ms == Some(ttl_ms));
            RetentionState {
                ttl_ms: Some(set.and_then(|of| of.ttl_ms).unwrap_or(ttl_ms)),
                open_late_max_ms: None,
                start_margin_ms,
                ttl_configured_ms: set.and_then(|of| of.ttl_configured_ms),
            }
        }
        KeepMarkers::UntilReady { open_late_max_ms } => RetentionState {
            ttl_ms: None,
            open_late_max_ms: Some(open_late_max_ms),
            start_margin_ms,
            ttl_configured_ms: None,
        },
    }
}

/// What may not change between two runs: another value would need another job.
pub(crate) fn identity(config: &Config, tables: &[Table]) -> BTreeMap<String, String> {
    let mut identity = BTreeMap::new();
    for (index, table) in tables.iter().enumerate() {
        let mut put = |key: &str, value: String| {
            identity.insert(format!("table[{index}].{key}"), value);
        };
        put("name", table.name.clone());
        put("mutations", table.mutations.clone());
        put("snapshot", table.snapshot.clone());
        let key = table.key.as_ref().map(|key| key.join(", "));
        put(
            "key",
            key.unwrap_or_else(|| "that of the records".to_owned()),
        );
    }
    identity.extend(run::settings::target_identity(config));
    identity
}

/// Whether a run with this configuration is still the same job as `previous`.
///
/// # Errors
/// Refused; both sides of the first setting that differs are named.
pub(crate) fn same_identity(
    previous: &Manifest,
    config: &Config,
    tables: &[Table],
) -> Result<(), Error> {
    let wanted = identity(config, tables);
    let names = previous.identity.keys().chain(wanted.keys());
    let changed = names
        .into_iter()
        .find(|name| previous.identity.get(*name) != wanted.get(*name));
    if let Some(name) = changed {
        let word = |side: &BTreeMap<String, String>| {
            side.get(name)
                .cloned()
                .unwrap_or_else(|| "nothing".to_owned())
        };
        return Err(Error::refused(format!(
            "`{name}` of job {} has changed since checkpoint {}",
            previous.job, previous.number
        ))
        .line(format!("checkpoint     {}", word(&previous.identity)))
        .line(format!("configuration  {}", word(&wanted)))
        .line("Markers and offsets belong to the old value. Put it back, or give the rebuild")
        .line("another `job` name, with a target of its own."));
    }
    Ok(())
}

/// The checkpoint `previous`, if this run may go on from it.
fn resumed(terms: &Terms<'_>, previous: &Manifest) -> Result<Manifest, Error> {
    same_identity(previous, terms.config, terms.tables)?;
    if previous.fingerprint.id != u32::from(FINGERPRINT_ID) {
        return Err(Error::refused(format!(
            "checkpoint {} was made with another fingerprint function",
            previous.number
        ))
        .line(format!("found     function {}", previous.fingerprint.id))
        .line(format!("expected  function {FINGERPRINT_ID}"))
        .line("Go on with the program that wrote it, or start a new job."));
    }
    whole(terms.store, previous)?;
    let mut manifest = previous.clone();
    manifest.claimant = None;
    let tick_ms = terms.config.limits.tick_ms;
    if manifest.time.tick_ms != tick_ms {
        // Sources stamp with the tick before, which must not lie before an open.
        manifest.time.now_ms = manifest.time.now_ms.next_multiple_of(tick_ms) + tick_ms;
        manifest.time.tick_ms = tick_ms;
    }
    manifest.offsets = partitions_that_go_on(terms, previous)?;
    Ok(manifest)
}

/// The partitions that are read on, when their topics are those that `previous` was made of.
fn partitions_that_go_on(
    terms: &Terms<'_>,
    previous: &Manifest,
) -> Result<Vec<PartitionState>, Error> {
    let mut states = Vec::new();
    for topic in topic_names(terms.tables, Role::Mutations) {
        states.extend(go_on(terms, previous, (Role::Mutations, false), &topic)?);
    }
    for (topic, need) in reopen::read_topics(previous, terms.tables) {
        let frozen = !matches!(need, Need::Reads { frozen: false, .. });
        match (
            go_on(terms, previous, (Role::Snapshot, frozen), &topic),
            need,
        ) {
            (Ok(of_topic), _) => states.extend(of_topic),
            (Err(error), Need::Reads { id, .. }) => return Err(error.line(way_out(&id))),
            // Its generation is ready, and the topic may be gone: nothing in it is needed.
            (Err(error), Need::Late) => {
                cli::note(&format!("late READs are not looked for: {}", error.text))
            }
        }
    }
    Ok(states)
}

/// The partitions of one topic; `frozen`: those that it has got since hold late READs only.
fn go_on(
    terms: &Terms<'_>,
    previous: &Manifest,
    (role, frozen): (Role, bool),
    topic: &str,
) -> Result<Vec<PartitionState>, Error> {
    let found = terms.topics.topic_id(topic)?;
    let saved = previous.topic_ids.get(topic).map(String::as_str);
    same_topic(topic, saved, found.as_deref())?;
    let of_topic: Vec<&PartitionState> = previous.of(role).filter(|of| of.topic == topic).collect();
    let saved: Vec<Assignment> = of_topic.iter().map(|state| assignment(state)).collect();
    let ranges = |topic: &str| terms.topics.ranges(topic);
    let all = resumable(role, &saved, terms.accept_partitions, ranges)?;
    let state = |from: Assignment| {
        let known = of_topic.iter().find(|of| of.partition == from.partition);
        PartitionState {
            role,
            topic: from.topic,
            partition: from.partition,
            next_offset: from.next_offset,
            end: known.map_or(frozen.then_some(from.next_offset), |state| state.end),
            first_source_ms: known.and_then(|state| state.first_source_ms),
            last_source_ms: known.and_then(|state| state.last_source_ms),
        }
    };
    Ok(all.into_iter().map(state).collect())
}

/// The topics of both roles.
fn topic_names_of_all(tables: &[Table]) -> Vec<String> {
    [Role::Mutations, Role::Snapshot]
        .map(|role| topic_names(tables, role))
        .concat()
}

/// Where a manifest has each role's partitions go on.
pub fn partitions(manifest: &Manifest) -> Partitions {
    let of = |role| manifest.of(role).map(assignment).collect();
    Partitions {
        mutations: of(Role::Mutations),
        snapshot: of(Role::Snapshot),
    }
}

fn assignment(state: &PartitionState) -> Assignment {
    Assignment {
        topic: state.topic.clone(),
        partition: state.partition,
        next_offset: state.next_offset,
    }
}
