//! A server of the S3 protocol for one test; stopped when dropped, and by a watching shell script
//! when the test process is killed.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const START_TRIES: u32 = 3;

pub(crate) struct Server {
    folder: tempfile::TempDir,
    port: u16,
    watcher: Child,
}

impl Server {
    /// Starts one. The first start on a machine downloads 34 MB of jars.
    pub(crate) fn start() -> Server {
        let folder = tempfile::Builder::new()
            .prefix("headwater-test-")
            .tempdir()
            .expect("a folder for the server");
        let data = folder.path().join("s3");
        std::fs::create_dir(&data).expect("made");
        let mut server = Server {
            watcher: watch(&data),
            folder,
            port: 0,
        };
        for attempt in 1.. {
            let port = free_port();
            let output = Command::new(script("start-s3"))
                .arg(&data)
                .arg(port.to_string())
                .env("START_LIMIT", "180")
                .stdin(Stdio::null())
                .output()
                .expect("bash is there");
            if output.status.success() {
                server.port = port;
                return server;
            }
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(attempt < START_TRIES, "the S3 server did not start: {said}");
        }
        unreachable!("the loop ends by returning or by its assertion")
    }

    /// Its port on the loopback address.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let data = self.folder.path().join("s3");
        if std::thread::panicking() {
            let log = std::fs::read_to_string(data.join("s3.log")).unwrap_or_default();
            eprintln!("---- the server's log\n{log}");
        }
        let stopped = Command::new(script("stop-service")).arg(&data).status();
        if !stopped.as_ref().is_ok_and(|status| status.success()) {
            eprintln!("the S3 server could not be stopped: {stopped:?}");
        }
        if let Err(error) = self.watcher.kill().and_then(|()| self.watcher.wait()) {
            eprintln!("the watcher could not be ended: {error}");
        }
    }
}

/// Stops the server when this process is gone.
fn watch(data: &Path) -> Child {
    Command::new("setsid")
        .arg(script("stop-when-gone"))
        .arg(std::process::id().to_string())
        .arg(data)
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

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound").port()
}
