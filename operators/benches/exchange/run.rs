//! Runs an exchange in two workers or two processes, and times encoding and decoding.
//!
//! It cannot hide noise: the caller interleaves and takes the best.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a bench is a caller: it owns the clock and the port of its second process"
)]

use headwater_operators::record::RecordRef;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use timely::bytes::arc::BytesMut;
use timely::container::{CapacityContainerBuilder, ContainerBuilder, PushInto};
use timely::dataflow::channels::ContainerBytes;
use timely::dataflow::channels::pact::ParallelizationContract;
use timely::dataflow::operators::generic::OutputBuilder;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::dataflow::operators::{Operator, Probe};
use timely::dataflow::{ProbeHandle, Scope};
use timely::worker::Worker;
use timely::{CommunicationConfig, Config, Container, WorkerConfig};

/// Records of one round of the source.
const BATCH: u64 = 4096;
/// Rounds that may be on their way.
const ROUNDS_IN_FLIGHT: u64 = 8;

/// Where the two workers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// In one process.
    Workers,
    /// In a process each.
    Processes,
}

/// Sends `count` records from this worker; seconds until all workers' records have arrived.
pub(crate) fn exchange<CB, P, D>(
    worker: &mut Worker,
    count: u64,
    pact: P,
    prepare: impl Fn(&mut CB, usize) + 'static,
    make: impl Fn(u64) -> D + 'static,
    sum: impl Fn(&CB::Container) -> u64 + 'static,
) -> f64
where
    CB: ContainerBuilder<Container: Container + Clone> + PushInto<D> + 'static,
    P: ParallelizationContract<u64, CB::Container>,
    D: 'static,
{
    let (index, workers) = (worker.index() as u64, worker.peers());
    let probe = ProbeHandle::new();
    worker.dataflow::<u64, _, _>(|scope: Scope<'_, u64>| {
        let mut builder = OperatorBuilder::new("Source".to_owned(), scope);
        let activator = scope.activator_for(builder.operator_info().address);
        let (output, stream) = builder.new_output::<CB::Container>();
        let mut output = OutputBuilder::<u64, CB>::from(output);
        let behind = probe.clone();
        builder.build(move |mut capabilities| {
            let mut held = capabilities.pop();
            let mut sent = 0;
            move |_| {
                let Some(capability) = held.as_mut() else {
                    return;
                };
                let round = *capability.time();
                // Round 0 is empty: it shows that all workers are up before the clock starts.
                if round == 0 || !behind.less_than(&round.saturating_sub(ROUNDS_IN_FLIGHT).max(1)) {
                    if round > 0 {
                        let batch = BATCH.min(count - sent);
                        let mut output = output.activate();
                        let mut session = output.session_with_builder(&*capability);
                        prepare(session.builder(), workers);
                        for id in sent..sent + batch {
                            session.give(make(id * workers as u64 + index));
                        }
                        sent += batch;
                    }
                    capability.downgrade(&(round + 1));
                }
                if sent == count {
                    held = None;
                }
                activator.activate();
            }
        });
        stream
            .unary::<CapacityContainerBuilder<Vec<()>>, _, _, _>(pact, "Sum", move |_, _| {
                let mut total = 0_u64;
                move |input, _| {
                    input.for_each(|_, records| total = total.wrapping_add(sum(records)));
                    std::hint::black_box(total);
                }
            })
            .probe_with(&probe);
    });
    let park = Some(Duration::from_millis(1));
    worker.step_or_park_while(park, || probe.less_equal(&0));
    let start = Instant::now();
    worker.step_or_park_while(park, || !probe.done());
    start.elapsed().as_secs_f64()
}

/// What a child process is told on its command line.
pub(crate) struct Child {
    process: usize,
    addresses: Vec<String>,
    codec: String,
    /// Bytes of a value.
    pub(crate) value_bytes: usize,
    /// Records a worker.
    pub(crate) count: u64,
}

