//! Two workers are asked about keys of both: the owner answers, once, as of the mutations before.

use super::{Looked, Told};
use crate::control::{Command, broadcast};
use crate::decide::OnForgotten;
use crate::marker::{MarkerArrangement, MarkerConfig, MarkerExport};
use crate::merge::{Cut, MergeConfig, MergeCounters, merge};
use crate::record::{Op, RecordRef, Records};
use crate::retention::{KeepMarkers, Retention, Window};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use timely::container::CapacityContainerBuilder;
use timely::dataflow::InputHandle;
use timely::dataflow::operators::Probe;

const TICK_MS: u64 = 20;

type Handle<C> = InputHandle<u64, CapacityContainerBuilder<C>>;

/// Who has answered what.
type Answers = Arc<Mutex<Vec<(usize, Looked)>>>;

struct Teller(usize, Answers);

impl Told<MarkerExport> for Teller {
    fn exported(&mut self, _: Cut, _: MarkerExport) {}

    fn looked(&mut self, looked: Looked) {
        self.1.lock().expect("no panic").push((self.0, looked));
    }
}

fn mutation(fingerprint: u128) -> RecordRef<'static> {
    RecordRef {
        fingerprint,
        op: Op::Upsert,
        table: 0,
        generation: 0,
        partition: 0,
        offset: 0,
        read_time_ms: 0,
        key: b"k",
        value: b"v",
    }
}

fn config() -> MergeConfig {
    MergeConfig {
        tick_ms: TICK_MS,
        retention: Retention::new(KeepMarkers::Ttl { ttl_ms: 1_000 }, 10),
        on_forgotten: OnForgotten::Quarantine,
        rule: true,
        poison: Vec::new(),
        whole_row: |_| true,
    }
}

fn commands() -> Vec<Command> {
    let look = |id, fingerprint, table| Command::Look {
        id,
        fingerprint,
        table,
    };
    let open = Command::Open {
        generation: 1,
        tables: vec![0],
        opened_at_ms: 30,
        id: "g1".to_owned(),
        topics: Vec::new(),
        partitions: Vec::new(),
        not_before_ms: 0,
    };
    let high = u128::MAX;
    vec![
        look(1, high, 0),
        open,
        look(2, high, 0),
        look(3, 1, 0),
        look(4, high, 1),
    ]
}

#[test]
fn the_owner_of_a_key_answers_for_its_table() {
    let answers = Answers::default();
    let of_workers = Arc::clone(&answers);
    let guards = timely::execute(timely::Config::process(2), move |worker| {
        let index = worker.index();
        let teller = Teller(index, Arc::clone(&of_workers));
        let (mut mutations, mut reads) = (Handle::<Records>::new(), Handle::<Records>::new());
        let mut control = Handle::<Vec<Command>>::new();
        let probe = worker.dataflow::<u64, _, _>(|scope| {
            let merged = merge(
                mutations.to_stream(scope),
                reads.to_stream(scope),
                broadcast(control.to_stream(scope)),
                MarkerArrangement::new(MarkerConfig::new(0..=u64::MAX, TICK_MS)),
                config(),
                Rc::<RefCell<MergeCounters>>::default(),
                teller,
            );
            merged.data.probe().0
        });
        if index == 0 {
            // Worker 1 owns it; it is marked before control has passed the question's tick.
            mutations.send(mutation(u128::MAX));
            mutations.flush();
            (0..50).for_each(|_| {
                worker.step();
            });
            control.advance_to(40);
            commands()
                .into_iter()
                .for_each(|command| control.send(command));
        }
        drop((mutations, reads, control));
        worker.step_while(|| !probe.done());
    });
    guards
        .expect("threads")
        .join()
        .into_iter()
        .for_each(|ended| ended.expect("no panic"));
    let mut answers = answers.lock().expect("no panic").clone();
    answers.sort_by_key(|(_, looked)| looked.id);
    let window = vec![(1, Window { start_ms: 20 })];
    let looked = |id, marker, windows: &Vec<(u32, Window)>| Looked {
        id,
        marker,
        poison: None,
        forgotten_through: None,
        windows: windows.clone(),
    };
    // Commands of one tick take effect together: the first question sees the open, too.
    assert_eq!(
        answers,
        [
            (1, looked(1, Some(0), &window)),
            (1, looked(2, Some(0), &window)),
            (0, looked(3, None, &window)),
            (1, looked(4, Some(0), &Vec::new())),
        ]
    );
}
