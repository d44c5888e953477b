//! Gives one event to whoever listens.
//!
//! Invariant: it was taken when this returns `Ok`: acknowledged by all in-sync replicas, on disk,
//! or answered with a status of 2xx.

use super::event::Event;
use super::place::Place;
use crate::https;
use crate::sink::kafka::{KafkaLog, LogFailure, LogRecord};
use crate::topic::file::{self, FileTopicWriter, NewRecord};
use std::path::PathBuf;
use std::time::Duration;

/// How long an answer of a webhook is waited for.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// See the module.
pub(super) trait Outlet: Send {
    /// Gives it, or says why not; it may have been taken all the same.
    fn give(&mut self, event: &Event) -> Result<(), String>;
}

/// The outlet of a place; nothing is opened yet.
pub(super) fn outlet(place: Place) -> Box<dyn Outlet> {
    match place {
        Place::Kafka(topic) => Box::new(Kafka(KafkaLog::new(topic))),
        Place::Folder(folder) => Box::new(Folder {
            folder,
            writer: None,
        }),
        Place::Webhook { url, shown } => Box::new(Webhook {
            url,
            shown,
            agent: https::client()
                .timeout_global(Some(ANSWER_WAIT))
                // A POST that is sent elsewhere becomes a GET.
                .max_redirects(0)
                .max_redirects_will_error(false)
                .build()
                .new_agent(),
        }),
    }
}

struct Kafka(KafkaLog);

impl Outlet for Kafka {
    fn give(&mut self, event: &Event) -> Result<(), String> {
        let record = LogRecord {
            // One partition, and so one order, for a job.
            key: event.job.clone().into_bytes(),
            value: event.json(),
            generation: Some(event.generation.clone()),
        };
        self.0.append(&[record]).map_err(|failure| match failure {
            LogFailure::Retry(text) | LogFailure::Fatal(text) | LogFailure::Record(_, text) => text,
        })
    }
}

struct Folder {
    folder: PathBuf,
    writer: Option<FileTopicWriter>,
}

impl Outlet for Folder {
    fn give(&mut self, event: &Event) -> Result<(), String> {
        let mut writer = match self.writer.take() {
            Some(writer) => writer,
            None => {
                if !self.folder.join("topic.json").exists() {
                    file::create(&self.folder, 1).map_err(|error| error.text)?;
                }
                FileTopicWriter::open(&self.folder, 0).map_err(|error| error.text)?
            }
        };
        let value = event.json();
        let record = NewRecord {
            timestamp_ms: i64::try_from(event.at_ms).unwrap_or(i64::MAX),
            key: Some(event.job.as_bytes()),
            value: Some(&value),
            headers: &[],
        };
        let appended = writer.append(&record).and_then(|_| writer.sync());
        appended.map_err(|error| error.text)?;
        // One that could not write is opened anew.
        self.writer = Some(writer);
        Ok(())
    }
}

struct Webhook {
    url: String,
    shown: String,
    agent: ureq::Agent,
}

impl Outlet for Webhook {
    fn give(&mut self, event: &Event) -> Result<(), String> {
        let request = self.agent.post(&self.url);
        let request = request.header("Content-Type", "application/json");
        match request.send(event.json()) {
            Ok(response) if response.status().is_success() => Ok(()),
            Ok(response) => Err(format!("{}: HTTP {}", self.shown, response.status())),
            Err(error) => Err(format!("{}: {error}", self.shown)),
        }
    }
}