/// Whether this process is one of a pair.
pub(crate) fn in_child() -> Option<Child> {
    let args: Vec<String> = std::env::args().collect();
    let at = args.iter().position(|arg| arg == "--child")? + 1;
    let number = |at: usize| args[at].parse::<u64>().expect("a number");
    Some(Child {
        process: number(at) as usize,
        addresses: args[at + 1].split(',').map(str::to_owned).collect(),
        codec: args[at + 2].clone(),
        value_bytes: number(at + 3) as usize,
        count: number(at + 4),
    })
}

/// Runs one process of a pair and prints its seconds.
pub(crate) fn child(child: &Child, run: impl Fn(&mut Worker, &str) -> f64 + Send + Sync + 'static) {
    let communication = CommunicationConfig::Cluster {
        threads: 1,
        process: child.process,
        addresses: child.addresses.clone(),
        report: false,
        zerocopy: false,
    };
    let codec = child.codec.clone();
    let seconds = workers(communication, move |worker| run(worker, &codec));
    println!("seconds {seconds}");
}

/// The slowest worker's seconds.
fn workers(
    communication: CommunicationConfig,
    run: impl Fn(&mut Worker) -> f64 + Send + Sync + 'static,
) -> f64 {
    let worker = WorkerConfig::default();
    let config = Config {
        communication,
        worker,
    };
    let guards = timely::execute(config, run).expect("workers start");
    let ended = guards.join().into_iter();
    ended
        .map(|seconds| seconds.expect("a worker ended well"))
        .fold(0.0, f64::max)
}

/// Runs two workers in `placement`; the slower one's seconds.
pub(crate) fn measure(
    placement: Placement,
    codec: &'static str,
    value_bytes: usize,
    count: u64,
    run: impl Fn(&mut Worker, &str) -> f64 + Send + Sync + 'static,
) -> f64 {
    if placement == Placement::Workers {
        return workers(CommunicationConfig::Process(2), move |worker| {
            run(worker, codec)
        });
    }
    // Two free ports, given back just before the children take them.
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    let addresses = listeners.map(|port| port.local_addr().expect("bound").to_string());
    let executable = std::env::current_exe().expect("this program has a path");
    let children = [0, 1].map(|process| {
        Command::new(&executable)
            .args(["--child", &process.to_string(), &addresses.join(","), codec])
            .args([value_bytes.to_string(), count.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program starts")
    });
    let seconds = children.map(|child| {
        let output = child.wait_with_output().expect("the child ends");
        assert!(
            output.status.success(),
            "{codec}: a process of the pair failed"
        );
        let text = String::from_utf8(output.stdout).expect("text");
        let seconds = text.lines().find_map(|line| line.strip_prefix("seconds "));
        let seconds = seconds.expect("the child says its seconds");
        seconds.parse::<f64>().expect("a number")
    });
    seconds[0].max(seconds[1])
}

/// Prints ns a record for writing a container of `records` to bytes, and for reading it back.
pub(crate) fn coding<C: ContainerBytes>(
    name: &str,
    container: &mut C,
    records: &[RecordRef<'_>],
    push: impl Fn(&mut C, &RecordRef<'_>),
    sum: impl Fn(&C) -> u64,
) {
    records.iter().for_each(|record| push(container, record));
    let times = 300;
    let per_record =
        |start: Instant| start.elapsed().as_nanos() as f64 / times as f64 / records.len() as f64;
    let mut bytes = Vec::with_capacity(container.length_in_bytes());
    let start = Instant::now();
    for _ in 0..times {
        bytes.clear();
        container.into_bytes(&mut bytes);
        std::hint::black_box(&bytes);
    }
    let encode_ns = per_record(start);
    let mut slabs: Vec<_> = (0..times)
        .map(|_| BytesMut::from(bytes.clone()).freeze())
        .collect();
    let start = Instant::now();
    for slab in slabs.drain(..) {
        std::hint::black_box(sum(&C::from_bytes(slab)));
    }
    let decode_ns = per_record(start);
    let size = bytes.len() / records.len();
    println!(
        "  {name:12} encode {encode_ns:6.1} ns, decode and walk {decode_ns:6.1} ns, \
         {size} B a record"
    );
}
