//! The manifest: everything that a restore needs, as one small object of text.
//!
//! ```text
//! headwater-manifest 1 <SHA-256 of the rest, in hex>\n
//! { JSON }\n
//! ```
//! Invariant: bytes that are not exactly a manifest of a known format give an error. It holds no
//! row and no credential, but the key of the fingerprints: whoever can read it could find keys that
//! collide.
//!
//! **Versions.** A member that comes later is `#[serde(default)]`, so that older manifests stay
//! readable, and a member that is not known is passed over, so that an older program reads newer
//! ones of its format, and drops it. A member that must not be passed over, because rows would be
//! wrong without it, raises [`FORMAT`]. Of the members here those are required that a restore
//! cannot do without, null or not. Each change comes with a fixture: see `tests/fixtures/`.
//!
//! It cannot tell an older, intact manifest from the newest: the chain does.

mod rate;

use crate::dead_letter::{Accepted, Counted};
use crate::evidence::offsets::Before;
use crate::generation::record::Said;
use crate::generation::{Answer, Cutoff, Promotion, Reached, ReadsSeen, Scan, Sources, Stage};
use crate::guard::budget::Rates;
use crate::guard::start::PartitionStart;
use crate::key::KnownShape;
use crate::table::Role;
use headwater_operators::control::PartitionTarget;
use headwater_operators::poison::PoisonMark;
use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;

/// The format that this program writes.
pub const FORMAT: u32 = 1;
const MAGIC: &str = "headwater-manifest";

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Its place in the chain, from 1.
    pub number: u64,
    /// The job.
    pub job: String,
    /// The run of the job that wrote it.
    pub incarnation: u32,
    /// In a claim, random: of two runs that go on from one checkpoint, one owns the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimant: Option<String>,
    /// What may not change between two runs, by setting.
    pub identity: BTreeMap<String, String>,
    /// What the target is known by; none until it was claimed.
    #[serde(default)]
    pub target: Option<String>,
    /// The last checkpoint whose number was left in the target; 0 for none.
    #[serde(default)]
    pub target_note: u64,
    /// How keys were fingerprinted.
    pub fingerprint: FingerprintKey,
    /// Where logical time stood.
    pub time: JobTime,
    /// What tells a topic from one that was made anew under its name, where topics have that.
    #[serde(default)]
    pub topic_ids: BTreeMap<String, String>,
    /// Partitions of both roles.
    pub offsets: Vec<PartitionState>,
    /// How long markers are kept, as the run that wrote it was configured.
    #[serde(default)]
    pub retention: RetentionState,
    /// The markers.
    pub markers: Markers,
    /// Keys whose last mutation could not be decoded, at export like the markers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub poison_marks: Vec<PoisonState>,
    /// Mutations that could not be decoded and went to the dead letters, in all runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dead_letters: Vec<Counted>,
    /// Every generation.
    pub generations: Vec<GenerationState>,
    /// Requests that were answered last, oldest first.
    #[serde(default)]
    pub requests: Vec<Done>,
    /// How READs are read, as persons have asked.
    #[serde(default)]
    pub read_control: ReadControl,
    /// Transitions that were told outside.
    #[serde(default)]
    pub events_sent: u64,
    /// Where each mutation partition was read from when the job began.
    #[serde(default)]
    pub starts: Vec<PartitionStart>,
    /// The key shapes of both sides of each table.
    #[serde(default)]
    pub shapes: Vec<KnownShape>,
    /// Shards that any run of the job has written through, at most.
    pub shards_max: usize,
}

/// The function and the key of fingerprints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FingerprintKey {
    /// Which function; see `headwater_operators::fingerprint`.
    pub id: u32,
    /// Its key, in hex.
    pub secret: String,
}

/// Logical time of the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobTime {
    /// Length of a tick.
    pub tick_ms: u64,
    /// The cut: the tick before which everything is in the checkpoint.
    pub cut_ms: u64,
    /// When it was written; time goes on from here. Not before any tick of a marker.
    pub now_ms: u64,
    /// Logical time and wall time (ms since 1970), coarse, ascending.
    #[serde(default)]
    pub wall: Vec<(u64, u64)>,
}

/// One partition at the cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionState {
    /// What its topic is for.
    pub role: Role,
    /// Topic.
    pub topic: String,
    /// Number.
    pub partition: u32,
    /// The first offset that is not in the checkpoint.
    pub next_offset: u64,
    /// The frozen end of a snapshot partition, once it is known.
    #[serde(deserialize_with = "required")]
    pub end: Option<u64>,
    // These are sent between workers in a format that knows no absent members: none is skipped.
    /// The source time of the first mutation that was ever read of it, ms since 1970.
    #[serde(default)]
    pub first_source_ms: Option<i64>,
    /// The latest source time of a mutation that was read of it.
    #[serde(default)]
    pub last_source_ms: Option<i64>,
}

