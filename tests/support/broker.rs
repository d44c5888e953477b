//! One Kafka broker of a test's own, which can be stopped and started again with its data.
//!
//! Invariant: it is stopped when dropped, also when the test panics. It cannot be shared.

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use std::future::Future;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A broker in a folder of its own.
pub(crate) struct Broker {
    data: tempfile::TempDir,
    ports: [u16; 2],
    /// Its address, as `bootstrap.servers`.
    pub(crate) servers: String,
}

fn script(name: &str) -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/services");
    let folder = std::env::var_os("HEADWATER_SERVICES").map_or(own, PathBuf::from);
    folder.join(name)
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound").port()
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(future)
}

impl Broker {
    /// Starts one; the first start on a machine downloads its jars.
    pub(crate) fn start() -> Broker {
        let ports = [free_port(), free_port()];
        let broker = Broker {
            data: tempfile::tempdir().expect("a folder"),
            ports,
            servers: format!("127.0.0.1:{}", ports[0]),
        };
        broker.launch();
        broker
    }

    /// Starts it again where it was.
    pub(crate) fn launch(&self) {
        let status = Command::new(script("start-kafka"))
            .arg(self.data.path())
            .args(self.ports.map(|port| port.to_string()))
            .env("START_LIMIT", "180")
            .status();
        assert!(status.expect("bash is there").success(), "no broker");
    }

    /// Stops it; its data stay.
    pub(crate) fn stop(&self) {
        let status = Command::new(script("stop-service"))
            .arg(self.data.path())
            .status();
        assert!(status.expect("bash is there").success(), "not stopped");
    }

    /// A client's configuration.
    pub(crate) fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.servers);
        config
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.config().create().expect("an admin client")
    }

    /// Makes a topic.
    pub(crate) fn create(&self, topic: &str, partitions: i32) {
        let new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
        let (admin, options) = (self.admin(), AdminOptions::new());
        let results = wait(admin.create_topics([&new], &options)).expect("asked");
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }

    /// Deletes a topic.
    pub(crate) fn delete(&self, topic: &str) {
        let (admin, options) = (self.admin(), AdminOptions::new());
        let results = wait(admin.delete_topics(&[topic], &options)).expect("asked");
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let stopped = Command::new(script("stop-service"))
            .arg(self.data.path())
            .status();
        if !stopped.is_ok_and(|status| status.success()) {
            let folder = self.data.path().display();
            eprintln!("the broker in {folder} could not be stopped");
        }
    }
}
