//! Ids of topics: a topic that is deleted and made anew under its name has another one (KIP-516).
//!
//! rdkafka has no call for `DescribeTopics`, so this speaks to librdkafka itself.
//!
//! Invariant: whatever is made here is destroyed here, and nothing borrowed from an answer outlives
//! it. It cannot tell the ids of brokers older than 2.8: they have none.

use rdkafka::ClientContext;
use rdkafka::bindings as rd;
use rdkafka::client::Client;
use rdkafka::error::RDKafkaErrorCode;
use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::time::Duration;

/// How librdkafka writes the id that is all zeros.
const NONE: &str = "AAAAAAAAAAAAAAAAAAAAAA";

/// The ids of `topics`, in their order; `None` where the broker has none.
///
/// # Errors
/// The code and words of the first topic that is missing or may not be described, or of the whole
/// question.
pub(crate) fn topic_ids<C: ClientContext>(
    client: &Client<C>,
    topics: &[&str],
    timeout: Duration,
) -> Result<Vec<Option<String>>, (RDKafkaErrorCode, String)> {
    let invalid = |_| (RDKafkaErrorCode::InvalidTopic, "a zero byte".to_owned());
    let names: Result<Vec<CString>, _> = topics.iter().map(|name| CString::new(*name)).collect();
    let names = names.map_err(invalid)?;
    let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    let question = Question::new(client.native_ptr(), &names, timeout_ms);
    // SAFETY: all four are alive until `question` is dropped, after the answer.
    unsafe {
        rd::rd_kafka_DescribeTopics(
            client.native_ptr(),
            question.topics,
            question.options,
            question.queue,
        );
    }
    // The request times out by itself, a little earlier.
    let wait_ms = timeout_ms.saturating_add(500);
    // SAFETY: the queue is alive; null when nothing came.
    let answer = Answer(unsafe { rd::rd_kafka_queue_poll(question.queue, wait_ms) });
    answer.ids(&names)
}

/// What a question needs; destroyed together.
struct Question {
    queue: *mut rd::rd_kafka_queue_t,
    options: *mut rd::rd_kafka_AdminOptions_t,
    topics: *mut rd::rd_kafka_TopicCollection_t,
}

impl Question {
    fn new(native: *mut rd::rd_kafka_t, names: &[CString], timeout_ms: i32) -> Question {
        let mut pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
        // SAFETY: the client is alive, and librdkafka copies the names.
        unsafe {
            let options = rd::rd_kafka_AdminOptions_new(
                native,
                rd::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS,
            );
            // A timeout out of bounds leaves the default, 60 s.
            rd::rd_kafka_AdminOptions_set_request_timeout(options, timeout_ms, ptr::null_mut(), 0);
            Question {
                queue: rd::rd_kafka_queue_new(native),
                options,
                topics: rd::rd_kafka_TopicCollection_of_topic_names(
                    pointers.as_mut_ptr(),
                    pointers.len(),
                ),
            }
        }
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        // SAFETY: made in `new`, destroyed once.
        unsafe {
            rd::rd_kafka_TopicCollection_destroy(self.topics);
            rd::rd_kafka_AdminOptions_destroy(self.options);
            rd::rd_kafka_queue_destroy(self.queue);
        }
    }
}

/// An event; null when none came.
struct Answer(*mut rd::rd_kafka_event_t);

impl Answer {
    fn ids(&self, names: &[CString]) -> Result<Vec<Option<String>>, (RDKafkaErrorCode, String)> {
        if self.0.is_null() {
            let text = "no answer in time".to_owned();
            return Err((RDKafkaErrorCode::OperationTimedOut, text));
        }
        // SAFETY: the event lives until `self` is dropped; every pointer below is borrowed from it,
        // and `count` is the length of the array that comes with it.
        unsafe {
            let code = RDKafkaErrorCode::from(rd::rd_kafka_event_error(self.0));
            let result = rd::rd_kafka_event_DescribeTopics_result(self.0);
            if code != RDKafkaErrorCode::NoError || result.is_null() {
                return Err((code, text(rd::rd_kafka_event_error_string(self.0))));
            }
            let mut count = 0;
            let found = rd::rd_kafka_DescribeTopics_result_topics(result, &mut count);
            let mut ids = vec![None; names.len()];
            for index in 0..count {
                let topic = *found.add(index);
                let error = rd::rd_kafka_TopicDescription_error(topic);
                let code = RDKafkaErrorCode::from(rd::rd_kafka_error_code(error));
                if code != RDKafkaErrorCode::NoError {
                    return Err((code, text(rd::rd_kafka_error_string(error))));
                }
                let id = rd::rd_kafka_TopicDescription_topic_id(topic);
                let id = match id.is_null() {
                    true => String::new(),
                    false => text(rd::rd_kafka_Uuid_base64str(id)),
                };
                let name = CStr::from_ptr(rd::rd_kafka_TopicDescription_name(topic));
                for (asked, place) in names.iter().zip(&mut ids) {
                    if asked.as_c_str() == name && !id.is_empty() && id != NONE {
                        *place = Some(id.clone());
                    }
                }
            }
            Ok(ids)
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: taken from the queue by us alone.
            unsafe { rd::rd_kafka_event_destroy(self.0) };
        }
    }
}

/// # Safety
/// Null, or a C string that lives as long as the call.
unsafe fn text(words: *const c_char) -> String {
    match words.is_null() {
        true => String::new(),
        // SAFETY: as promised by the caller.
        false => unsafe { CStr::from_ptr(words) }
            .to_string_lossy()
            .into_owned(),
    }
}
