//! The container keeps every column through pushing, the wire and the exchange's own walk, and
//! refuses bytes that are no container.

use super::{Op, RecordRef, Records, TARGET_BYTES};
use proptest::prelude::{any, prop, proptest};
use timely::bytes::arc::BytesMut;
use timely::container::{DrainContainer, SizableContainer};
use timely::dataflow::channels::ContainerBytes;

type Row = (u128, u8, u16, u32, u32, u64, u64, Vec<u8>, Vec<u8>);

fn record(row: &Row) -> RecordRef<'_> {
    RecordRef {
        fingerprint: row.0,
        op: Op::from_code(row.1 % 7 + 1).expect("1..=7"),
        table: row.2,
        generation: row.3,
        partition: row.4,
        offset: row.5,
        read_time_ms: row.6,
        key: &row.7,
        value: &row.8,
    }
}

fn wire(records: &Records) -> Vec<u8> {
    let mut bytes = Vec::new();
    records.into_bytes(&mut bytes);
    assert_eq!(bytes.len(), records.length_in_bytes());
    assert_eq!(bytes.len() % 8, 0);
    bytes
}

fn receive(bytes: Vec<u8>) -> Records {
    Records::from_bytes(BytesMut::from(bytes).freeze())
}

proptest! {
    #[test]
    fn columns_survive_the_wire(rows in prop::collection::vec(any::<Row>(), 0..40)) {
        let mut built = Records::default();
        for row in &rows {
            built.push(record(row));
        }
        let received = receive(wire(&built));
        assert_eq!(received.len(), rows.len());
        for (index, row) in rows.iter().enumerate() {
            assert_eq!(built.get(index), record(row));
            assert_eq!(received.get(index), record(row));
            assert_eq!(received.fingerprint(index), row.0);
        }
        assert_eq!(wire(&received), wire(&built));
        assert_eq!(received.size_bytes(), built.size_bytes());
        let mut again = Records::default();
        for item in receive(wire(&built)).drain() {
            again.push(item);
        }
        assert_eq!(wire(&again), wire(&built));
    }

    #[test]
    fn damaged_bytes_are_refused_or_readable(
        rows in prop::collection::vec(any::<Row>(), 1..6), at in any::<usize>(), flip in 1..=255_u8,
    ) {
        let mut built = Records::default();
        for row in &rows {
            built.push(record(row));
        }
        let mut bytes = wire(&built);
        let at = at % bytes.len();
        bytes[at] ^= flip;
        // Refusing is a panic by timely's interface; what is accepted must be readable to the end.
        if let Ok(received) = std::panic::catch_unwind(|| receive(bytes)) {
            assert_eq!(received.iter().count(), received.len());
        }
    }
}

#[test]
fn a_short_or_long_container_is_refused() {
    let mut built = Records::default();
    built.push(record(&(1, 0, 2, 3, 4, 5, 6, vec![7], vec![8, 9])));
    let whole = wire(&built);
    for len in 0..whole.len() {
        let cut = whole[..len].to_vec();
        assert!(
            std::panic::catch_unwind(|| receive(cut)).is_err(),
            "{len} bytes were accepted"
        );
    }
    let mut long = whole.clone();
    long.extend([0; 8]);
    assert!(std::panic::catch_unwind(|| receive(long)).is_err());
}

#[test]
fn a_container_is_full_by_bytes() {
    let mut built = Records::default();
    let value = vec![0; TARGET_BYTES];
    let row = (1, 0, 2, 3, 4, 5, 6, vec![7], value);
    assert!(!built.at_capacity());
    built.push(record(&row));
    assert!(built.at_capacity());
    let mut next = Records::default();
    next.ensure_capacity(&mut Some(built));
    assert!(next.is_empty() && !next.at_capacity());
}
