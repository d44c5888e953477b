//! Several processes that run one dataflow: bring-up, and how they end together.
//!
//! `-w` workers in each of `-n` processes, this one `-p`, addresses in a hostfile. The bring-up
//! authenticates every peer by a shared secret, compares what must be equal, names who is missing,
//! and ignores strangers; then it hands connected sockets to timely.
//!
//! Invariant: no process starts unless all are connected to all, with the same job, configuration,
//! program, `-n`, `-w` and incarnation. The listener is closed before the workers start.
//!
//! What it cannot do:
//! * Rows travel in clear, and after the handshake unauthenticated: private network only.
//! * A process that is lost is not replaced: the others end (see [`install_abort_on_panic`]) and a
//!   supervisor restarts all of them.
//! * A peer whose machine dies without a word is noticed after about 30 s, by the kernel. A peer
//!   whose workers stand still while its kernel answers is not noticed here.
//! * Without [`install_abort_on_panic`] a worker that panics leaves its siblings running for ever,
//!   because channels within one process are typed (timely's fastest) and do not carry panics.

mod error;
mod gather;
mod handshake;
mod hostfile;
mod judge;
mod link;
mod notes;
mod panic;
mod wire;

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use timely::communication::Hooks;
use timely::communication::allocator::thread::ThreadBuilder;
use timely::communication::allocator::zero_copy::initialize::initialize_networking_from_sockets;
use timely::communication::allocator::{AllocatorBuilder, ProcessBuilder};

pub use error::ClusterError;
pub use hostfile::{parse_hostfile, read_hostfile};
pub use panic::install_abort_on_panic;

/// Fewest bytes of a secret between machines: a shorter one can be guessed from one handshake.
pub const SECRET_BYTES_MIN: usize = 16;
/// Most workers of one process.
const THREADS_MAX: usize = 1024;
/// Most processes: each has a socket and two threads for every other one.
const PROCESSES_MAX: usize = 1024;

/// What one process must know to join its cluster.
#[derive(Clone)]
pub struct ClusterSpec {
    /// The job's name, 1 to 255 bytes; equal everywhere.
    pub job: String,
    /// A digest of the configuration, without secrets and per-process settings; equal everywhere.
    pub config_hash: [u8; 32],
    /// Workers of each process (`-w`), from 1; equal everywhere.
    pub threads: usize,
    /// Number of processes (`-n`), from 1; equal everywhere. With 1, nothing below is used.
    pub processes: usize,
    /// Index of this process (`-p`), below `processes`.
    pub process: usize,
    /// `host:port` of each process, as [`parse_hostfile`] returns them; the first `processes` are
    /// used. This process listens on its own.
    pub hosts: Vec<String>,
    /// What the processes prove to each other: at least [`SECRET_BYTES_MIN`] bytes, or nothing if
    /// all hosts are loopback addresses.
    pub secret: Option<Vec<u8>>,
    /// How long to wait for the others.
    pub deadline: Duration,
    /// The number of this run of the job. That of process 0 counts, for all.
    pub number: u32,
}

impl fmt::Debug for ClusterSpec {
    /// Everything but the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterSpec")
            .field("job", &self.job)
            .field("config_hash", &judge::hex(&self.config_hash))
            .field("threads", &self.threads)
            .field("processes", &self.processes)
            .field("process", &self.process)
            .field("hosts", &self.hosts)
            .field("secret", &self.secret.as_ref().map(|_| "redacted"))
            .field("deadline", &self.deadline)
            .field("number", &self.number)
            .finish()
    }
}

/// One start of a cluster: random, chosen by process 0, the same in all processes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Incarnation(pub [u8; 16]);

impl Incarnation {
    /// Random, but for the number of the run that leads it.
    fn numbered(mut drawn: [u8; 16], number: u32) -> Self {
        drawn[..4].copy_from_slice(&number.to_be_bytes());
        Incarnation(drawn)
    }

    /// The number that process 0 was given in its [`ClusterSpec`].
    pub fn number(&self) -> u32 {
        u32::from_be_bytes(*self.0.first_chunk().expect("16 bytes"))
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&judge::hex(&self.0))
    }
}

impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A cluster that is up: the arguments of `timely::execute::execute_from`.
pub struct Cluster {
    /// One for each worker of this process.
    pub builders: Vec<AllocatorBuilder>,
    /// Joins the network threads when dropped; panics there if one of them has panicked.
    pub guard: Box<dyn Any + Send>,
    /// Which start this is.
    pub incarnation: Incarnation,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("workers_here", &self.builders.len())
            .field("incarnation", &self.incarnation)
            .finish_non_exhaustive()
    }
}

/// Checks `spec`, then waits until all processes are connected. `report` gets short lines for the
/// log: who is waited for, which connections were ignored. With one process there is no network.
///
/// # Errors
/// [`ClusterError`]; its text is for the operator, its [`ClusterError::exit_code`] for `main`.
pub fn bring_up(spec: &ClusterSpec, report: &mut dyn FnMut(&str)) -> Result<Cluster, ClusterError> {
    check(spec)?;
    let mut instance = [0; 16];
    getrandom::fill(&mut instance).map_err(|error| ClusterError::Io {
        doing: "drawing random numbers",
        source: std::io::Error::other(error.to_string()),
    })?;
    let Incarnation(instance) = Incarnation::numbered(instance, spec.number);
    let hooks = Hooks::default();
    let threads = spec.threads;
    if (spec.processes, threads) == (1, 1) {
        let builders = vec![AllocatorBuilder::Thread(ThreadBuilder)];
        return Ok(Cluster {
            builders,
            guard: Box::new(()),
            incarnation: Incarnation(instance),
        });
    }
    let local =
        ProcessBuilder::new_typed_vector(threads, hooks.refill.clone(), hooks.spill.clone());
    if spec.processes == 1 {
        let builders = local.into_iter().map(AllocatorBuilder::Process).collect();
        return Ok(Cluster {
            builders,
            guard: Box::new(()),
            incarnation: Incarnation(instance),
        });
    }
    let (sockets, incarnation) = connect(spec, instance, report)?;
    let (builders, guard) =
        initialize_networking_from_sockets(local, sockets, spec.process, threads, hooks).map_err(
            |source| ClusterError::Io {
                doing: "starting network threads",
                source,
            },
        )?;
    let builders = builders.into_iter().map(AllocatorBuilder::Tcp).collect();
    let incarnation = Incarnation(incarnation);
    Ok(Cluster {
        builders,
        guard: Box::new(guard),
        incarnation,
    })
}

/// Listens while the others come, and no longer.
fn connect(
    spec: &ClusterSpec,
    instance: [u8; 16],
    report: &mut dyn FnMut(&str),
) -> Result<(Vec<Option<TcpStream>>, [u8; 16]), ClusterError> {
    let (process, address) = (spec.process, spec.hosts[spec.process].clone());
    let listener = TcpListener::bind(&address)
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
        .map_err(|source| ClusterError::Listen {
            process,
            address,
            source,
        })?;
    let identity = judge::Identity {
        job: spec.job.clone(),
        build: env!("CARGO_PKG_VERSION").to_owned(),
        config_hash: spec.config_hash,
        threads: spec.threads,
        process,
        hosts: spec.hosts[..spec.processes].to_vec(),
        secret: spec.secret.clone().unwrap_or_default(),
        instance,
    };
    gather::Gather::new(identity, &listener, spec.deadline, report).run()
}

/// Everything that can be wrong before the network is touched.
fn check(spec: &ClusterSpec) -> Result<(), ClusterError> {
    let usage = |text: String| Err(ClusterError::Usage(text));
    let ClusterSpec {
        threads: w,
        processes: n,
        process: p,
        ..
    } = *spec;
    if w == 0 || w > THREADS_MAX {
        return usage(format!(
            "-w {w}: expected 1 to {THREADS_MAX} workers a process"
        ));
    }
    if n == 0 || n > PROCESSES_MAX {
        return usage(format!("-n {n}: expected 1 to {PROCESSES_MAX} processes"));
    }
    if p >= n {
        return usage(format!(
            "-p {p} with -n {n}: processes are numbered from 0, so -p must be below -n"
        ));
    }
    if n == 1 {
        return Ok(());
    }
    if spec.job.is_empty() || spec.job.len() > wire::JOB_BYTES_MAX {
        let (found, max) = (spec.job.len(), wire::JOB_BYTES_MAX);
        return usage(format!(
            "the job's name has {found} bytes; expected 1 to {max}"
        ));
    }
    check_hosts(&spec.hosts, n)?;
    check_secret(spec)
}

