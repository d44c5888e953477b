//! Requests that worker 0 does: from a request that fits to changed state and commands.
//!
//! Invariant: nothing is changed before the request was admitted.

use super::arrivals::Arrivals;
use super::one::{One, reached};
use super::{Coordinator, Ending};
use crate::checkpoint::manifest::GenerationState;
use crate::config::units::print_duration;
use crate::dead_letter;
use crate::generation::admit::{self, Now, admit};
use crate::generation::record::{Promotion, Said};
use crate::generation::request::{Body, Open};
use crate::generation::{Refusal, Stage};
use crate::summary::grouped;
use headwater_operators::control::Command;
use headwater_operators::retention::KeepMarkers;
use std::time::Duration;

type Done = Result<(String, Option<String>), Refusal>;

impl Coordinator {
    /// Takes what is on the desk.
    pub(super) fn requests(&mut self, (tick, now_ms): (u64, u64), commands: &mut Vec<Command>) {
        for waiting in self.panel.desk.take() {
            if self.ending != Ending::No {
                // What it would open is not read any more.
                let _ = waiting.1.send(Err(Refusal::Ending));
                continue;
            }
            let mut requests = std::mem::take(&mut self.requests);
            requests.take(waiting, |body| self.act(body, (tick, now_ms), commands));
            self.requests = requests;
        }
    }

    fn act(&mut self, body: &Body, at: (u64, u64), commands: &mut Vec<Command>) -> Done {
        self.admitted(body, at.1)?;
        let wall_ms = self.wall.now_ms();
        match body {
            Body::Open(open) => self.open(open, at, commands),
            Body::Finish { generation, ends } => {
                let of = self.generation_mut(generation)?;
                of.state.said = Some(Said {
                    at_ms: wall_ms,
                    ends: ends.clone(),
                });
                done(
                    generation,
                    "the snapshot is taken for complete; that stands on `operator_said`, which \
                     `promote.source_finished` must admit"
                        .to_owned(),
                )
            }
            Body::Abort { generation, reason } => {
                let of = self.generation_mut(generation)?;
                of.reach(Stage::Aborted, (at.0, wall_ms), (Some(reason), None));
                let generation_number = of.state.number;
                commands.push(Command::Close {
                    generation: generation_number,
                    aborted: true,
                });
                done(
                    generation,
                    "aborted; its READs are dropped from now on".to_owned(),
                )
            }
            Body::DropTable { generation, table } => {
                let tables = self.tables.clone();
                let of = self.generation_mut(generation)?;
                of.without(*table, &tables);
                commands.push(Command::DropTable {
                    generation: of.state.number,
                    table: *table,
                });
                let name = &tables[usize::from(*table)].name;
                done(generation, format!("it goes on without {name}"))
            }
            Body::AcceptLag { generation } => {
                let of = self.generation_mut(generation)?;
                of.state.accepted.push("lag".to_owned());
                done(
                    generation,
                    "nothing proves that the live connector has passed the cutoff; accepted, but \
                     only `promote.caught_up = \"unproven\"` promotes what stands on that"
                        .to_owned(),
                )
            }
            Body::AcceptDeadLetters { generation } => self.accept_dead_letters(generation),
            Body::Reads {
                paused,
                per_second_max,
            } => Ok((self.reads(*paused, *per_second_max, commands), None)),
            Body::Ttl { ttl_ms } => Ok((self.ttl(*ttl_ms, commands), None)),
            Body::MarkersMax { markers_max } => {
                self.read_control.markers_max = Some(*markers_max);
                self.read_control.markers_max_configured = Some(self.settings.guard.markers_max);
                Ok((format!("the marker limit is {markers_max}"), None))
            }
            Body::PromoteBegin { .. } | Body::PromoteEnd { .. } | Body::Demote { .. } => {
                self.promotion(body, (at.0, wall_ms))
            }
        }
    }

    /// What was counted so far is accepted, and no more.
    fn accept_dead_letters(&mut self, generation: &str) -> Done {
        let letters = self.dead_letters.clone();
        let of = self.generation_mut(generation)?;
        let lost = of.lost;
        of.state.dead_letters_accepted = dead_letter::accept(&letters, &of.state);
        let text = match lost {
            0 => "there is no dead letter to accept".to_owned(),
            lost => format!("the loss of {} mutations is accepted", grouped(lost)),
        };
        done(generation, text)
    }

    fn admitted(&self, body: &Body, now_ms: u64) -> Result<(), Refusal> {
        let states: Vec<&GenerationState> = self.generations.iter().map(|of| &of.state).collect();
        let partitions: Vec<(u32, String, u32)> = self
            .generations
            .iter()
            .flat_map(|of| {
                let expected = of.snapshot.expected().iter();
                expected.map(|(topic, partition)| (of.state.number, topic.clone(), *partition))
            })
            .collect();
        let wall = self.wall_table(now_ms);
        admit(body, &self.now(&states, &partitions, &wall))
    }

