//! Whose notification one is, where several connectors send into one topic. Pure.
//!
//! A live connector tells of snapshots, too, and teams share a topic of notifications. Debezium's
//! `connector_name` is the `topic.prefix`, with which the names of its topics begin (Debezium,
//! "Topic names"), unless a transform routes them elsewhere.
//!
//! Invariant: two prefixes are never taken for one; where they do not tell whose a notification is,
//! neither's are evidence.
//!
//! It cannot tell apart two connectors of one prefix: `check` refuses them in one topic.

/// Whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// Of the generation's connector.
    Ours,
    /// Of the generation's connector; what was taken for its own before is another's.
    OursAlone,
    /// Of another connector.
    Others,
    /// Of one or the other: nobody can tell.
    Unknown,
}

/// `known`: whose notifications were taken so far; `new`: who sends this one; `topics`: those of
/// the generation.
pub(super) fn whose(known: Option<&str>, new: Option<&str>, topics: &[String]) -> Whose {
    let (Some(known), Some(new)) = (known, new) else {
        return Whose::Ours;
    };
    if known == new {
        return Whose::Ours;
    }
    let named = |name: &str| names(name, topics);
    match (named(known), named(new)) {
        (false, true) => Whose::OursAlone,
        (true, false) => Whose::Others,
        (true, true) | (false, false) => Whose::Unknown,
    }
}

/// Whether the topics of a connector with this `topic.prefix` are among them.
pub(super) fn names(prefix: &str, topics: &[String]) -> bool {
    let of = |topic: &String| {
        topic
            .strip_prefix(prefix)
            .is_some_and(|rest| rest.starts_with('.'))
    };
    topics.iter().any(of)
}

#[cfg(test)]
mod tests {
    use super::{Whose, whose};

    #[test]
    fn the_prefix_of_its_topics_tells() {
        let topics = ["snap_g1.public.hello".to_owned()];
        let of = |known, new| whose(known, new, &topics);
        for (known, new, expected) in [
            (None, Some("app"), Whose::Ours),
            (None, None, Whose::Ours),
            (Some("app"), None, Whose::Ours),
            (Some("app"), Some("app"), Whose::Ours),
            (Some("app"), Some("snap_g1"), Whose::OursAlone),
            (Some("snap_g1"), Some("app"), Whose::Others),
            // Names that only begin alike.
            (Some("snap_g"), Some("snap"), Whose::Unknown),
            (Some("app"), Some("other"), Whose::Unknown),
        ] {
            assert_eq!(of(known, new), expected, "{known:?} {new:?}");
        }
        let routed = ["a.x".to_owned(), "b.y".to_owned()];
        assert_eq!(whose(Some("a"), Some("b"), &routed), Whose::Unknown);
    }
}
