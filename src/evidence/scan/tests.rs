//! Orders, repeats, cuts and restarts of notifications.

use super::{Told, fold};
use crate::evidence::notice::{Event, Notice, SnapshotKind, parse};
use crate::evidence::tests::captured;
use crate::generation::Scan;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof};
use proptest::sample::Index;
use proptest::{collection, prop_assert, prop_assert_eq, proptest};

fn notice(event: Event) -> Notice {
    Notice {
        kind: SnapshotKind::Initial,
        event,
        sent_ms: None,
        connector: None,
    }
}

fn scanned(table: &str, rows: u64) -> Event {
    Event::TableScanned {
        table: table.to_owned(),
        rows: Some(rows),
        status: "SUCCEEDED".to_owned(),
    }
}

fn all(scan: Scan, events: &[(Event, i64)], since_ms: Option<i64>) -> Scan {
    let mut scan = scan;
    for (event, sent_ms) in events {
        fold(&mut scan, &notice(event.clone()), (*sent_ms, since_ms), &[]);
    }
    scan
}

#[test]
fn a_captured_snapshot() {
    let mut scan = Scan::default();
    for value in captured("snap_g1.notifications") {
        let notice = parse(&value).expect("a notification");
        let sent_ms = notice.sent_ms.expect("it says");
        assert_eq!(fold(&mut scan, &notice, (sent_ms, None), &[]), Told::Counts);
    }
    assert_eq!((scan.starts, scan.completed_early), (1, false));
    assert_eq!(scan.started_ms, Some(1_795_967_576_938));
    assert_eq!(scan.completed_ms, Some(1_795_967_576_992));
    assert_eq!(scan.scanned["public.hello"].rows, 5);
    assert_eq!(scan.scanned["public.wide"].rows, 6);
}

#[test]
fn two_connectors_in_one_topic_are_told_apart_or_believed_neither() {
    let topics = ["snap.public.hello".to_owned()];
    let tell = |scan: &mut Scan, connector: &str, event: Event, sent_ms: i64| {
        let mut notice = notice(event);
        notice.connector = Some(connector.to_owned());
        fold(scan, &notice, (sent_ms, None), &topics)
    };
    // The live connector's own snapshot, told before and after.
    let mut scan = Scan::default();
    tell(&mut scan, "app", Event::Started, 1);
    tell(&mut scan, "app", Event::Completed, 2);
    assert_eq!(tell(&mut scan, "snap", Event::Started, 3), Told::Counts);
    assert_eq!((scan.starts, scan.completed_ms), (1, None));
    assert_eq!(tell(&mut scan, "app", Event::Completed, 4), Told::LeftOut);
    assert_eq!(
        (scan.completed_ms, scan.other_connector.as_ref()),
        (None, None)
    );
    tell(&mut scan, "snap", Event::Completed, 5);
    assert_eq!(scan.completed_ms, Some(5));
    // Names that tell nothing.
    let mut scan = Scan::default();
    tell(&mut scan, "a", Event::Started, 1);
    assert_eq!(tell(&mut scan, "b", Event::Completed, 2), Told::LeftOut);
    assert_eq!(scan.completed_ms, None);
    assert_eq!(scan.other_connector.as_deref(), Some("b"));
}

#[test]
fn early_late_and_old_ones() {
    let early = all(Scan::default(), &[(Event::Completed, 5)], None);
    assert_eq!((early.completed_ms, early.completed_early), (None, true));
    let begun = all(early, &[(Event::Started, 9), (Event::Completed, 5)], None);
    assert_eq!((begun.completed_ms, begun.completed_early), (None, true));
    let ended = all(begun, &[(Event::Completed, 12)], None);
    assert_eq!(
        (ended.completed_ms, ended.completed_early),
        (Some(12), false)
    );
    // A second run into the same topic, and one that nothing tells the end of.
    let again = [
        (scanned("t", 4), 10),
        (Event::Aborted, 11),
        (Event::Started, 20),
    ];
    let again = all(ended, &again, None);
    assert_eq!((again.starts, again.first_started_ms), (2, Some(9)));
    assert_eq!((again.completed_ms, again.aborted_ms), (None, None));
    assert!(again.scanned.is_empty());
    // Of an earlier generation.
    let old = [
        (Event::Started, 5),
        (Event::Completed, 6),
        (Event::Skipped, 7),
    ];
    assert_eq!(all(Scan::default(), &old, Some(8)), Scan::default());
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => Just(Event::Started),
        3 => (0..3_u8, 0..100_u64).prop_map(|(table, rows)| scanned(&format!("t{table}"), rows)),
        1 => Just(Event::InProgress),
        3 => Just(Event::Completed),
        1 => Just(Event::Skipped),
        1 => Just(Event::Aborted),
    ]
}

/// Events in the order in which they were sent, each at a time of its own.
fn sent() -> impl Strategy<Value = Vec<(Event, i64)>> {
    collection::vec((event(), 1..50_i64), 0..20).prop_map(|events| {
        let mut now_ms = 0;
        let stamped = events.into_iter().map(|(event, after_ms)| {
            now_ms += after_ms;
            (event, now_ms)
        });
        stamped.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_cut_a_repeat_or_a_restart_changes_nothing(
        sent in sent(),
        cut in any::<Index>(),
        back in any::<Index>(),
        since in 0..400_i64,
    ) {
        let whole = all(Scan::default(), &sent, Some(since));
        let cut = cut.index(sent.len() + 1);
        let before = all(Scan::default(), &sent[..cut], Some(since));
        let text = serde_json::to_string(&before).expect("plain data");
        let kept: Scan = serde_json::from_str(&text).expect("what was written");
        prop_assert_eq!(&all(kept.clone(), &sent[cut..], Some(since)), &whole);
        // Read again from an earlier offset, up to the first one.
        let back = back.index(cut + 1);
        prop_assert_eq!(&all(kept, &sent[back..], Some(since)), &whole);
        prop_assert_eq!(&all(whole.clone(), &sent, Some(since)), &whole);
    }

    #[test]
    fn in_any_order_nothing_is_complete_that_began_later(
        sent in sent(),
        order in collection::vec(any::<Index>(), 0..60),
    ) {
        let shuffled: Vec<_> = match sent.is_empty() {
            true => Vec::new(),
            false => order.iter().map(|index| index.get(&sent).clone()).collect(),
        };
        let scan = all(Scan::default(), &shuffled, None);
        let times = |wanted: &Event| {
            let times = shuffled.iter().filter(|(event, _)| event == wanted);
            times.map(|(_, sent_ms)| *sent_ms).collect::<Vec<_>>()
        };
        let started = times(&Event::Started);
        prop_assert_eq!(scan.started_ms, started.iter().copied().max());
        prop_assert_eq!(scan.first_started_ms, started.iter().copied().min());
        if let Some(completed_ms) = scan.completed_ms {
            prop_assert!(times(&Event::Completed).contains(&completed_ms));
            prop_assert!(started.iter().all(|started_ms| *started_ms <= completed_ms));
        }
        for table in scan.scanned.keys() {
            let of_run = shuffled.iter().any(|(event, sent_ms)| {
                matches!(event, Event::TableScanned { table: other, .. } if other == table)
                    && scan.started_ms.is_none_or(|run| run <= *sent_ms)
            });
            prop_assert!(of_run);
        }
    }
}