/// The markers at export.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Markers {
    /// The runs that hold them.
    pub runs: Vec<RunRef>,
    /// What each worker knew of marked and forgotten ticks.
    pub ticks: Vec<Ticks>,
}

/// A run, or the part of one that a worker took over at a restore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRef {
    /// Object name.
    pub file: String,
    /// First high half of a fingerprint that counts.
    pub first: u64,
    /// Last one.
    pub last: u64,
    /// Markers in the part.
    pub markers: u64,
    /// Size of the whole object.
    pub bytes: u64,
}

/// A key whose last mutation could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoisonState {
    /// Its fingerprint, in hex.
    pub fingerprint: String,
    /// The tick of the mutation.
    pub tick_ms: u64,
}

impl PoisonState {
    /// As the merge knows it; none when the fingerprint is not 16 bytes in hex.
    pub fn mark(&self) -> Option<PoisonMark> {
        Some(PoisonMark {
            fingerprint: u128::from_be_bytes(unhex(&self.fingerprint)?),
            tick_ms: self.tick_ms,
        })
    }

    /// Of a fingerprint and a tick.
    pub fn of(fingerprint: u128, tick_ms: u64) -> PoisonState {
        PoisonState {
            fingerprint: hex(&fingerprint.to_be_bytes()),
            tick_ms,
        }
    }
}

/// Marked ticks of one worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticks {
    /// Everything at or below it is forgotten.
    #[serde(deserialize_with = "required")]
    pub horizon: Option<u64>,
    /// The latest tick of a marker that was forgotten.
    #[serde(deserialize_with = "required")]
    pub forgotten: Option<u64>,
    /// First and last of each span of marked ticks above the horizon.
    pub spans: Vec<(u64, u64)>,
}

/// Which markers are kept; a setting that may change between two runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetentionState {
    /// With the `ttl` policy: how long a marker lives.
    pub ttl_ms: Option<u64>,
    /// With `until_ready`: how late a generation may be opened.
    pub open_late_max_ms: Option<u64>,
    /// What a snapshot read from a lagging replica may miss.
    pub start_margin_ms: u64,
    /// The ttl of the configuration at the time when a person set another one, which `ttl_ms` is
    /// then: it counts until the configuration says something else.
    #[serde(default)]
    pub ttl_configured_ms: Option<u64>,
}

/// A request that was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Its id.
    pub id: String,
    /// What was said.
    pub answer: Answer,
}

/// How READs are read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadControl {
    /// Whether none are.
    pub paused: bool,
    /// READs a second of the whole job, where a person has set it: `Some(None)` is no limit.
    #[serde(default, with = "rate")]
    pub per_second_max: Option<Option<u64>>,
    /// The rate of the configuration when a person set another: that one counts until the
    /// configuration says something else.
    #[serde(default, with = "rate")]
    pub per_second_configured: Option<Option<u64>>,
    /// The marker limit, where a person has set it.
    #[serde(default)]
    pub markers_max: Option<u64>,
    /// That of the configuration when a person set another, likewise.
    #[serde(default)]
    pub markers_max_configured: Option<u64>,
}

/// One generation at the cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationState {
    /// Its number, from 1.
    pub number: u32,
    /// Its id, as end-of-snapshot records carry it.
    pub id: String,
    /// Numbers of its tables.
    pub tables: Vec<u16>,
    /// When its snapshot began, in logical time.
    pub opened_at_ms: u64,
    /// What its end stands on, once it was frozen.
    #[serde(default)]
    pub evidence: Option<String>,
    /// READs that may be stale: quarantined, or emitted all the same. One of them, and the
    /// generation can never be ready. May count one twice that was read again after a restart.
    #[serde(default)]
    pub unsafe_reads: u64,
    /// READs behind a frozen end, likewise.
    #[serde(default)]
    pub late_reads: u64,
    /// Dead letters of its tables that persons have accepted as lost.
    #[serde(default)]
    pub dead_letters_accepted: Vec<Accepted>,
    /// The snapshot topic of each table, by number; empty: that of the configuration.
    #[serde(default)]
    pub topics: BTreeMap<u16, String>,
    /// Tables that it goes on without.
    #[serde(default)]
    pub dropped_tables: Vec<u16>,
    /// READs that were read at the source before this are of an older run, ms since 1970; 0: none.
    #[serde(default)]
    pub not_before_ms: i64,
    /// How far it is.
    #[serde(default)]
    pub stage: Stage,
    /// When it came into which stage, oldest first.
    #[serde(default)]
    pub reached: Vec<Reached>,
    /// When its snapshot began, ms since 1970, and how that is known.
    #[serde(default)]
    pub began: Option<(i64, String)>,
    /// Where its evidence comes from.
    #[serde(default)]
    pub sources: Sources,
    /// What is remembered of its snapshot connector.
    #[serde(default)]
    pub before: Before,
    /// READs before the cut.
    #[serde(default)]
    pub reads: Vec<ReadsSeen>,
    /// How fast its READs were read.
    #[serde(default)]
    pub rates: Rates,
    /// What notifications have told.
    #[serde(default)]
    pub scan: Scan,
    /// What a person said of its end.
    #[serde(default)]
    pub said: Option<Said>,
    /// What the live connector must pass; known when the ends are frozen.
    #[serde(default)]
    pub live_cutoff: Option<Cutoff>,
    /// Up to where mutations must be read; sampled when the live connector has passed the cutoff.
    #[serde(default)]
    pub targets: Vec<PartitionTarget>,
    /// When the live connector was seen to have passed the cutoff, and what that stands on.
    #[serde(default)]
    pub passed: Option<Reached>,
    /// What persons have accepted: `lag`.
    #[serde(default)]
    pub accepted: Vec<String>,
    /// Its last promotion.
    #[serde(default)]
    pub promotion: Option<Promotion>,
}

