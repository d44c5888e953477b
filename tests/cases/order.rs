//! The orders of a case: every interleaving that keeps each stream in its own order, or a seeded
//! sample of them.

use std::collections::BTreeSet;

/// All orders of `streams` (lists of step indexes), or `max` different ones of them.
pub(crate) fn orders(streams: &[Vec<usize>], max: usize) -> Vec<Vec<usize>> {
    let mut all = Vec::new();
    let mut taken = vec![0; streams.len()];
    every(streams, &mut taken, &mut Vec::new(), &mut all, max + 1);
    if all.len() <= max {
        return all;
    }
    let mut state = 0x5eed;
    let mut sample = BTreeSet::new();
    while sample.len() < max {
        sample.insert(random(streams, &mut state));
    }
    sample.into_iter().collect()
}

fn every(
    streams: &[Vec<usize>],
    taken: &mut [usize],
    order: &mut Vec<usize>,
    all: &mut Vec<Vec<usize>>,
    max: usize,
) {
    if all.len() >= max {
        return;
    }
    let mut any = false;
    for stream in 0..streams.len() {
        if taken[stream] < streams[stream].len() {
            any = true;
            order.push(streams[stream][taken[stream]]);
            taken[stream] += 1;
            every(streams, taken, order, all, max);
            taken[stream] -= 1;
            order.pop();
        }
    }
    if !any {
        all.push(order.clone());
    }
}

fn random(streams: &[Vec<usize>], state: &mut u64) -> Vec<usize> {
    let mut taken = vec![0; streams.len()];
    let mut order = Vec::new();
    loop {
        // Weighted by what is left, so that every order is equally likely.
        let left: usize = streams.iter().zip(&taken).map(|(s, t)| s.len() - t).sum();
        if left == 0 {
            return order;
        }
        *state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let mut pick = (*state >> 33) as usize % left;
        for (stream, taken) in streams.iter().zip(&mut taken) {
            let rest = stream.len() - *taken;
            if pick < rest {
                order.push(stream[*taken]);
                *taken += 1;
                break;
            }
            pick -= rest;
        }
    }
}

#[test]
fn orders_are_all_there_and_different() {
    assert_eq!(orders(&[vec![0, 1], vec![2]], 100).len(), 3);
    assert_eq!(orders(&[vec![0, 1, 2, 3], vec![4, 5, 6, 7]], 100).len(), 70);
    let sample = orders(&[(0..8).collect(), (8..16).collect()], 100);
    assert_eq!(sample.len(), 100);
    assert!(sample.iter().all(|order| order.len() == 16));
}
