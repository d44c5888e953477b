//! A PostgreSQL server for the tests of this process: started by the first that needs it, stopped
//! by the last.
//!
//! It cannot start without `start-postgres`, in `tests/services` or where HEADWATER_SERVICES says.

use super::NoTls;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use tokio_postgres::SimpleQueryMessage;

/// Of the server, and with it its folder: test processes that run at a time need different ones.
fn port() -> u16 {
    let other = std::env::var("HEADWATER_TEST_POSTGRES_PORT");
    other.map_or(25432, |port| port.parse().unwrap())
}

/// Tests that use the server, and the process id of its postmaster.
static RUNNING: Mutex<(usize, Option<String>)> = Mutex::new((0, None));

/// One database of the server, for one test.
pub(crate) struct Database {
    pub(crate) url: String,
}

fn services() -> PathBuf {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/services");
    let folder = std::env::var_os("HEADWATER_SERVICES").map_or(own, PathBuf::from);
    let script = folder.join("start-postgres");
    assert!(
        script.is_file(),
        "{} is missing: the tests of the PostgreSQL sink need a server",
        script.display()
    );
    script
}

fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("headwater-test-postgres-{}", port()))
}

impl Database {
    /// A new, empty database.
    pub(crate) fn new(name: &str) -> Database {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        if running.0 == 0 {
            let mut command = Command::new(services());
            let started = command
                .arg(folder())
                .arg(port().to_string())
                .output()
                .unwrap();
            let words = String::from_utf8_lossy(&started.stderr);
            assert!(started.status.success(), "start-postgres: {words}");
            let pid = String::from_utf8_lossy(&started.stdout);
            running.1 = pid.lines().last().map(str::to_owned);
        }
        running.0 += 1;
        drop(running);
        let of = |database: &str| Database {
            url: format!("postgres://postgres@127.0.0.1:{}/{database}", port()),
        };
        let admin = std::mem::ManuallyDrop::new(of("postgres"));
        admin.sql(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"));
        admin.sql(&format!("CREATE DATABASE {name}"));
        of(name)
    }

    /// Runs statements; the rows of the last, columns joined by `|`.
    pub(crate) fn sql(&self, text: &str) -> Vec<String> {
        let runtime = super::runtime().unwrap();
        let messages = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
            tokio::spawn(connection);
            client.simple_query(text).await.unwrap()
        });
        let row = |message| match message {
            SimpleQueryMessage::Row(row) => {
                let cells = (0..row.len()).map(|index| row.get(index).unwrap_or("NULL"));
                Some(cells.collect::<Vec<_>>().join("|"))
            }
            _ => None,
        };
        messages.into_iter().filter_map(row).collect()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        running.0 -= 1;
        if running.0 > 0 {
            return;
        }
        let Some(pid) = running.1.take() else { return };
        // SIGINT is its fast shutdown; its next start must find the port free.
        let _ = Command::new("kill").args(["-INT", &pid]).status();
        for _ in 0..500 {
            if !folder().join("db/postmaster.pid").exists() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}