    fn now<'a>(
        &'a self,
        generations: &'a [&'a GenerationState],
        partitions: &'a [(u32, String, u32)],
        wall: &'a [(u64, u64)],
    ) -> Now<'a> {
        Now {
            tables: &self.tables,
            generations,
            partitions,
            keep: self.keep_markers(),
            start_margin_ms: self.settings.start_margin_ms,
            forgotten_through: self.forgotten_through,
            wall,
            clock_skew_max_ms: self.settings.readiness.clock_skew_max_ms,
            ttl_ms_min: self.ttl_ms_min(),
        }
    }

    /// Job time and wall time, with both of now at the end.
    pub(super) fn wall_table(&self, now_ms: u64) -> Vec<(u64, u64)> {
        let mut wall = self.wall_known.clone();
        wall.push((now_ms, self.wall.now_ms()));
        wall
    }

    fn generation_mut(&mut self, id: &str) -> Result<&mut One, Refusal> {
        let mut all = self.generations.iter_mut();
        all.find(|of| of.state.id == id)
            .ok_or_else(|| Refusal::Unknown(format!("there is no generation {id}")))
    }

    fn open(
        &mut self,
        open: &Open,
        (tick, now_ms): (u64, u64),
        commands: &mut Vec<Command>,
    ) -> Done {
        let wall = self.wall_table(now_ms);
        let (opened_at_ms, began_ms) = admit::opened_at(open, &self.now(&[], &[], &wall));
        let wall_ms = self.wall.now_ms();
        let number = self.generations.iter().map(|of| of.state.number).max();
        let number = number.map_or(1, |last| last + 1);
        let id = open.generation.clone();
        let id = id.unwrap_or_else(|| self.free_id(number));
        let how = match open.started_at_ms {
            Some(_) => "a person said so",
            None => "it was opened before its snapshot was begun",
        };
        let margin_ms = i64::try_from(self.settings.start_margin_ms).unwrap_or(i64::MAX);
        let state = GenerationState {
            not_before_ms: began_ms.saturating_sub(margin_ms).max(1),
            number,
            id: id.clone(),
            tables: open.topics.keys().copied().collect(),
            opened_at_ms,
            topics: open.topics.clone(),
            began: Some((began_ms, how.to_owned())),
            dead_letters_accepted: dead_letter::inherited(
                self.generations.iter().map(|of| &of.state),
            ),
            sources: open.sources.clone(),
            reached: vec![reached(Stage::Open, (tick, wall_ms), (None, None))],
            ..GenerationState::default()
        };
        let taken_over = self.supersede(&state, (tick, wall_ms), commands);
        let partitions = open.partitions.iter();
        let partitions = partitions.map(|from| (from.topic.clone(), from.partition));
        let mutations = self.mutation_partitions(&state);
        let one = One::new(state, Arrivals::of(partitions), Arrivals::of(mutations));
        commands.push(one.open(&open.partitions));
        self.topic_ids.extend(open.topic_ids.clone());
        let at_risk = self.forgotten_through.is_some_and(|forgotten| {
            forgotten >= opened_at_ms.saturating_sub(self.settings.start_margin_ms)
        });
        self.generations.push(one);
        let mut text = "open; begin its snapshot now, if it has not begun".to_owned();
        if !taken_over.is_empty() {
            text = format!("{text}; it takes over from {}", taken_over.join(", "));
        }
        if at_risk {
            text = format!(
                "{text}. It is unsafe from the start: markers of its window were forgotten, so a \
                 READ without a marker goes to quarantine"
            );
        }
        Ok((text, Some(id)))
    }

    fn free_id(&self, number: u32) -> String {
        let taken = |id: &str| self.generations.iter().any(|of| of.state.id == id);
        let mut ids = (number..).map(|number| format!("g{number}"));
        ids.find(|id| !taken(id)).unwrap_or_default()
    }

    /// A newer generation of a table replaces the older one for that table.
    fn supersede(
        &mut self,
        newer: &GenerationState,
        at: (u64, u64),
        commands: &mut Vec<Command>,
    ) -> Vec<String> {
        let mut taken_over = Vec::new();
        let tables = self.tables.clone();
        for older in &mut self.generations {
            if !older.state.stage.takes_reads() {
                continue;
            }
            let left: Vec<u16> = admit::left(&older.state).collect();
            let (gone, stay): (Vec<u16>, Vec<u16>) =
                left.into_iter().partition(|of| newer.tables.contains(of));
            if gone.is_empty() {
                continue;
            }
            taken_over.push(older.state.id.clone());
            if stay.is_empty() {
                older.reach(Stage::Superseded, at, (Some(&newer.id), None));
                commands.push(Command::Close {
                    generation: older.state.number,
                    aborted: true,
                });
                continue;
            }
            for table in gone {
                older.without(table, &tables);
                commands.push(Command::DropTable {
                    generation: older.state.number,
                    table,
                });
            }
        }
        taken_over
    }

    fn reads(
        &mut self,
        paused: Option<bool>,
        per_second_max: Option<Option<u64>>,
        commands: &mut Vec<Command>,
    ) -> String {
        let control = &mut self.read_control;
        control.paused = paused.unwrap_or(control.paused);
        if let Some(rate) = per_second_max {
            control.per_second_max = Some(rate);
            control.per_second_configured = Some(self.settings.reads_per_second_max);
        }
        commands.push(self.read_rate());
        let rate = self.rate();
        let rate = rate.map_or_else(
            || "as fast as they come".to_owned(),
            |rate| format!("at {rate} a second"),
        );
        match self.read_control.paused {
            true => "READs are paused; mutations go on".to_owned(),
            false => format!("READs are read {rate}"),
        }
    }

    /// READs a second, as a person or the configuration has it.
    fn rate(&self) -> Option<u64> {
        let set = self.read_control.per_second_max;
        set.unwrap_or(self.settings.reads_per_second_max)
    }

    /// How READs are to be read now.
    pub(super) fn read_rate(&self) -> Command {
        Command::ReadRate {
            per_second_max: self.rate(),
            paused: self.read_control.paused || self.held_for_markers,
        }
    }

    fn ttl(&mut self, ttl_ms: u64, commands: &mut Vec<Command>) -> String {
        if let KeepMarkers::Ttl { ttl_ms: configured } = self.settings.keep_markers {
            let retention = &mut self.retention;
            retention.ttl_configured_ms.get_or_insert(configured);
        }
        self.retention.ttl_ms = Some(ttl_ms);
        commands.push(Command::SetTtl { ttl_ms });
        format!(
            "the ttl is {}",
            print_duration(Duration::from_millis(ttl_ms))
        )
    }

    fn promotion(&mut self, body: &Body, at: (u64, u64)) -> Done {
        let manifest = self.ready_manifest_of(body);
        match body {
            Body::PromoteBegin {
                generation,
                by,
                accepted,
            } => {
                let of = self.generation_mut(generation)?;
                let begun = of.state.promotion.as_mut();
                // One that was begun and not ended, or has ended well, is that one.
                if let Some(begun) = begun.filter(|begun| begun.demoted.is_none()) {
                    if begun.done_ms.is_none() {
                        // It was judged by what is accepted now.
                        begun.hook = None;
                        begun.by.clone_from(by);
                        begun.accepted.clone_from(accepted);
                    }
                    return done(generation, "the promotion was begun before".to_owned());
                }
                of.state.promotion = Some(Promotion {
                    id: format!("{generation}-{}", at.1),
                    by: by.clone(),
                    begun_ms: at.1,
                    manifest,
                    accepted: accepted.clone(),
                    ..Promotion::default()
                });
                done(generation, "the promotion is begun".to_owned())
            }
            Body::PromoteEnd {
                generation,
                done: well,
                hook,
            } => self.promoted(generation, *well, hook, at),
            Body::Demote {
                generation,
                by,
                reason,
            } => {
                let of = self.generation_mut(generation)?;
                if let Some(promotion) = &mut of.state.promotion {
                    promotion.demoted = Some((at.1, by.clone(), reason.clone()));
                }
                of.reach(Stage::Ready, at, (Some("demoted"), None));
                done(generation, format!("demoted by {by}: {reason}"))
            }
            // Only these three come here.
            _ => Err(Refusal::Unknown("not a promotion".to_owned())),
        }
    }

    /// The hook has ended.
    fn promoted(&mut self, generation: &str, well: bool, hook: &str, at: (u64, u64)) -> Done {
        let of = self.generation_mut(generation)?;
        if let Some(promotion) = &mut of.state.promotion {
            promotion.hook = Some(hook.to_owned());
            promotion.done_ms = well.then_some(at.1);
            let by = promotion.by.clone();
            let still = matches!(of.state.stage, Stage::Ready | Stage::Promoted);
            if well && still {
                of.reach(Stage::Promoted, at, (Some(&by), None));
            }
        }
        match (well, of.state.stage) {
            (true, Stage::Promoted) => done(generation, "promoted".to_owned()),
            (true, stage) => done(
                generation,
                format!(
                    "the hook has run, but the generation is {} now",
                    stage.word()
                ),
            ),
            (false, _) => done(generation, format!("not promoted: {hook}")),
        }
    }

    fn ready_manifest_of(&self, body: &Body) -> u64 {
        let Body::PromoteBegin { generation, .. } = body else {
            return 0;
        };
        let of = self
            .generations
            .iter()
            .find(|of| of.state.id == *generation);
        of.and_then(|of| of.ready_manifest).unwrap_or_default()
    }
}

fn done(generation: &str, text: String) -> Done {
    Ok((text, Some(generation.to_owned())))
}
