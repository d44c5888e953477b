//! The real services of a test: Kafka, PostgreSQL, Kafka Connect with Debezium.
//!
//! Invariant: what a `Services` started is stopped when it is dropped, also when the test panics,
//! and by a watching shell script when the test process is killed.
//!
//! It cannot share services between test processes, and a port that it found free may be taken by
//! another process before the service binds it; the start is then tried again on another port.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Ports below the range that the system hands out to connecting sockets.
const PORT_MIN: u32 = 20_000;
const PORT_COUNT: u32 = 12_000;
const START_TRIES: u32 = 3;
/// A machine that compiles at the same time has taken more than 60 s.
const START_SECONDS_MAX: &str = "180";
/// Connect first: it talks to the others.
const STOP_ORDER: [&str; 4] = ["connect", "standby", "postgres", "kafka"];
const LOG_TAIL_LINES: usize = 30;

/// One set of running services in one folder of its own.
#[derive(Debug)]
pub(crate) struct Services {
    folder: tempfile::TempDir,
    kafka_port: u16,
    postgres_port: u16,
    connect_port: u16,
    watcher: Child,
}

impl Services {
    /// Starts all three, one after the other (Connect needs Kafka). The first start on a machine
    /// downloads about 120 MB of jars.
    pub(crate) fn start() -> Self {
        let mut services = Self::start_kafka();
        services.postgres_port = services.launch("postgres", &[]);
        let bootstrap = services.bootstrap_servers();
        services.connect_port = services.launch("connect", &[&bootstrap]);
        services
    }

    /// Starts Kafka alone.
    pub(crate) fn start_kafka() -> Self {
        use std::os::unix::fs::PermissionsExt;
        // PostgreSQL runs as the user `postgres`, who must be able to enter.
        let folder = tempfile::Builder::new()
            .prefix("headwater-test-")
            .permissions(fs::Permissions::from_mode(0o755))
            .tempdir()
            .expect("a folder for the services");
        let watcher = watch(folder.path());
        let mut services = Self {
            folder,
            kafka_port: 0,
            postgres_port: 0,
            connect_port: 0,
            watcher,
        };
        services.kafka_port = services.launch("kafka", &[]);
        services
    }

    /// Starts a hot standby of PostgreSQL that applies what it gets so much later (`12s`); returns
    /// its port. It is stopped with the others.
    pub(crate) fn start_standby(&self, delay: &str) -> u16 {
        self.launch("standby", &[&self.postgres_port.to_string(), delay])
    }

    /// Kafka's address, as `bootstrap.servers`.
    pub(crate) fn bootstrap_servers(&self) -> String {
        format!("127.0.0.1:{}", self.kafka_port)
    }

    /// Port of PostgreSQL on the loopback address.
    pub(crate) fn postgres_port(&self) -> u16 {
        self.postgres_port
    }

    /// Port of Connect's REST interface on the loopback address.
    pub(crate) fn connect_port(&self) -> u16 {
        self.connect_port
    }

    /// Stops Kafka and starts it again on the same data and port; returns how long it was away.
    pub(crate) fn restart_kafka(&self) -> Duration {
        self.restart("kafka", self.kafka_port)
    }

    /// As [`Services::restart_kafka`]; the server ends its sessions and does not wait for them.
    pub(crate) fn restart_postgres(&self) -> Duration {
        self.restart("postgres", self.postgres_port)
    }

    fn restart(&self, name: &str, port: u16) -> Duration {
        let begun = Instant::now();
        let stopped = Command::new(script("stop-service"))
            .arg(self.data(name))
            .status()
            .expect("bash is there");
        assert!(stopped.success(), "{name} could not be stopped: {stopped}");
        if let Err(said) = self.run_start(name, port, &[]) {
            panic!("{name} did not start again: {said}");
        }
        begun.elapsed()
    }

