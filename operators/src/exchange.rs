//! Sends records to the worker that owns their key, copying each payload once.
//!
//! timely's own exchange builds containers in the source and copies every record again into one
//! container a target. Here the source's builder already keeps one container for each target, and
//! the exchange forwards whole containers.
//!
//! Invariant: all records of one container have one target. The order of the records of one sender
//! and one target is kept.

use crate::record::{RecordRef, Records};
use crate::route::worker_of;
use std::collections::VecDeque;
use timely::communication::Push;
use timely::container::{ContainerBuilder, PushInto, SizableContainer};
use timely::dataflow::channels::Message;
use timely::dataflow::channels::pact::DistributorPact;
use timely::dataflow::channels::pushers::exchange::Distributor;
use timely::progress::Stamp;

/// Builds containers of records that all go to one worker.
#[derive(Debug, Default)]
pub struct RoutedBuilder {
    targets: Vec<Records>,
    full: VecDeque<Records>,
    spare: Option<Records>,
}

impl RoutedBuilder {
    /// Sets the number of workers; before the first record.
    pub fn route_to(&mut self, workers: usize) {
        if self.targets.len() != workers {
            assert!(
                self.targets.iter().all(Records::is_empty),
                "records are routed already"
            );
            self.targets = (0..workers).map(|_| Records::default()).collect();
        }
    }

    fn next(&mut self) -> Option<&mut Records> {
        self.spare = Some(self.full.pop_front()?);
        self.spare.as_mut()
    }
}

impl<'a> PushInto<RecordRef<'a>> for RoutedBuilder {
    fn push_into(&mut self, record: RecordRef<'a>) {
        let target = worker_of(record.fingerprint, self.targets.len()) as usize;
        let records = &mut self.targets[target];
        records.ensure_capacity(&mut self.spare);
        records.push(record);
        if records.at_capacity() {
            self.full.push_back(std::mem::take(records));
        }
    }
}

impl ContainerBuilder for RoutedBuilder {
    type Container = Records;

    fn extract(&mut self) -> Option<&mut Records> {
        self.next()
    }

    fn finish(&mut self) -> Option<&mut Records> {
        for records in &mut self.targets {
            if !records.is_empty() {
                self.full.push_back(std::mem::take(records));
            }
        }
        self.next()
    }
}

/// Forwards containers built by [`RoutedBuilder`].
#[derive(Clone, Copy, Debug)]
pub struct RoutedDistributor {
    workers: usize,
}

impl Distributor<Records> for RoutedDistributor {
    fn partition<T: Clone, P: Push<Message<T, Records>>>(
        &mut self,
        container: &mut Records,
        stamp: &Stamp<T>,
        pushers: &mut [P],
    ) {
        if container.is_empty() {
            return;
        }
        let target = worker_of(container.fingerprint(0), self.workers) as usize;
        debug_assert!(
            (0..container.len())
                .all(|i| worker_of(container.fingerprint(i), self.workers) as usize == target),
            "a container with records of two workers was sent through the routed exchange"
        );
        Message::push_at(container, stamp.clone(), &mut pushers[target]);
    }

    fn flush<T: Clone, P: Push<Message<T, Records>>>(&mut self, _: &Stamp<T>, _: &mut [P]) {}
}

/// The exchange for streams built by [`RoutedBuilder`].
pub fn routed() -> DistributorPact<fn(usize) -> RoutedDistributor> {
    DistributorPact(|workers| RoutedDistributor { workers })
}
