//! Looks up what a generation to be opened reads. It asks topics and may block.
//!
//! Invariant: a topic of mutations, one that lost its first READs, or one of another generation is
//! refused before worker 0 is asked.
//!
//! It cannot know whether a topic is that of the new snapshot: READs that are too old are found
//! late, by their read time.

use super::bodies::{OpenBody, Refused, generation_id, table_number};
use crate::error::{Error, ErrorKind};
use crate::generation::request::Open;
use crate::job::ShownGeneration;
use crate::run::whole;
use crate::table::Table;
use crate::topic::{Assignment, Start, Topics};
use axum::http::StatusCode;
use std::collections::BTreeMap;

/// What is known without asking a topic.
pub(in crate::control) struct Known {
    /// The tables of the job.
    pub(in crate::control) tables: Vec<Table>,
    /// What is shown of the generations.
    pub(in crate::control) generations: Vec<ShownGeneration>,
    /// Whether the client chose the request's id: the request may have been answered before, and
    /// worker 0 alone knows; it refuses a topic that another generation has.
    pub(in crate::control) maybe_again: bool,
}

/// Everything that worker 0 must know.
pub(in crate::control) fn open(
    body: &OpenBody,
    known: &Known,
    topics: &dyn Topics,
) -> Result<Open, Refused> {
    if body.snapshot.is_empty() {
        return Err(Refused::bad("`snapshot` names no table"));
    }
    if let Some(id) = &body.id {
        generation_id(id)?;
    }
    let mut open = Open {
        generation: body.id.clone(),
        started_at_ms: body.started_at_ms()?,
        sources: body.sources(),
        ..Open::default()
    };
    for (table, topic) in &body.snapshot {
        let number = table_number(table, &known.tables)?;
        free(topic, body, known)?;
        open.topics.insert(number, topic.clone());
    }
    let names: BTreeMap<&String, ()> = open.topics.values().map(|topic| (topic, ())).collect();
    for topic in names.into_keys() {
        let asked = of_topic(topic, topics).map_err(|error| unasked(topic, &error))?;
        let (partitions, id) = asked;
        open.partitions.extend(partitions);
        if let Some(id) = id {
            open.topic_ids.insert(topic.clone(), id);
        }
    }
    Ok(open)
}

/// Refuses a topic that is something else.
fn free(topic: &str, body: &OpenBody, known: &Known) -> Result<(), Refused> {
    let conflict = |text: String| Err(Refused::new(StatusCode::CONFLICT, text));
    if topic.is_empty() || topic == "file:" {
        return Err(Refused::bad("a topic has no name"));
    }
    if let Some(table) = known.tables.iter().find(|table| table.mutations == topic) {
        return conflict(format!(
            "{topic} is the mutation topic of {}; a snapshot needs a topic of its own",
            table.name
        ));
    }
    if known.maybe_again {
        return Ok(());
    }
    for other in &known.generations {
        let state = &other.state;
        let configured = |table: &u16| {
            let table = known.tables.get(usize::from(*table));
            table.map(|table| table.snapshot.as_str())
        };
        let has = |table: &u16| {
            let own = state.topics.get(table).map(String::as_str);
            own.or_else(|| configured(table)) == Some(topic)
        };
        if state.tables.iter().any(has) && body.id.as_ref() != Some(&state.id) {
            return conflict(format!(
                "{topic} is the snapshot topic of generation {}; a READ could belong to either. \
                 Have the connector write a new topic",
                state.id
            ));
        }
    }
    Ok(())
}

type Asked = (Vec<Assignment>, Option<String>);

fn of_topic(topic: &str, topics: &dyn Topics) -> Result<Asked, Error> {
    let starts = topics.starts(topic, Start::Beginning)?;
    whole(topic, &topics.ranges(topic)?)?;
    let partitions = (0..)
        .zip(starts)
        .map(|(partition, next_offset)| Assignment {
            topic: topic.to_owned(),
            partition,
            next_offset,
        });
    Ok((partitions.collect(), topics.topic_id(topic)?))
}

