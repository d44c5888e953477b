//! What the `confirmed_flush_lsn` of the live connector's slot proves. Pure.
//!
//! Debezium confirms the end of a transaction of its tables once Kafka Connect has written that
//! down. On an idle source it confirms nothing more, while the log goes on: pages that a SELECT
//! tidies up (the snapshot's own, too), the server's list of running transactions, autovacuum,
//! other tables. So a cutoff behind the last such transaction is never confirmed
//! (`lsn.flush.mode = "connector"`, the default; seen with Debezium 3.6.1 and PostgreSQL 15).
//! With `connector_and_driver` the driver also confirms the position of the server's keepalives,
//! when the last message before it *begins* at or before what Debezium has confirmed. That holds
//! as well amid a long transaction, whose changes are old, although a shorter one that was sent
//! just before it is not in Kafka (pgjdbc 42.7.11, `processKeepAliveMessage`).
//!
//! Invariant: a position is proven only by a confirmation at or behind a place in the log where
//! every transaction that ran at that position had ended. A keepalive amid one of those is before
//! that place, and changes of a younger one are behind the position itself.
//!
//! It cannot tell who confirms: a slot that somebody moves by hand (`lsn.flush.mode = "manual"`)
//! must not come here.

use std::collections::BTreeSet;

/// What the database has said, in this order: transactions, position, slot.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// Transactions that had an id.
    pub running: &'a BTreeSet<u32>,
    /// The end of the log.
    pub position: u64,
    /// What the slot has confirmed; none without a slot.
    pub confirmed: Option<u64>,
}

/// The position that is to be proven next, and what is proven.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proving {
    next: Option<Next>,
    proven: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Next {
    /// It is not known yet what runs at the position.
    Taken { position: u64 },
    /// These ran at it, and had not ended.
    Ending {
        position: u64,
        running: BTreeSet<u32>,
    },
    /// All had ended when the log was here.
    Ended { position: u64, bar: u64 },
}

impl Proving {
    /// Proves this position next, in place of an older one.
    pub fn next(&mut self, position: u64) {
        self.next = Some(Next::Taken { position });
    }

    /// Takes in an answer. Every transaction that was committed at or before the position which
    /// is returned is acknowledged by Kafka.
    pub fn look(&mut self, look: Look<'_>) -> Option<u64> {
        let next = match self.next.take() {
            None => Next::Taken {
                position: look.position,
            },
            Some(Next::Taken { position }) => ending(position, look.running.clone(), look),
            Some(Next::Ending { position, running }) => {
                let left = running.intersection(look.running).copied().collect();
                ending(position, left, look)
            }
            Some(ended) => ended,
        };
        self.next = match next {
            Next::Ended { position, bar } if look.confirmed >= Some(bar) => {
                self.proven = self.proven.max(Some(position));
                Some(Next::Taken {
                    position: look.position,
                })
            }
            other => Some(other),
        };
        self.proven
    }
}

impl Proving {
    /// Transactions that ran at the position that is to be proven next, and have not ended.
    pub fn held_by(&self) -> Option<&BTreeSet<u32>> {
        match &self.next {
            Some(Next::Ending { running, .. }) => Some(running),
            _ => None,
        }
    }
}

fn ending(position: u64, running: BTreeSet<u32>, look: Look<'_>) -> Next {
    match running.is_empty() {
        true => Next::Ended {
            position,
            bar: look.position,
        },
        false => Next::Ending { position, running },
    }
}

/// Whether Debezium leaves the slot to others: `lsn.flush.mode`, or `flush.lsn.source`, as it was
/// called before.
pub fn by_hand(mode: Option<&str>, source: Option<&str>) -> bool {
    match mode {
        Some(mode) => mode.eq_ignore_ascii_case("manual"),
        None => source.is_some_and(|source| source.eq_ignore_ascii_case("false")),
    }
}

/// The end of the last record of a log whose next one begins at `insert`: less the header of a
/// page that has nothing else yet, or a commit that ends with its page is never at the end of the
/// log. Sizes of a page and of a segment are in bytes.
pub fn end_of_log(insert: u64, page: u64, segment: u64) -> u64 {
    const SHORT_HEADER: u64 = 24;
    const LONG_HEADER: u64 = 40;
    let within = |size: u64| insert.checked_rem(size);
    match within(segment) {
        Some(LONG_HEADER) => insert - LONG_HEADER,
        // The first page of a segment has the long one.
        Some(at) if at > page && within(page) == Some(SHORT_HEADER) => insert - SHORT_HEADER,
        _ => insert,
    }
}

#[cfg(test)]
mod tests;
