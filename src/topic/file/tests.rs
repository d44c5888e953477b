//! Tests of `file` topics: what was written comes out, whatever is cut off or flipped.

use super::*;
use crate::error::ErrorKind;
use crate::topic::{END_HEADER, RawRecord};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A record that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owned {
    offset: u64,
    timestamp_ms: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    end: Option<Vec<u8>>,
}

fn owned(record: RawRecord<'_>) -> Owned {
    Owned {
        offset: record.offset,
        timestamp_ms: record.timestamp_ms,
        key: record.key.map(<[u8]>::to_vec),
        value: record.value.map(<[u8]>::to_vec),
        end: record.end_of_snapshot.map(<[u8]>::to_vec),
    }
}

fn append(writer: &mut FileTopicWriter, record: &Owned) -> u64 {
    let end = record.end.as_deref();
    let headers = [("other", None), (END_HEADER, end)];
    let new = NewRecord {
        timestamp_ms: record.timestamp_ms,
        key: record.key.as_deref(),
        value: record.value.as_deref(),
        headers: if end.is_some() { &headers } else { &[] },
    };
    writer.append(&new).expect("appended")
}

fn record(number: u64) -> Owned {
    Owned {
        offset: number,
        timestamp_ms: 1_000 + number as i64,
        key: Some(number.to_le_bytes().to_vec()),
        value: Some(vec![number as u8; (number % 50) as usize]),
        end: None,
    }
}

fn name(dir: &Path) -> String {
    format!("{PREFIX}{}", dir.display())
}

fn assignment(dir: &Path, partition: u32, next_offset: u64) -> Assignment {
    Assignment {
        topic: name(dir),
        partition,
        next_offset,
    }
}

fn no_waker() -> Waker {
    Arc::new(|| {})
}

fn reader(dir: &Path, partition: u32, next_offset: u64) -> Box<dyn Reader> {
    let topics = FileTopics::new();
    let reader = topics.reader(&[assignment(dir, partition, next_offset)], no_waker());
    reader.expect("a reader")
}

/// All that is at hand now.
fn drain(reader: &mut dyn Reader) -> Result<Vec<(usize, Owned)>, Error> {
    let mut found = Vec::new();
    let mut take = |index: usize, record: RawRecord<'_>| {
        found.push((index, owned(record)));
        Ok(())
    };
    while reader.poll(100, &mut take)? > 0 {}
    Ok(found)
}

fn records_of(reader: &mut dyn Reader) -> Result<Vec<Owned>, Error> {
    Ok(drain(reader)?
        .into_iter()
        .map(|(_, record)| record)
        .collect())
}

/// A topic of one partition with records 0 to `count`, and where each begins and the last ends.
fn written(count: u64) -> (tempfile::TempDir, PathBuf, Vec<u64>) {
    let dir = tempfile::tempdir().expect("a folder");
    create(dir.path(), 1).expect("made");
    let mut writer = FileTopicWriter::open(dir.path(), 0).expect("opened");
    let path = log_path(dir.path(), 0);
    let mut places = vec![fs::metadata(&path).expect("there").len()];
    for number in 0..count {
        append(&mut writer, &record(number));
        writer.flush().expect("written");
        places.push(fs::metadata(&path).expect("there").len());
    }
    (dir, path, places)
}

