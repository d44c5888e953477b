//! Folding against applying one by one.

use super::super::batch::{Batch, Piece};
use super::super::testing::{Event, b21, event, fingerprint, records};
use super::super::{Change, Row};
use super::fold;
use headwater_operators::record::Op;
use proptest::prelude::{Strategy, any, prop, proptest};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The table that rows leave behind: value and version by key; deletes stay as `None`.
type Left = BTreeMap<String, (Option<String>, u64)>;

fn apply(left: &mut Left, row: &Row<'_>) {
    let key = String::from_utf8(row.key.to_vec()).unwrap();
    let value = match row.change {
        Change::Upsert(value) => Some(String::from_utf8(value.to_vec()).unwrap()),
        Change::Delete => None,
    };
    let before = left.insert(key, (value, row.version));
    assert!(
        before.is_none_or(|(_, version)| version < row.version),
        "versions grow"
    );
}

fn one_by_one(events: &[Event]) -> Left {
    let mut left = Left::new();
    for (version, event) in (1..).zip(events) {
        let value = (event.op != Op::Delete).then(|| event.value.clone());
        left.insert(event.key.clone(), (value, version));
    }
    left
}

fn history() -> impl Strategy<Value = Vec<Event>> {
    let ops = [Op::Upsert, Op::Delete, Op::Read, Op::ReadInPlace];
    let one = (0..6_u8, 0..ops.len(), any::<u8>()).prop_map(move |(key, op, value)| Event {
        op: ops[op],
        ..event(&key.to_string(), &value.to_string())
    });
    prop::collection::vec(one, 0..60)
}

proptest! {
    #[test]
    fn folding_is_applying_one_by_one(
        events in history(),
        container in 1..20_usize,
        batch_rows in 1..30_usize,
    ) {
        let mut pieces = Vec::new();
        let mut first = 1;
        for chunk in events.chunks(container) {
            pieces.push(Piece::whole(Arc::new(records(chunk, 0)), first));
            first += chunk.len() as u64;
        }
        let mut left = Left::new();
        let mut pieces = pieces.into_iter();
        let mut rest = pieces.next();
        while rest.is_some() {
            let mut batch = Batch::default();
            while let Some(piece) = rest.as_mut().filter(|_| batch.len() < batch_rows) {
                batch.push(piece.take(batch_rows - batch.len(), usize::MAX).0);
                if piece.is_empty() {
                    rest = pieces.next();
                }
            }
            let rows = fold(&batch);
            // Versions are places in the history, so this is the order of the last touch.
            assert!(rows.is_sorted_by_key(|row| row.version));
            let mut keys: Vec<u128> = rows.iter().map(|row| row.fingerprint).collect();
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), rows.len(), "one row a key");
            rows.iter().for_each(|row| apply(&mut left, row));
        }
        assert_eq!(left, one_by_one(&events));
    }
}

#[test]
fn an_upsert_after_a_delete_is_an_upsert() {
    let mut batch = Batch::default();
    batch.push(Piece::whole(Arc::new(records(&b21(), 0)), 1));
    let rows = fold(&batch);
    let found: Vec<(u128, bool)> = rows
        .iter()
        .map(|row| (row.fingerprint, row.change == Change::Delete))
        .collect();
    let key = |id: u32| fingerprint(0, &format!("{{\"id\":{id}}}"));
    assert_eq!(
        found,
        [
            (key(1), false),
            (key(2), true),
            (key(3), true),
            (key(4), false)
        ]
    );
    assert_eq!(rows[0].version, 4);
    assert_eq!(rows[0].origin.offset, 3);
}

#[test]
fn a_piece_is_taken_by_bytes_but_never_not_at_all() {
    let events: Vec<Event> = (0..4).map(|id| event(&id.to_string(), "12345")).collect();
    let mut piece = Piece::some(Arc::new(records(&events, 0)), 1, vec![0, 2, 3]);
    assert_eq!(piece.take(10, 1).0.len(), 1);
    assert_eq!(piece.take(10, 100_000).0.len(), 2);
    assert!(piece.is_empty());
}
