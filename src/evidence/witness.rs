//! What the collector has seen, as worker 0 wants to know it.

use super::collector::Collector;
use super::offsets::Proof;
use super::{Evidence, Watched};
use crate::generation::Sources;
use crate::generation::witness::{Remembered, Seen, Witness};

impl Witness for Collector {
    fn watch(
        &self,
        generation: &str,
        sources: &Sources,
        since_ms: Option<i64>,
        remembered: Remembered<'_>,
    ) {
        let watched = Watched {
            sources: sources.clone(),
            since_ms,
            topics: remembered.topics.clone(),
            scan: remembered.scan.clone(),
            before: remembered.before.clone(),
        };
        Collector::watch(self, generation, watched);
    }

    fn unwatch(&self, generation: &str) {
        Collector::unwatch(self, generation);
    }

    fn seen(&self, generation: &str) -> Seen {
        of(&Collector::seen(self), generation)
    }

    fn want_cutoff(&self, generation: &str) {
        Collector::want_cutoff(self, generation);
    }
}

fn of(evidence: &Evidence, generation: &str) -> Seen {
    let own = evidence.generations.get(generation);
    let connector = own.and_then(|own| own.connector.as_ref());
    let notices = own.and_then(|own| own.notices.as_ref());
    let live = evidence.live.as_ref();
    let database = evidence.database.as_ref();
    let slot = database.and_then(|seen| seen.proven);
    let committed = live.and_then(|live| live.offsets.position);
    let trouble = |stopped: &Option<String>, trouble: &Option<String>| {
        stopped.clone().or_else(|| trouble.clone())
    };
    Seen {
        scan: notices.map(|notices| notices.scan.clone()),
        finished: connector.is_some_and(|of| of.proof == Some(Proof::Finished)),
        before: connector.map(|of| of.before.clone()),
        snapshot_trouble: connector.and_then(|of| trouble(&of.stopped, &of.trouble)),
        notices_trouble: notices.and_then(|of| of.trouble.clone()),
        live_trouble: live.and_then(|of| trouble(&of.stopped, &of.trouble)),
        // Connect's own offset waits for nobody.
        slot_held: database
            .filter(|_| committed.is_none())
            .and_then(|seen| seen.held.clone()),
        position: committed.max(slot),
        committed_ms: live.and_then(|live| live.offsets.time_ms),
        heartbeat_ms: evidence.heartbeat.as_ref().and_then(|seen| seen.sent_ms),
        heartbeat_first_ms: evidence.heartbeat.as_ref().and_then(|seen| seen.first_ms),
        cutoff: evidence.cutoffs.get(generation).cloned(),
    }
}

#[cfg(test)]
mod tests {
    use super::of;
    use crate::evidence::offsets::{LiveOffsets, Proof};
    use crate::evidence::{Evidence, GenerationSeen, LiveSeen, SnapshotSeen};

    #[test]
    fn only_a_proof_finishes_and_a_stopped_connector_is_trouble() {
        let mut evidence = Evidence::default();
        let connector = SnapshotSeen {
            proof: Some(Proof::NotNewer),
            stopped: Some("task 0 is FAILED".to_owned()),
            trouble: Some("no answer".to_owned()),
            ..SnapshotSeen::default()
        };
        let seen = GenerationSeen {
            connector: Some(connector),
            ..GenerationSeen::default()
        };
        evidence.generations.insert("g1".to_owned(), seen);
        evidence.live = Some(LiveSeen {
            offsets: LiveOffsets {
                position: Some(7),
                ..LiveOffsets::default()
            },
            ..LiveSeen::default()
        });
        let seen = of(&evidence, "g1");
        assert!(!seen.finished);
        assert_eq!(seen.snapshot_trouble.as_deref(), Some("task 0 is FAILED"));
        assert_eq!((seen.position, seen.scan), (Some(7), None));
        let own = evidence.generations.get_mut("g1").expect("it is there");
        let connector = own.connector.as_mut().expect("it was asked");
        connector.proof = Some(Proof::Finished);
        assert!(of(&evidence, "g1").finished);
        assert!(!of(&evidence, "g2").finished);
    }
}
