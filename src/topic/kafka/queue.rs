//! The queue that all partitions of one client deliver into, taken from in batches.
//!
//! With `ids`, the only unsafe code of this program. Measured with 2 clients of 4 partitions and
//! records of 500 bytes copied into an arena, medians of 5 rounds in one run beside other work: CPU
//! a record is
//! 0.66 us with `BaseConsumer::poll`, 0.45 with `rd_kafka_consume_batch_queue`, 0.43 with
//! `rd_kafka_consume_callback_queue`. The batch form is taken: no Rust frame is called from C, a
//! panic in between is harmless, and a budget can end anywhere. `poll` also loses what we need: the
//! topic and offset of a partition's end, and which partition an error is about.
//!
//! Invariant: partitions are redirected here before they are assigned, and librdkafka leaves a
//! redirection by the application alone, so no record ever takes another way.

use super::context::Context;
use crate::error::Error;
use crate::topic::{END_HEADER, RUN_HEADER, RawRecord, Waker};
use rdkafka::bindings as rd;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use std::ffi::{CStr, CString, c_void};
use std::ptr;
use std::sync::Arc;

/// Messages taken at once.
const BATCH: usize = 512;

/// A client's queue.
pub(super) struct DataQueue {
    /// Keeps `native` alive.
    _client: Arc<BaseConsumer<Context>>,
    queue: *mut rd::rd_kafka_queue_t,
    /// Messages that are ours to destroy, from `at` on.
    batch: Vec<*mut rd::rd_kafka_message_t>,
    at: usize,
    /// At an address that stays, for the callback. Not a box: a moved box must be the only way to
    /// what it holds.
    _waker: Arc<Waker>,
    native: *mut rd::rd_kafka_t,
    end_header: CString,
    run_header: CString,
}

/// A message or an error in its place, borrowed from the queue.
pub(super) struct Event<'q> {
    message: &'q rd::rd_kafka_message_t,
    native: *mut rd::rd_kafka_t,
    end_header: &'q CStr,
    run_header: &'q CStr,
}

impl DataQueue {
    /// A queue of `client` that calls `waker` when it is no longer empty.
    pub(super) fn new(client: Arc<BaseConsumer<Context>>, waker: Waker) -> Self {
        let waker = Arc::new(waker);
        let opaque = Arc::as_ptr(&waker);
        let native = client.client().native_ptr();
        // SAFETY: the client lives as long as `self._client`. The callback is disabled in `drop`
        // before the waker that it points to goes; disabling takes the lock under which it is
        // called.
        let queue = unsafe {
            let queue = rd::rd_kafka_queue_new(native);
            rd::rd_kafka_queue_cb_event_enable(queue, Some(wake), opaque.cast_mut().cast());
            queue
        };
        DataQueue {
            _client: client,
            native,
            queue,
            batch: Vec::with_capacity(BATCH),
            at: 0,
            _waker: waker,
            end_header: CString::new(END_HEADER).expect("no zero byte"),
            run_header: CString::new(RUN_HEADER).expect("no zero byte"),
        }
    }

    /// Sends what a partition gives into this queue. Must come before the partition is assigned.
    pub(super) fn redirect(&self, topic: &str, partition: i32) -> Result<(), Error> {
        let refused = || Error::failed(format!("topic {topic:?} cannot be read by librdkafka"));
        let name = CString::new(topic).map_err(|_| refused())?;
        // SAFETY: both queues are of the client that `self` keeps alive; librdkafka counts the
        // references to them, so ours to the partition's can go at once.
        unsafe {
            let partition = rd::rd_kafka_queue_get_partition(self.native, name.as_ptr(), partition);
            if partition.is_null() {
                return Err(refused());
            }
            rd::rd_kafka_queue_forward(partition, self.queue);
            rd::rd_kafka_queue_destroy(partition);
        }
        Ok(())
    }

    /// The next event, if one is at hand; it stays until [`DataQueue::step`].
    pub(super) fn peek(&mut self) -> Option<Event<'_>> {
        if self.at == self.batch.len() {
            self.refill();
        }
        let message = *self.batch.get(self.at)?;
        // SAFETY: librdkafka gave a valid message that is ours until it is destroyed, which takes
        // `&mut self` and so comes after this borrow.
        let message = unsafe { &*message };
        Some(Event {
            message,
            native: self.native,
            end_header: &self.end_header,
            run_header: &self.run_header,
        })
    }

    /// Gives the event back that [`DataQueue::peek`] showed.
    pub(super) fn step(&mut self) {
        if let Some(message) = self.batch.get(self.at) {
            // SAFETY: ours, and destroyed once: `at` moves past it.
            unsafe { rd::rd_kafka_message_destroy(*message) };
            self.at += 1;
        }
    }

    fn refill(&mut self) {
        self.batch.clear();
        self.at = 0;
        // SAFETY: the vector has room for `BATCH` pointers, and librdkafka has written as many of
        // them as it returns (-1 on an error, when it has written none).
        unsafe {
            let room = self.batch.as_mut_ptr();
            let count = rd::rd_kafka_consume_batch_queue(self.queue, 0, room, BATCH);
            self.batch.set_len(usize::try_from(count).unwrap_or(0));
        }
    }
}

