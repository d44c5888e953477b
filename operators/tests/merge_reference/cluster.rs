//! Real workers, stepped one at a time by the test: a schedule is a list of steps.
//!
//! Invariant: exactly one worker thread runs at any moment, and only while the coordinator waits
//! for it, so a run repeats exactly.

use crate::variants::{self, Planted, Store};
use crate::world::{MERGE, MUTATIONS, READS, ScriptFeed, ScriptOutlet, Shared};
use headwater_operators::control::{Command, broadcast};
use headwater_operators::marker::{MarkerArrangement, MarkerConfig};
use headwater_operators::merge::{MergeConfig, MergeCounters, merge};
use headwater_operators::record::Records;
use headwater_operators::route::range_of;
use headwater_operators::sink::sink;
use headwater_operators::source::source;
use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::generic::OutputBuilder;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::dataflow::operators::{Operator, Probe};
use timely::dataflow::{InputHandle, ProbeHandle, Scope, Stream, StreamVec};
use timely::worker::Worker;
use timely::{CommunicationConfig, Config, WorkerConfig};

type Control = InputHandle<u64, CapacityContainerBuilder<Vec<Command>>>;

/// What a worker is told to do.
#[derive(Debug)]
pub(crate) enum Act {
    /// One step of the worker.
    Step,
    /// Worker 0: send a command at the present tick.
    Send(Command),
    /// Worker 0: the present tick is this.
    Tick(u64),
    /// Worker 0: no more control.
    Close,
}

/// How a run is set up.
#[derive(Clone)]
pub(crate) struct Setup {
    /// How many workers.
    pub(crate) workers: usize,
    /// Whether records between workers are serialised.
    pub(crate) serialised: bool,
    /// The merge.
    pub(crate) merge: MergeConfig,
    /// Markers in the memtable of the store.
    pub(crate) memtable_markers_max: usize,
    /// Fuel that the store takes of what it is given.
    pub(crate) fuel_max: usize,
    /// Bytes in flight of each source.
    pub(crate) inflight_bytes_max: usize,
    /// What is wrong with this run, if anything.
    pub(crate) planted: Planted,
}

/// The workers and how to tell them.
pub(crate) struct Cluster {
    acts: Vec<Sender<Act>>,
    done: Vec<Receiver<bool>>,
    threads: Option<timely::communication::WorkerGuards<()>>,
}

impl Cluster {
    /// Starts the workers; none of them has stepped.
    pub(crate) fn start(setup: &Setup, shared: &Shared) -> Cluster {
        let (mut acts, mut done, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..setup.workers {
            let (act, acts_in) = channel::<Act>();
            let (done_out, done_in) = channel::<bool>();
            acts.push(act);
            done.push(done_in);
            ends.push(Some((acts_in, done_out)));
        }
        let ends = Arc::new(Mutex::new(ends));
        let communication = if setup.serialised {
            CommunicationConfig::ProcessBinary(setup.workers)
        } else {
            CommunicationConfig::Process(setup.workers)
        };
        let config = Config {
            communication,
            worker: WorkerConfig::default(),
        };
        let (setup, shared) = (setup.clone(), shared.clone());
        let threads = timely::execute(config, move |worker| {
            let index = worker.index();
            let (acts, done) = ends.lock().expect("no panic")[index]
                .take()
                .expect("each worker takes its ends once");
            obey(worker, &setup, &shared, &acts, &done);
        })
        .expect("threads start");
        let cluster = Cluster {
            acts,
            done,
            threads: Some(threads),
        };
        // Every worker has built its dataflow.
        for done in &cluster.done {
            done.recv().expect("the worker is up");
        }
        cluster
    }

    /// Does one thing on one worker; whether it still has a dataflow.
    pub(crate) fn act(&self, worker: usize, act: Act) -> bool {
        self.acts[worker].send(act).expect("the worker is up");
        self.done[worker].recv().expect("the worker did not panic")
    }

    /// Ends the workers, whose dataflows are done.
    pub(crate) fn end(mut self) {
        self.acts.clear();
        if let Some(threads) = self.threads.take() {
            for ended in threads.join() {
                ended.expect("the worker ended well");
            }
        }
    }
}

fn obey(
    worker: &mut Worker,
    setup: &Setup,
    shared: &Shared,
    acts: &Receiver<Act>,
    done: &Sender<bool>,
) {
    let index = worker.index();
    let counters = Rc::new(RefCell::new(MergeCounters::default()));
    let mut control: Option<Control> = Some(build(worker, setup, shared, &counters));
    if index > 0 {
        control = None;
    }
    done.send(true).expect("the coordinator waits");
    while let Ok(act) = acts.recv() {
        let mut alive = true;
        match (act, control.as_mut()) {
            (Act::Step, _) => {
                alive = worker.step();
                shared.get().sides[index].counters = counters.borrow().clone();
            }
            (Act::Send(command), Some(control)) => control.send(command),
            (Act::Tick(tick), Some(control)) => control.advance_to(tick),
            (Act::Close, _) => control = None,
            (act, None) => panic!("{act:?} is for worker 0 before it closes"),
        }
        // A coordinator that failed a check is gone.
        if done.send(alive).is_err() {
            break;
        }
    }
    // After a failed check the dataflow still holds capabilities: it must not keep the thread.
    for dataflow in worker.installed_dataflows() {
        worker.drop_dataflow(dataflow);
    }
}

fn build(
    worker: &mut Worker,
    setup: &Setup,
    shared: &Shared,
    counters: &Rc<RefCell<MergeCounters>>,
) -> Control {
    let (index, peers) = (worker.index(), worker.peers());
    let (low, high) = range_of(index, peers);
    let mut config = MarkerConfig::new(low..=high, setup.merge.tick_ms);
    config.memtable_markers_max = setup.memtable_markers_max;
    let store = Store::new(
        MarkerArrangement::new(config),
        setup.planted,
        setup.fuel_max,
    );
    worker.dataflow::<u64, _, _>(|scope: Scope<'_, u64>| {
        let mut input = Control::new();
        let control = broadcast(input.to_stream(scope));
        let durable = ProbeHandle::new();
        let feed = |role| {
            let shared = shared.clone();
            move |waker| {
                shared.get().sides[index].wakers.push(waker);
                ScriptFeed {
                    shared,
                    worker: index,
                    role,
                }
            }
        };
        let (tick_ms, bytes_max) = (setup.merge.tick_ms, setup.inflight_bytes_max);
        let lagging = |port| lag(control.clone(), shared.clone(), index, port);
        let from = |name, role| {
            let durable = durable.clone();
            source(name, lagging(role), tick_ms, bytes_max, durable, feed(role)).records
        };
        let (mutations, reads) = (from("Mutations", MUTATIONS), from("READs", READS));
        let merged = merge(
            mutations,
            reads,
            lagging(MERGE),
            store,
            setup.merge.clone(),
            Rc::clone(counters),
            |_, _| (),
        );
        let data = tee(merged.data, shared.clone(), index);
        out(data, setup.planted, shared, index).probe_with(&durable);
        input
    })
}