fn any_record() -> impl Strategy<Value = Owned> {
    let bytes = || proptest::option::of(proptest::collection::vec(any::<u8>(), 0..60));
    (any::<i64>(), bytes(), bytes(), bytes()).prop_map(|(timestamp_ms, key, value, end)| {
        let end = end.filter(|_| key.is_none() && value.is_none());
        Owned {
            offset: 0,
            timestamp_ms,
            key,
            value,
            end,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_was_written_comes_out(
        mut records in proptest::collection::vec((any_record(), 0_u64..4), 0..40),
        base in 0_u64..1_000,
        start in 0_usize..40,
        reopen in 0_usize..40,
    ) {
        let dir = tempfile::tempdir().expect("a folder");
        create_at(dir.path(), &[base]).expect("made");
        let mut writer = FileTopicWriter::open(dir.path(), 0).expect("opened");
        for (at, (record, gap)) in records.iter_mut().enumerate() {
            if at == reopen {
                drop(writer);
                writer = FileTopicWriter::open(dir.path(), 0).expect("opened again");
            }
            writer.skip_to(writer.next_offset() + *gap).expect("a gap");
            record.offset = append(&mut writer, record);
        }
        writer.flush().expect("written");
        let high = records.last().map_or(base, |(record, _)| record.offset + 1);
        let topics = FileTopics::new();
        let ranges = topics.ranges(&name(dir.path())).expect("ranges");
        prop_assert_eq!(ranges, vec![OffsetRange { low: base, high }]);
        let from = records.get(start).map_or(high, |(record, _)| record.offset);
        let mut reader = reader(dir.path(), 0, from);
        let expected = records.iter().skip(start).map(|(record, _)| record.clone());
        let expected: Vec<_> = expected.collect();
        prop_assert_eq!(records_of(&mut *reader).expect("read"), expected);
        prop_assert_eq!(reader.next_offset(0), high);
    }
}

#[test]
fn a_tail_torn_at_any_byte_is_waited_for_and_cut_by_the_next_writer() {
    let (dir, path, places) = written(4);
    let whole = fs::read(&path).expect("read");
    for cut in places[0]..=places[4] {
        fs::write(&path, &whole[..cut as usize]).expect("cut");
        let complete = places[1..].iter().filter(|place| **place <= cut).count() as u64;
        let expected: Vec<_> = (0..complete).map(record).collect();
        let mut early = reader(dir.path(), 0, 0);
        assert_eq!(
            records_of(&mut *early).expect("waits"),
            expected,
            "cut at {cut}"
        );
        let high = FileTopics::new().ranges(&name(dir.path())).expect("ranges")[0].high;
        assert_eq!(high, complete, "cut at {cut}");
        // The rest is written by another writer, other bytes in the place of those cut off.
        let mut writer = FileTopicWriter::open(dir.path(), 0).expect("opens");
        let mut other = record(complete);
        other.value = Some(vec![7; 3]);
        assert_eq!(append(&mut writer, &other), complete);
        drop(writer);
        assert_eq!(
            records_of(&mut *early).expect("goes on"),
            vec![other],
            "cut at {cut}"
        );
    }
}

#[test]
fn a_torn_tail_at_a_frozen_end_is_an_error_unless_it_is_made_whole() {
    let (dir, path, places) = written(3);
    let whole = fs::read(&path).expect("read");
    fs::write(&path, &whole[..places[2] as usize + 15]).expect("cut");
    let (mut torn, mut healed) = (reader(dir.path(), 0, 0), reader(dir.path(), 0, 0));
    for reader in [&mut torn, &mut healed] {
        reader.freeze(0, 2);
        assert_eq!(records_of(&mut **reader).expect("in time").len(), 2);
    }
    let error = poll_until(|| records_of(&mut *torn).err());
    assert!(error.text.contains("frozen at offset 2"), "{error}");
    assert!(error.text.contains(&path.display().to_string()), "{error}");
    let again = records_of(&mut *torn).expect_err("says the same again");
    assert_eq!(again, error);
    fs::write(&path, &whole).expect("made whole");
    assert_eq!(records_of(&mut *healed).expect("whole").len(), 1);
}

fn poll_until<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(Instant::now() < end, "it did not happen");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn no_flipped_byte_is_believed() {
    let (dir, path, places) = written(4);
    let whole = fs::read(&path).expect("read");
    for at in 0..whole.len() {
        for bit in [1_u8, 128] {
            let mut bad = whole.clone();
            bad[at] ^= bit;
            fs::write(&path, &bad).expect("flipped");
            let last = at as u64 >= places[3];
            let topics = FileTopics::new();
            let read = topics
                .reader(&[assignment(dir.path(), 0, 0)], no_waker())
                .and_then(|mut reader| records_of(&mut *reader));
            match read {
                // The last record's checksum may be that of a write that was cut off.
                Ok(found) => assert!(last && found.len() == 3, "byte {at}: {found:?}"),
                Err(error) => {
                    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
                    assert!(error.text.contains("0.log"), "{error}");
                    assert!(error.text.contains("at byte"), "{error}");
                    assert!(error.text.contains("offset"), "{error}");
                    let opened = FileTopicWriter::open(dir.path(), 0);
                    assert!(opened.is_err(), "a writer must not cut at byte {at}");
                }
            }
        }
    }
}

#[test]
fn zeros_at_the_end_are_a_torn_tail() {
    let (dir, path, _) = written(2);
    let mut bytes = fs::read(&path).expect("read");
    bytes.resize(bytes.len() + 300, 0);
    fs::write(&path, &bytes).expect("as after a crash of the machine");
    let mut reader = reader(dir.path(), 0, 0);
    assert_eq!(records_of(&mut *reader).expect("waits").len(), 2);
    let mut writer = FileTopicWriter::open(dir.path(), 0).expect("cuts");
    append(&mut writer, &record(2));
    writer.flush().expect("written");
    assert_eq!(records_of(&mut *reader).expect("goes on"), vec![record(2)]);
}

#[test]
fn a_reader_tails_several_partitions_while_they_are_written() {
    const COUNT: u64 = 3_000;
    let dir = tempfile::tempdir().expect("a folder");
    create_at(dir.path(), &[0, 500, 0]).expect("made");
    let wakes = Arc::new(AtomicUsize::new(0));
    let counted = wakes.clone();
    let parts = [assignment(dir.path(), 0, 0), assignment(dir.path(), 1, 500)];
    let waker: Waker = Arc::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let mut reader = FileTopics::new().reader(&parts, waker).expect("a reader");
    let writers: Vec<_> = [(0, 0), (1, 500)]
        .map(|(partition, base)| {
            let mut writer = FileTopicWriter::open(dir.path(), partition).expect("opened");
            std::thread::spawn(move || {
                for number in 0..COUNT {
                    append(&mut writer, &record(base + number));
                    if number % 17 == 0 {
                        writer.flush().expect("written");
                    }
                    if number % 500 == 0 {
                        std::thread::sleep(Duration::from_millis(3));
                    }
                }
            })
        })
        .into();
    // Reads only when woken: a wake that is missing would hang it.
    let (mut found, mut seen) = ([Vec::new(), Vec::new()], 0);
    let whole = |found: &[Vec<Owned>; 2]| found.iter().all(|part| part.len() as u64 == COUNT);
    poll_until(|| {
        let now = wakes.load(Ordering::SeqCst);
        if now != seen {
            seen = now;
            for (index, record) in drain(&mut *reader).expect("read") {
                found[index].push(record);
            }
        }
        whole(&found).then_some(())
    });
    for writer in writers {
        writer.join().expect("no panic");
    }
    for (part, base) in found.iter().zip([0, 500]) {
        assert!(
            part.iter()
                .zip(base..)
                .all(|(found, number)| *found == record(number))
        );
    }
    assert_eq!(
        (reader.next_offset(0), reader.next_offset(1)),
        (COUNT, 500 + COUNT)
    );
    std::thread::sleep(Duration::from_millis(30));
    let quiet = wakes.load(Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(60));
    assert_eq!(
        wakes.load(Ordering::SeqCst),
        quiet,
        "nothing came, nobody is woken"
    );
}

#[test]
fn large_records_pass() {
    let (dir, _, _) = written(0);
    let mut writer = FileTopicWriter::open(dir.path(), 0).expect("opened");
    let mut large = record(0);
    large.value = Some((0..20_000_000_u32).map(|at| (at % 251) as u8).collect());
    append(&mut writer, &large);
    append(&mut writer, &record(1));
    writer.sync().expect("written");
    let mut reader = reader(dir.path(), 0, 0);
    assert!(records_of(&mut *reader).expect("read") == vec![large, record(1)]);
}

#[test]
fn an_offset_that_the_file_does_not_have_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    create_at(dir.path(), &[500]).expect("made");
    let topics = FileTopics::new();
    let low = topics.reader(&[assignment(dir.path(), 0, 499)], no_waker());
    let error = low.err().expect("below the first");
    assert!(
        error.text.contains("499") && error.text.contains("500 to 500"),
        "{error}"
    );
    let error = records_of(&mut *reader(dir.path(), 0, 501)).expect_err("past the end");
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(
        records_of(&mut *reader(dir.path(), 0, 500))
            .expect("empty")
            .is_empty()
    );
}

#[test]
fn starts_by_time_and_ranges_that_grow() {
    let (dir, _, _) = written(10);
    let topics = FileTopics::new();
    let start = |time| {
        topics
            .starts(&name(dir.path()), Start::Time(time))
            .expect("starts")[0]
    };
    assert_eq!((start(0), start(1_004), start(1_010)), (0, 4, 10));
    assert_eq!(
        topics
            .starts(&name(dir.path()), Start::Beginning)
            .expect("starts"),
        vec![0]
    );
    let high = || topics.ranges(&name(dir.path())).expect("ranges")[0].high;
    assert_eq!(high(), 10);
    let mut writer = FileTopicWriter::open(dir.path(), 0).expect("opened");
    let value = vec![1; 3 << 20];
    for number in 10..14 {
        let new = NewRecord {
            value: Some(&value),
            ..NewRecord::default()
        };
        assert_eq!(writer.append(&new).expect("appended"), number);
        writer.flush().expect("written");
        assert_eq!(high(), number + 1);
    }
    // From a remembered place.
    let mut late = topics
        .reader(&[assignment(dir.path(), 0, 12)], no_waker())
        .expect("a reader");
    let found: Vec<_> = records_of(&mut *late)
        .expect("read")
        .iter()
        .map(|r| r.offset)
        .collect();
    assert_eq!(found, vec![12, 13]);
}

#[test]
fn one_writer_a_partition_and_clear_words() {
    let dir = tempfile::tempdir().expect("a folder");
    let missing = FileTopicWriter::open(dir.path(), 0).expect_err("no topic");
    assert!(missing.text.contains("does not exist"), "{missing}");
    create(dir.path(), 2).expect("made");
    assert!(create(dir.path(), 2).is_err(), "is there already");
    let first = FileTopicWriter::open(dir.path(), 0).expect("opened");
    let other = FileTopicWriter::open(dir.path(), 1).expect("another partition");
    let second = FileTopicWriter::open(dir.path(), 0).expect_err("taken");
    assert!(second.text.contains("another writer"), "{second}");
    drop((first, other));
    FileTopicWriter::open(dir.path(), 0).expect("free again");
    let none = FileTopicWriter::open(dir.path(), 2).expect_err("no such partition");
    assert!(none.text.contains("0 to 1"), "{none}");
    fs::write(dir.path().join("topic.json"), "{\"format\":\"x\"").expect("written");
    let error = FileTopics::new()
        .ranges(&name(dir.path()))
        .expect_err("garbage");
    assert_eq!(error.kind, ErrorKind::Usage);
}

#[test]
fn an_error_of_the_taker_leaves_the_record_ungiven() {
    let (dir, _, _) = written(3);
    let mut reader = reader(dir.path(), 0, 0);
    let mut take = |_: usize, record: RawRecord<'_>| match record.offset {
        2 => Err(Error::failed("no room")),
        _ => Ok(()),
    };
    let error = reader.poll(1 << 20, &mut take).expect_err("the taker's");
    assert_eq!(error.text, "no room");
    assert_eq!(reader.next_offset(0), 2);
}

#[test]
fn a_removed_topic_is_an_error_and_one_made_anew_is_another() {
    let (dir, path, _) = written(3);
    let topics = FileTopics::new();
    let mut old = reader(dir.path(), 0, 0);
    assert_eq!(records_of(&mut *old).expect("read").len(), 3);
    assert_eq!(topics.ranges(&name(dir.path())).expect("ranges")[0].high, 3);
    fs::remove_file(&path).expect("removed");
    fs::remove_file(dir.path().join("topic.json")).expect("removed");
    create_at(dir.path(), &[7]).expect("made anew");
    let error = records_of(&mut *old).expect_err("gone");
    assert!(error.text.contains("was removed"), "{error}");
    assert_eq!(topics.ranges(&name(dir.path())).expect("ranges")[0].high, 7);
}