/// A topic that cannot be asked is away, or is not there, or must not be read.
fn unasked(topic: &str, error: &Error) -> Refused {
    let code = match error.kind {
        ErrorKind::Refused => StatusCode::CONFLICT,
        ErrorKind::Usage => StatusCode::NOT_FOUND,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    let lines: Vec<&str> = error.text.lines().map(str::trim).collect();
    Refused::new(code, format!("{topic}: {}", lines.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::{Known, open};
    use crate::control::requests::bodies::OpenBody;
    use crate::job::ShownGeneration;
    use crate::table::Table;
    use crate::topic::memory::{MemoryTopics, OwnedRecord};

    fn known() -> Known {
        let mut g1 = ShownGeneration::default();
        g1.state.id = "g1".to_owned();
        g1.state.tables = vec![0, 1];
        g1.state.topics.insert(1, "s1".to_owned());
        let table = |name: &str, snapshot: &str| Table {
            name: name.to_owned(),
            mutations: "m".to_owned(),
            snapshot: snapshot.to_owned(),
            key: None,
        };
        Known {
            tables: vec![table("a", "s0"), table("b", "s9")],
            generations: vec![g1],
            maybe_again: false,
        }
    }

    fn body(snapshot: &[(&str, &str)]) -> OpenBody {
        let named = |(table, topic): &(&str, &str)| ((*table).to_owned(), (*topic).to_owned());
        OpenBody {
            id: Some("g2".to_owned()),
            snapshot: snapshot.iter().map(named).collect(),
            started_at: Some("1970-01-01T00:00:01Z".to_owned()),
            ..OpenBody::default()
        }
    }

    fn topics() -> MemoryTopics {
        let topics = MemoryTopics::default();
        for (topic, partitions) in [("m", 1), ("s0", 1), ("s2", 2), ("lost", 1)] {
            topics.create(topic, partitions);
        }
        topics.append("lost", 0, OwnedRecord::new(Some("1"), Some("1")));
        topics.append("lost", 0, OwnedRecord::new(Some("2"), Some("2")));
        topics.trim_to("lost", 0, 1);
        topics
    }

    #[test]
    fn two_tables_may_share_a_topic() {
        let body = body(&[("a", "s2"), ("b", "s2")]);
        let found = open(&body, &known(), &topics()).expect("it can be opened");
        assert_eq!(found.generation.as_deref(), Some("g2"));
        assert_eq!(found.started_at_ms, Some(1_000));
        assert_eq!(found.topics.len(), 2);
        let partitions: Vec<u32> = found.partitions.iter().map(|p| p.partition).collect();
        assert_eq!(partitions, [0, 1]);
    }

    #[test]
    fn a_topic_that_is_something_else_is_refused() {
        for (snapshot, code, part) in [
            (&[][..], 400, "no table"),
            (&[("c", "s2")], 404, "a, b"),
            (&[("a", "m")], 409, "mutation topic of a"),
            (&[("a", "s0")], 409, "generation g1"),
            (&[("a", "s1")], 409, "generation g1"),
            (&[("a", "none")], 503, "none"),
            (&[("a", "lost")], 409, "lost its first READs"),
            (&[("a", "")], 400, "no name"),
        ] {
            let refused = open(&body(snapshot), &known(), &topics()).expect_err(part);
            let text = &refused.text;
            assert_eq!(refused.code.as_u16(), code, "{snapshot:?}: {text}");
            assert!(text.contains(part), "{snapshot:?}: {text}");
        }
        let again = Known {
            maybe_again: true,
            ..known()
        };
        assert!(open(&body(&[("a", "s0")]), &again, &topics()).is_ok());
        let mut odd = body(&[("a", "s2")]);
        odd.started_at = Some("yesterday".to_owned());
        assert!(open(&odd, &known(), &topics()).is_err());
    }
}