/// Called by librdkafka's threads when the queue is no longer empty.
unsafe extern "C" fn wake(_client: *mut rd::rd_kafka_t, opaque: *mut c_void) {
    // SAFETY: the pointer that `DataQueue::new` gave, to a waker that outlives the registration.
    let waker = unsafe { &*opaque.cast::<Waker>() };
    waker();
}

impl Drop for DataQueue {
    fn drop(&mut self) {
        while self.at < self.batch.len() {
            self.step();
        }
        // SAFETY: our own queue, destroyed once, while the client still lives.
        unsafe {
            rd::rd_kafka_queue_cb_event_enable(self.queue, None, ptr::null_mut());
            rd::rd_kafka_queue_destroy(self.queue);
        }
    }
}

impl Event<'_> {
    /// Tells topics apart cheaply: equal for all events of one topic of one client.
    pub(super) fn topic_id(&self) -> usize {
        self.message.rkt as usize
    }

    /// Name of the topic; empty for an error that is about none.
    pub(super) fn topic(&self) -> &str {
        if self.message.rkt.is_null() {
            return "";
        }
        // SAFETY: the topic object is kept by the message, its name by the topic object.
        let name = unsafe { CStr::from_ptr(rd::rd_kafka_topic_name(self.message.rkt)) };
        name.to_str().unwrap_or("")
    }

    /// Number of the partition.
    pub(super) fn partition(&self) -> i32 {
        self.message.partition
    }

    /// Offset of the record, or the one that the error is about; may be negative then.
    pub(super) fn offset(&self) -> i64 {
        self.message.offset
    }

    /// The partition's high watermark as the last fetch told it; the topic must not be empty.
    pub(super) fn high_watermark(&self) -> Option<u64> {
        let (mut low, mut high) = (0, 0);
        // SAFETY: the client lives, the name is of the message's topic object; it only looks up
        // what is cached and sets both results unless it reports an error.
        let code = unsafe {
            let topic = rd::rd_kafka_topic_name(self.message.rkt);
            let partition = self.message.partition;
            rd::rd_kafka_get_watermark_offsets(self.native, topic, partition, &mut low, &mut high)
        };
        let known = code == rd::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR;
        if known {
            u64::try_from(high).ok()
        } else {
            None
        }
    }

    /// The error, when it is no record.
    pub(super) fn error(&self) -> Option<RDKafkaErrorCode> {
        let code: RDKafkaErrorCode = self.message.err.into();
        (code != RDKafkaErrorCode::NoError).then_some(code)
    }

    /// The text of the error.
    pub(super) fn error_text(&self) -> String {
        // SAFETY: a valid message; the text belongs to it or is static.
        let text = unsafe {
            let text = rd::rd_kafka_message_errstr(self.message);
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        };
        text.unwrap_or_default()
    }

    /// The record, with its run id if `runs`; the event must not be an error.
    pub(super) fn record(&self, offset: u64, runs: bool) -> RawRecord<'_> {
        // SAFETY: a valid message; key and payload are its own, null or of the lengths beside them.
        unsafe {
            let key = slice(self.message.key, self.message.key_len);
            let value = slice(self.message.payload, self.message.len);
            let mut kind = rd::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
            let timestamp_ms = rd::rd_kafka_message_timestamp(self.message, &mut kind);
            let empty = key.is_none() && value.is_none();
            RawRecord {
                offset,
                timestamp_ms: timestamp_ms.max(0),
                key,
                value,
                // Headers are parsed on demand, so only where one can matter.
                end_of_snapshot: empty.then(|| self.header(self.end_header)).flatten(),
                run_id: runs.then(|| self.header(self.run_header)).flatten(),
            }
        }
    }

    /// The value of a header, the last of that name.
    fn header(&self, name: &CStr) -> Option<&[u8]> {
        let (mut headers, mut value, mut len) = (ptr::null_mut(), ptr::null(), 0);
        // SAFETY: a valid message, which keeps its parsed headers; the three results are set when
        // librdkafka reports no error.
        unsafe {
            let code = rd::rd_kafka_message_headers(self.message, &mut headers);
            if code != rd::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
                return None;
            }
            let code = rd::rd_kafka_header_get_last(headers, name.as_ptr(), &mut value, &mut len);
            if code != rd::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
                return None;
            }
            Some(slice(value, len).unwrap_or_default())
        }
    }
}

/// # Safety
/// `bytes` is null or points to `len` bytes that live and stay as they are for `'a`.
unsafe fn slice<'a>(bytes: *const c_void, len: usize) -> Option<&'a [u8]> {
    if bytes.is_null() {
        return None;
    }
    // SAFETY: as the caller promises.
    Some(unsafe { std::slice::from_raw_parts(bytes.cast(), len) })
}
