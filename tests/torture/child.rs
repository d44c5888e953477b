//! The processes of one incarnation: started with faults and plants, killed, waited for.
//!
//! Invariant: no process outlives its [`Children`].
//!
//! It cannot kill at a given instruction: points in the program do that (`HEADWATER_FAULT`).

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// How an incarnation is started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Start {
    pub(crate) processes: usize,
    /// Of each process.
    pub(crate) workers: usize,
    pub(crate) once: bool,
    /// Other arguments.
    pub(crate) arguments: Vec<String>,
    /// `HEADWATER_FAULT`, of one process alone.
    pub(crate) fault: Option<(usize, String)>,
    /// `HEADWATER_PLANT`.
    pub(crate) plant: Option<String>,
}

/// Running processes.
#[derive(Debug)]
pub(crate) struct Children {
    all: Vec<(Child, PathBuf, Option<ExitStatus>)>,
    started: Instant,
    killed: Vec<usize>,
}

/// How a process ended, and what it said.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    /// Whether it was to be killed.
    pub(crate) killed: bool,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    pub(crate) fn words(&self) -> String {
        format!(
            "code {:?} signal {:?}\n{}",
            self.code, self.signal, self.err
        )
    }
}

/// Writes `hosts.txt` with free addresses that nobody else in this test uses.
fn hosts(folder: &Path, count: usize) {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    let [high, low] = NEXT.fetch_add(1, Ordering::SeqCst).to_be_bytes();
    let pid = std::process::id().to_le_bytes();
    let ip = Ipv4Addr::new(127, 100 + pid[0] % 100, high ^ pid[1], low.max(1));
    let bind = |_| TcpListener::bind((ip, 0)).expect("a free port");
    let taken: Vec<TcpListener> = (0..count).map(bind).collect();
    let address = |listener: &TcpListener| listener.local_addr().expect("bound").to_string();
    let hosts: Vec<String> = taken.iter().map(address).collect();
    std::fs::write(folder.join("hosts.txt"), hosts.join("\n") + "\n").expect("written");
}

impl Children {
    /// Starts all processes of an incarnation in a scenario's folder. `name` is that of their logs.
    pub(crate) fn start(folder: &Path, name: &str, start: &Start) -> Self {
        if start.processes > 1 {
            hosts(folder, start.processes);
        }
        let spawn = |process: usize| {
            let log = |end: &str| folder.join(format!("{name}.{process}.{end}"));
            let file = |end: &str| File::create(log(end)).expect("the folder can be written");
            let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
            command.args(["run", "--json", "-w", &start.workers.to_string()]);
            if start.processes > 1 {
                let (count, number) = (start.processes.to_string(), process.to_string());
                command.args(["-n", &count, "-p", &number, "-h", "hosts.txt"]);
            }
            command.args(start.once.then_some("--once"));
            command.args(&start.arguments).current_dir(folder);
            for name in ["HEADWATER_FAULT", "HEADWATER_PLANT"] {
                command.env_remove(name);
            }
            match &start.fault {
                Some((at, fault)) if *at == process => command.env("HEADWATER_FAULT", fault),
                _ => &mut command,
            };
            if let Some(plant) = &start.plant {
                command.env("HEADWATER_PLANT", plant);
            }
            let child = command
                .stdin(Stdio::null())
                .stdout(file("out"))
                .stderr(file("err"))
                .spawn()
                .expect("cargo built the binary");
            (child, log(""), None)
        };
        Children {
            all: (0..start.processes.max(1)).map(spawn).collect(),
            started: Instant::now(),
            killed: Vec::new(),
        }
    }

    /// Whether any process has ended.
    pub(crate) fn any_ended(&mut self) -> bool {
        self.look().any(|ended| ended)
    }

    fn look(&mut self) -> impl Iterator<Item = bool> {
        self.all.iter_mut().map(|(child, _, status)| {
            if status.is_none() {
                *status = child.try_wait().expect("it is our child");
            }
            status.is_some()
        })
    }

    /// SIGKILL to one process.
    pub(crate) fn kill(&mut self, process: usize) {
        self.killed.push(process);
        // It may have ended a moment ago.
        let _ = self.all[process].0.kill();
    }

    /// SIGKILL to all.
    pub(crate) fn kill_all(&mut self) {
        (0..self.all.len()).for_each(|process| self.kill(process));
    }

    /// Sends a signal by name to a process.
    pub(crate) fn signal(&self, process: usize, name: &str) {
        let pid = self.all[process].0.id().to_string();
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &pid])
            .status();
        assert!(sent.expect("kill is there").success());
    }

    /// What a process has said so far.
    pub(crate) fn err(&self, process: usize) -> String {
        std::fs::read_to_string(self.all[process].1.with_extension("err")).expect("its log")
    }

    /// Waits for all to end; `None` when one does not within `limit`, and then all are killed.
    pub(crate) fn end(&mut self, limit: Duration) -> Option<Vec<Ended>> {
        let until = Instant::now() + limit;
        while self.look().filter(|ended| !ended).count() > 0 {
            if Instant::now() > until {
                self.kill_all();
                return None;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let ended = |process: usize| {
            let (_, log, status) = &self.all[process];
            let read = |end| std::fs::read_to_string(log.with_extension(end)).expect("its log");
            let status = status.expect("it has ended");
            Ended {
                code: status.code(),
                signal: status.signal(),
                killed: self.killed.contains(&process),
                out: read("out"),
                err: read("err"),
            }
        };
        Some((0..self.all.len()).map(ended).collect())
    }

    /// Waits for the others when one has gone. Those that are not connected yet would wait for it
    /// for long and are killed; connected ones must end by themselves within `limit`.
    pub(crate) fn end_others(&mut self, limit: Duration) -> Option<Vec<Ended>> {
        let connected = self.started.elapsed() > Duration::from_secs(2);
        let limit = if connected {
            limit
        } else {
            Duration::from_millis(700)
        };
        match connected {
            true => self.end(limit),
            false => self.end_or_kill(limit),
        }
    }

    /// Waits so long for the others when one has gone, then kills those that are left: before they
    /// are connected they would wait for it for long.
    pub(crate) fn end_or_kill(&mut self, patience: Duration) -> Option<Vec<Ended>> {
        match self.end(patience) {
            None => self.end(Duration::from_secs(10)),
            ended => ended,
        }
    }

    /// All that was said, for a message.
    pub(crate) fn said(&self) -> String {
        (0..self.all.len())
            .map(|process| format!("process {process}:\n{}", self.err(process)))
            .collect()
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for (child, _, _) in &mut self.all {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