    /// Prints the ends of the services' logs.
    pub(crate) fn print_logs(&self) {
        for (name, log) in [
            ("connect", "connect.log"),
            ("kafka", "kafka.log"),
            ("postgres", "postgres.log"),
        ] {
            print_tail(&self.data(name).join(log));
        }
    }

    /// The folder of this set; a test may put its own files there.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn data(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn launch(&self, name: &str, more: &[&str]) -> u16 {
        let begun = Instant::now();
        for attempt in 1.. {
            let port = free_port();
            match self.run_start(name, port, more) {
                Ok(()) => {
                    eprintln!(
                        "{name}: port {port}, {:.1} s",
                        begun.elapsed().as_secs_f64()
                    );
                    return port;
                }
                Err(said) => assert!(attempt < START_TRIES, "{name} did not start: {said}"),
            }
        }
        unreachable!("the loop ends by returning or by its assertion")
    }

    /// Runs the start script of a service; what it said when that failed.
    fn run_start(&self, name: &str, port: u16, more: &[&str]) -> Result<(), String> {
        let output = Command::new(script(&format!("start-{name}")))
            .arg(self.data(name))
            .arg(port.to_string())
            .args(more)
            .env("START_LIMIT", START_SECONDS_MAX)
            .stdin(Stdio::null())
            .output()
            .expect("bash is there");
        if output.status.success() {
            return Ok(());
        }
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        if thread::panicking() {
            self.print_logs();
        }
        for name in STOP_ORDER {
            let stopped = Command::new(script("stop-service"))
                .arg(self.data(name))
                .status();
            if !stopped.as_ref().is_ok_and(|status| status.success()) {
                eprintln!("{name} could not be stopped: {stopped:?}");
            }
        }
        if let Err(error) = self.watcher.kill().and_then(|()| self.watcher.wait()) {
            eprintln!("the watcher could not be ended: {error}");
        }
    }
}

/// Prints the last lines of a log to stderr; says so when it cannot be read.
pub(crate) fn print_tail(log: &Path) {
    match fs::read(log) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let lines: Vec<&str> = text.lines().collect();
            eprintln!("---- the end of {}", log.display());
            for line in &lines[lines.len().saturating_sub(LOG_TAIL_LINES)..] {
                eprintln!("{line}");
            }
        }
        Err(error) => eprintln!("---- {} cannot be read: {error}", log.display()),
    }
}

/// Waits until `check` gives a value; panics with `what` after `limit`.
pub(crate) fn wait_until<T>(
    what: &str,
    limit: Duration,
    mut check: impl FnMut() -> Result<T, String>,
) -> T {
    let begun = Instant::now();
    loop {
        match check() {
            Ok(value) => return value,
            Err(found) => assert!(
                begun.elapsed() < limit,
                "waited {} s for {what}; the last look found: {found}",
                limit.as_secs()
            ),
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// Starts the script that stops the services when this process is gone without having done so.
fn watch(folder: &Path) -> Child {
    let folders = STOP_ORDER.map(|name| folder.join(name));
    for folder in &folders {
        fs::create_dir_all(folder).expect("a folder for the service");
    }
    Command::new("setsid")
        .arg(script("stop-when-gone"))
        .arg(std::process::id().to_string())
        .args(folders)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("bash and setsid are there")
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/services")
        .join(name)
}

/// A port that is free now, and the next one too (Kafka's controller takes it).
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Test processes side by side begin at different places.
    let start = std::process::id().wrapping_mul(37);
    for _ in 0..PORT_COUNT / 2 {
        let step = NEXT.fetch_add(2, Ordering::Relaxed);
        let port = PORT_MIN + start.wrapping_add(step) % PORT_COUNT;
        let port = u16::try_from(port).expect("PORT_MIN + PORT_COUNT is below 65,536");
        let free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if free(port) && free(port + 1) {
            return port;
        }
    }
    panic!("no free port from {PORT_MIN} on");
}
