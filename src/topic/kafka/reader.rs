//! Reads assigned partitions of Kafka topics with a client of its own.
//!
//! Invariant: offsets of a partition only grow. Gaps are legal (control records, aborted and
//! compacted ones); an offset that was given before, or lies before the assigned start, is an
//! error and not dropped: it means that the log was cut and written anew.
//!
//! `next_offset` follows the partition-EOF event as well as records, clamped to the high watermark
//! (librdkafka #4844). Cannot tell a topic that was deleted and made anew with as many records.

use super::context::Context;
use super::errors::{self, Problem, Severity};
use super::queue::{DataQueue, Event};
use crate::error::Error;
use crate::topic::sticky::Sticky;
use crate::topic::{Assignment, Reader, Take, Waker};
use crossbeam_channel::{Receiver, TryRecvError, bounded};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};
use std::sync::Arc;
use std::time::Duration;

/// How long a broker is asked, on a thread, what is wrong with a partition.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);

/// One assigned partition.
struct Place {
    topic: String,
    partition: i32,
    next_offset: u64,
    /// See [`Event::topic_id`]; 0 until it was seen.
    topic_id: usize,
}

/// What a question on a thread comes to: the error that ends the reader, or none.
type Late = Receiver<Option<Error>>;

/// The reader of Kafka topics.
pub(super) struct KafkaReader {
    // Both are there until the reader is dropped; the queue must go before the client.
    queue: Option<DataQueue>,
    client: Option<Arc<BaseConsumer<Context>>>,
    places: Vec<Place>,
    /// Index of the place of the last event: the next one is of the same, mostly.
    last: usize,
    servers: String,
    waker: Waker,
    /// Whether a broker has ever answered with records or an end.
    met: bool,
    late: Option<Late>,
    /// Whether run ids are looked for.
    runs: bool,
    failed: Sticky,
}

/// What an event came to.
enum Outcome {
    /// A record was given, of so many bytes.
    Given(usize),
    /// The end of a partition.
    End,
    /// Something else than records.
    Problem(Problem),
}

impl KafkaReader {
    pub(super) fn new(
        config: &ClientConfig,
        servers: &str,
        partitions: &[Assignment],
        waker: Waker,
    ) -> Result<Self, Error> {
        let client: Result<BaseConsumer<Context>, _> =
            config.create_with_context(Context::default());
        let mut client = client.map_err(|error| errors::not_created(&error))?;
        let wake = waker.clone();
        client.set_nonempty_callback(move || wake());
        let client = Arc::new(client);
        let queue = DataQueue::new(client.clone(), waker.clone());
        let mut list = TopicPartitionList::with_capacity(partitions.len());
        let mut places = Vec::with_capacity(partitions.len());
        for assignment in partitions {
            let place = Place::new(assignment)?;
            queue.redirect(&place.topic, place.partition)?;
            let offset = i64::try_from(place.next_offset).unwrap_or(i64::MAX);
            list.add_partition_offset(&place.topic, place.partition, Offset::Offset(offset))
                .map_err(|error| errors::not_assigned(assignment, &error))?;
            places.push(place);
        }
        if let (false, Some(first)) = (places.is_empty(), partitions.first()) {
            client
                .assign(&list)
                .map_err(|error| errors::not_assigned(first, &error))?;
        }
        Ok(KafkaReader {
            queue: Some(queue),
            client: Some(client),
            places,
            last: 0,
            servers: servers.to_string(),
            waker,
            met: false,
            late: None,
            runs: false,
            failed: Sticky::default(),
        })
    }

    fn client(&self) -> &Arc<BaseConsumer<Context>> {
        self.client
            .as_ref()
            .expect("there until the reader is dropped")
    }

    /// Serves log lines and errors of brokers, which come by the client's own queue.
    fn serve(&mut self) -> Result<(), Error> {
        if !Context::serve(self.client()) {
            let text = "librdkafka delivered a record outside of its queue";
            return Err(Error::failed(text).line("this is a bug: please report it"));
        }
        let denied = if self.met {
            None
        } else {
            self.client().context().denied()
        };
        denied.map_or(Ok(()), |reason| Err(errors::denied(&self.servers, &reason)))
    }

    fn poll_all(&mut self, budget: usize, take: &mut Take<'_>) -> Result<usize, Error> {
        self.serve()?;
        if self.late.is_none() && self.client().context().take_doubt() {
            self.late = Some(self.ask_existence());
        }
        match self.late.as_ref().map(Receiver::try_recv) {
            Some(Ok(Some(error))) => return Err(error),
            Some(Err(TryRecvError::Empty)) => return Ok(0),
            Some(Ok(None) | Err(TryRecvError::Disconnected)) => self.late = None,
            None => {}
        }
        let (mut given, mut came) = (0, false);
        while given < budget && self.late.is_none() {
            let queue = self
                .queue
                .as_mut()
                .expect("there until the reader is dropped");
            let Some(event) = queue.peek() else {
                break;
            };
            let at = (&mut self.places[..], &mut self.last);
            let outcome = on_event(&event, at, self.runs, take)?;
            queue.step();
            match outcome {
                Outcome::Given(bytes) => {
                    given += bytes;
                    came = true;
                }
                Outcome::End => came = true,
                Outcome::Problem(problem) => self.on_problem(problem)?,
            }
        }
        if came {
            self.met = true;
            self.client().context().came();
        }
        Ok(given)
    }

    fn on_problem(&mut self, problem: Problem) -> Result<(), Error> {
        match problem.severity() {
            Severity::Passes => {
                self.client().context().note(&problem.text);
                Ok(())
            }
            Severity::Ends => Err(problem.error()),
            Severity::OffsetGone => {
                self.late = Some(self.ask_range(problem));
                Ok(())
            }
        }
    }