fn check_hosts(hosts: &[String], n: usize) -> Result<(), ClusterError> {
    let Some(hosts) = hosts.get(..n) else {
        return Err(ClusterError::Usage(format!(
            "the hostfile has {} addresses, but -n {n} needs {n}: one `host:port` a line for \
             each process (give it with -h)",
            hosts.len()
        )));
    };
    let mut seen = BTreeMap::new();
    for (process, host) in hosts.iter().enumerate() {
        hostfile::check_address(host).map_err(|reason| {
            let found = error::printable(host, 80);
            ClusterError::Usage(format!("address {found:?} of process {process} {reason}"))
        })?;
        if let Some(first) = seen.insert(host.to_ascii_lowercase(), process) {
            return Err(ClusterError::Usage(format!(
                "the hostfile gives {host} to process {first} and to process {process}; each \
                 process needs an address of its own"
            )));
        }
    }
    Ok(())
}

fn check_secret(spec: &ClusterSpec) -> Result<(), ClusterError> {
    let bytes = spec.secret.as_ref().map_or(0, Vec::len);
    let remote = spec.hosts[..spec.processes]
        .iter()
        .find(|host| !hostfile::is_loopback(host));
    match remote {
        Some(host) if bytes == 0 => Err(ClusterError::Secret(format!(
            "`cluster.secret` is not set, and {host} is not a loopback address"
        ))),
        Some(_) if bytes < SECRET_BYTES_MIN => Err(ClusterError::Secret(format!(
            "`cluster.secret` has {bytes} bytes, too few to withstand guessing"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Cluster, ClusterSpec, bring_up};
    use std::time::Duration;

    fn spec() -> ClusterSpec {
        ClusterSpec {
            job: "hello".to_owned(),
            config_hash: [0; 32],
            threads: 2,
            processes: 2,
            process: 0,
            hosts: vec!["10.0.0.1:2101".to_owned(), "10.0.0.2:2101".to_owned()],
            secret: Some(b"0123456789abcdef".to_vec()),
            deadline: Duration::from_millis(1),
            number: 0,
        }
    }

    #[test]
    fn wrong_settings_are_named_before_the_network_is_touched() {
        type Change = fn(&mut ClusterSpec);
        let cases: [(Change, &str); 11] = [
            (|s| s.threads = 0, "-w 0"),
            (|s| s.processes = 0, "-n 0"),
            (|s| s.processes = 5000, "-n 5000"),
            (|s| s.process = 2, "-p 2 with -n 2"),
            (|s| s.processes = 3, "has 2 addresses, but -n 3"),
            (|s| s.job.clear(), "job's name has 0 bytes"),
            (|s| s.job = "x".repeat(256), "job's name has 256 bytes"),
            (
                |s| s.hosts[1] = "b".to_owned(),
                "\"b\" of process 1 has no port",
            ),
            (
                |s| s.hosts[1] = s.hosts[0].clone(),
                "to process 0 and to process 1",
            ),
            (
                |s| s.secret = None,
                "`cluster.secret` is not set, and 10.0.0.1:2101",
            ),
            (|s| s.secret = Some(b"short".to_vec()), "has 5 bytes"),
        ];
        for (change, expected) in cases {
            let mut spec = spec();
            change(&mut spec);
            let error = bring_up(&spec, &mut |_| ()).unwrap_err();
            let message = error.to_string();
            assert!(message.contains(expected), "{expected}: {message}");
            assert_eq!(error.exit_code(), 2, "{message}");
            assert!(!message.contains("0123456789abcdef"));
        }
        assert!(!format!("{:?}", spec()).contains("0123456789abcdef"));
    }

    #[test]
    fn one_process_needs_no_network() {
        for threads in [1, 3] {
            let spec = ClusterSpec {
                processes: 1,
                threads,
                hosts: vec![],
                secret: None,
                ..spec()
            };
            let Cluster { builders, .. } = bring_up(&spec, &mut |_| ()).unwrap();
            assert_eq!(builders.len(), threads);
        }
    }
}