fn out<'scope>(
    data: Stream<'scope, u64, Records>,
    planted: Planted,
    shared: &Shared,
    index: usize,
) -> StreamVec<'scope, u64, Infallible> {
    match planted {
        Planted::TwoChannels => variants::two_channels(data, shared.clone(), index),
        Planted::SinkByTick => variants::sink_by_tick(data, shared.clone(), index),
        _ => sink(data, |waker| {
            let shared = shared.clone();
            shared.get().sides[index].wakers.push(waker);
            ScriptOutlet {
                shared,
                worker: index,
            }
        }),
    }
}

/// Passes control on, but only while the coordinator lets it: time then lags at this consumer, as
/// it does when a message of another process is late.
fn lag<'scope>(
    control: StreamVec<'scope, u64, Command>,
    shared: Shared,
    index: usize,
    port: usize,
) -> StreamVec<'scope, u64, Command> {
    let scope = control.scope();
    let mut builder = OperatorBuilder::new("Lag".to_owned(), scope);
    let activator = scope.activator_for(builder.operator_info().address);
    let (output, stream) = builder.new_output::<Vec<Command>>();
    type Commands = CapacityContainerBuilder<Vec<Command>>;
    let mut output = OutputBuilder::<u64, Commands>::from(output);
    let mut input = builder.new_input(control, Pipeline);
    builder.build(move |mut capabilities| {
        let mut held = capabilities.pop();
        let mut waiting = Vec::new();
        move |frontiers| {
            input.for_each(|capability, commands| {
                let capability = capability.retain_least(0).expect("a command has a tick");
                waiting.push((capability, std::mem::take(commands)));
            });
            if shared.get().sides[index].lags[port] {
                activator.activate();
                return;
            }
            let mut output = output.activate();
            for (capability, mut commands) in waiting.drain(..) {
                output.session(&capability).give_container(&mut commands);
            }
            match (frontiers[0].frontier().first(), held.as_mut()) {
                (Some(tick), Some(held)) => held.downgrade(tick),
                _ => held = None,
            }
        }
    });
    stream
}

/// Passes everything on and writes down what passed, with its tick.
fn tee(data: Stream<'_, u64, Records>, shared: Shared, index: usize) -> Stream<'_, u64, Records> {
    data.unary::<CapacityContainerBuilder<Records>, _, _, _>(Pipeline, "Tee", move |_, _| {
        move |input, output| {
            input.for_each(|capability, records| {
                let tick = *capability.least().expect("a record has a tick");
                shared.saw(index, tick, records);
                output.session(&capability).give_container(records);
            });
        }
    })
}