    /// Asks a broker on a thread; nothing is read until the answer is here.
    fn ask(
        &self,
        question: impl FnOnce(&BaseConsumer<Context>) -> Option<Error> + Send + 'static,
    ) -> Late {
        let (told, late) = bounded(1);
        let (client, waker) = (self.client().clone(), self.waker.clone());
        std::thread::spawn(move || {
            // A reader that was dropped does not want to know.
            let _ = told.send(question(&client));
            waker();
        });
        late
    }

    /// The range of a partition whose offset is gone.
    fn ask_range(&self, mut problem: Problem) -> Late {
        let place = self
            .places
            .iter()
            .find(|place| place.is(&problem.topic, problem.partition));
        // What librdkafka tells is -1 when the broker answered with an epoch only.
        problem.offset = place.map_or(problem.offset, |place| place.next_offset as i64);
        self.ask(move |client| {
            let (topic, partition) = (&problem.topic, problem.partition);
            let range = client.fetch_watermarks(topic, partition, ASK_TIMEOUT).ok();
            Some(problem.offset_gone(range))
        })
    }

    /// Whether all partitions are there.
    fn ask_existence(&self) -> Late {
        let asked = |place: &Place| (place.topic.clone(), place.partition);
        let places: Vec<_> = self.places.iter().map(asked).collect();
        self.ask(move |client| {
            places.into_iter().find_map(|(topic, partition)| {
                // Brokers that cannot be asked are not a topic that is missing.
                let metadata = client.fetch_metadata(Some(&topic), ASK_TIMEOUT).ok()?;
                let found = metadata
                    .topics()
                    .iter()
                    .find(|found| found.name() == topic)?;
                let code = found.error().map(RDKafkaErrorCode::from);
                if code.is_none() && found.partitions().iter().any(|p| p.id() == partition) {
                    return None;
                }
                let problem = Problem::missing(topic, partition, code, found.partitions().len());
                (problem.severity() != Severity::Passes).then(|| problem.error())
            })
        })
    }
}

/// Handles one event; `last` is the place of the one before.
fn on_event(
    event: &Event<'_>,
    (places, last): (&mut [Place], &mut usize),
    runs: bool,
    take: &mut Take<'_>,
) -> Result<Outcome, Error> {
    let Some(index) = place_of(event, places, *last) else {
        return Ok(Outcome::Problem(Problem::of(event)));
    };
    *last = index;
    let place = &mut places[index];
    match event.error() {
        None => {}
        Some(RDKafkaErrorCode::PartitionEOF) => {
            let end = u64::try_from(event.offset()).unwrap_or(0);
            let high = event.high_watermark();
            place.next_offset = place
                .next_offset
                .max(high.map_or(end, |high| end.min(high)));
            return Ok(Outcome::End);
        }
        Some(_) => return Ok(Outcome::Problem(Problem::of(event))),
    }
    let offset = u64::try_from(event.offset()).unwrap_or(0);
    if offset < place.next_offset {
        return Err(errors::went_back(
            &place.topic,
            place.partition,
            place.next_offset,
            offset,
        ));
    }
    let record = event.record(offset, runs);
    let bytes = record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len);
    take(index, record)?;
    place.next_offset = offset + 1;
    // A record without key and value is something at hand all the same.
    Ok(Outcome::Given(bytes.max(1)))
}

fn place_of(event: &Event<'_>, places: &mut [Place], last: usize) -> Option<usize> {
    let (topic_id, partition) = (event.topic_id(), event.partition());
    let is = |place: &Place| place.topic_id == topic_id && place.partition == partition;
    if topic_id == 0 {
        return None;
    }
    if places.get(last).is_some_and(is) {
        return Some(last);
    }
    if let Some(index) = places.iter().position(is) {
        return Some(index);
    }
    let topic = event.topic();
    let index = places.iter().position(|place| place.is(topic, partition))?;
    places[index].topic_id = topic_id;
    Some(index)
}

impl Place {
    fn new(assignment: &Assignment) -> Result<Self, Error> {
        let partition = i32::try_from(assignment.partition).map_err(|_| {
            let text = format!(
                "topic {} has no partition {}",
                assignment.topic, assignment.partition
            );
            Error::failed(text)
        })?;
        Ok(Place {
            topic: assignment.topic.clone(),
            partition,
            next_offset: assignment.next_offset,
            topic_id: 0,
        })
    }

    fn is(&self, topic: &str, partition: i32) -> bool {
        self.partition == partition && self.topic == topic
    }
}

impl Drop for KafkaReader {
    /// Closes the client on a thread of its own: that takes a round trip, or longer when brokers
    /// are away.
    fn drop(&mut self) {
        // First, or its reference to the client is the last and closes it here.
        drop(self.queue.take());
        let client = self.client.take();
        let close = std::thread::Builder::new().name("kafka-close".into());
        // Without a thread the client is dropped here, when the closure is.
        let _ = close.spawn(move || drop(client));
    }
}

impl Reader for KafkaReader {
    fn poll(&mut self, budget_bytes: usize, take: &mut Take<'_>) -> Result<usize, Error> {
        self.failed.check()?;
        let given = self.poll_all(budget_bytes, take);
        self.failed.keep(given)
    }

    fn next_offset(&self, index: usize) -> u64 {
        self.places[index].next_offset
    }

    fn want_runs(&mut self) {
        self.runs = true;
    }

    fn trouble(&self) -> Option<String> {
        self.client().context().trouble()
    }
}