impl Manifest {
    /// The partitions of a role.
    pub fn of(&self, role: Role) -> impl Iterator<Item = &PartitionState> {
        self.offsets.iter().filter(move |state| state.role == role)
    }

    /// The ends of snapshot partitions that are known.
    pub fn frozen(&self) -> Vec<PartitionTarget> {
        let target = |state: &PartitionState| {
            Some(PartitionTarget {
                topic: state.topic.clone(),
                partition: state.partition,
                end: state.end?,
            })
        };
        self.of(Role::Snapshot).filter_map(target).collect()
    }

    /// Whether it only says that its incarnation has taken the job over: the state is that of the
    /// checkpoint it went on from. (Every other one is noted in the target before it is made.)
    pub fn starts_a_run(&self) -> bool {
        self.target_note != self.number
    }

    /// The latest tick of a marker that was forgotten, on any worker.
    pub fn forgotten_through(&self) -> Option<u64> {
        self.markers.ticks.iter().filter_map(|t| t.forgotten).max()
    }

    /// The key of the fingerprints.
    ///
    /// # Errors
    /// When it is not 16 bytes in hex.
    pub fn secret(&self) -> Result<[u8; 16], ManifestError> {
        unhex(&self.fingerprint.secret).ok_or(ManifestError::Secret)
    }

    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = serde_json::to_vec_pretty(self).expect("a manifest is plain data");
        body.push(b'\n');
        let sum = hex(&Sha256::digest(&body));
        let mut bytes = format!("{MAGIC} {FORMAT} {sum}\n").into_bytes();
        bytes.append(&mut body);
        bytes
    }

    /// From bytes.
    ///
    /// # Errors
    /// See [`ManifestError`].
    pub fn decode(bytes: &[u8]) -> Result<Manifest, ManifestError> {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let (head, body) = bytes.split_at(end.ok_or(ManifestError::Head)?);
        let body = &body[1..];
        let head = std::str::from_utf8(head).map_err(|_| ManifestError::Head)?;
        let words: Vec<&str> = head.split(' ').collect();
        let [MAGIC, format, sum] = words[..] else {
            return Err(ManifestError::Head);
        };
        let format: u32 = format.parse().map_err(|_| ManifestError::Head)?;
        if format == 0 || format > FORMAT {
            return Err(ManifestError::Format(format));
        }
        if hex(&Sha256::digest(body)) != sum {
            return Err(ManifestError::Sum);
        }
        serde_json::from_slice(body).map_err(|error| ManifestError::Body(error.to_string()))
    }
}

/// Why bytes are no manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManifestError {
    /// The first line is not one of a manifest.
    Head,
    /// A format that this program does not know.
    Format(u32),
    /// The checksum is another one: cut off or changed.
    Sum,
    /// The members are not those of a manifest.
    Body(String),
    /// The key of the fingerprints is not 16 bytes.
    Secret,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ManifestError::Head => f.write_str("its first line is not that of a manifest"),
            ManifestError::Format(format) => write!(
                f,
                "format {format}; this program reads 1 to {FORMAT}, a newer one wrote it"
            ),
            ManifestError::Sum => f.write_str("its checksum is wrong: it was cut off or changed"),
            ManifestError::Body(why) => write!(f, "its members are wrong: {why}"),
            ManifestError::Secret => f.write_str("its fingerprint key is not 16 bytes"),
        }
    }
}

/// A member that may be null, and must be there: serde takes one that is missing for null.
fn required<'d, D: Deserializer<'d>>(member: D) -> Result<Option<u64>, D::Error> {
    Option::deserialize(member)
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A secret as manifests keep it.
pub fn secret_hex(secret: &[u8; 16]) -> String {
    hex(secret)
}

fn unhex(text: &str) -> Option<[u8; 16]> {
    let digits = text.as_bytes();
    let mut bytes = [0; 16];
    if digits.len() != 32 {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        let pair = std::str::from_utf8(pair).ok()?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
pub(crate) mod tests;
