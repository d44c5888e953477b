//! Faults on order, for tests: a named point between two durable steps fails or ends the process
//! when it is told to.
//!
//! `HEADWATER_FAULT="checkpoint.manifest=abort@2,store.temp=full"` makes the second visit of one
//! point end the process as `kill -9` would, and the first visit of the other find the disk full;
//! `HEADWATER_PLANT="markers-filtered"` plants a bug by name, to prove that a test sees it.
//!
//! Invariant: without the variables, and in builds without debug assertions always, nothing here
//! does anything. It cannot make a fault that a real machine could not have.

use crate::error::Error;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, OnceLock, PoisonError};

/// What a point is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// Fails as an I/O error would.
    Error,
    /// Ends the process at once; nothing is flushed.
    Abort,
    /// The disk is full.
    Full,
    /// Only half of the bytes are taken.
    Short,
    /// Stops the process until it is told to go on (SIGCONT).
    Pause,
}

#[derive(Debug, Default)]
struct Orders {
    /// By point: the action and the visit at which it happens, from 1.
    points: BTreeMap<String, Vec<(Action, u64)>>,
    plants: Vec<String>,
    visits: Mutex<BTreeMap<&'static str, u64>>,
}

impl Action {
    /// As it is ordered and told.
    fn word(self) -> &'static str {
        match self {
            Action::Error => "error",
            Action::Abort => "abort",
            Action::Full => "full",
            Action::Short => "short",
            Action::Pause => "pause",
        }
    }
}

impl Orders {
    fn read(fault: &str, plant: &str) -> Result<Orders, String> {
        let mut orders = Orders::default();
        for order in fault.split(',').filter(|order| !order.is_empty()) {
            let wrong =
                || format!("HEADWATER_FAULT: `{order}` is not NAME=ACTION or NAME=ACTION@N");
            let (name, what) = order.split_once('=').ok_or_else(wrong)?;
            let (action, visit) = match what.split_once('@') {
                Some((action, visit)) => (action, visit.parse().map_err(|_| wrong())?),
                None => (what, 1),
            };
            let all = [
                Action::Error,
                Action::Abort,
                Action::Full,
                Action::Short,
                Action::Pause,
            ];
            let named = all.into_iter().find(|one| one.word() == action);
            let action = named.ok_or_else(wrong)?;
            let actions = orders.points.entry(name.to_owned()).or_default();
            actions.push((action, visit));
        }
        let plants = plant.split(',').filter(|name| !name.is_empty());
        orders.plants = plants.map(str::to_owned).collect();
        Ok(orders)
    }

    fn visit(&self, name: &'static str) -> Option<Action> {
        let actions = self.points.get(name)?;
        let mut visits = self.visits.lock().unwrap_or_else(PoisonError::into_inner);
        let visit = visits.entry(name).or_default();
        *visit += 1;
        let now = actions.iter().find(|(_, at)| at == visit);
        now.map(|(action, _)| *action)
    }
}

fn orders() -> &'static Orders {
    static ORDERS: OnceLock<Orders> = OnceLock::new();
    ORDERS.get_or_init(|| {
        let variable = |name| std::env::var(name).unwrap_or_default();
        let read = Orders::read(&variable("HEADWATER_FAULT"), &variable("HEADWATER_PLANT"));
        read.unwrap_or_else(|wrong| panic!("{wrong}"))
    })
}

/// The action ordered for this visit, which is told first: a test can tell that the point was
/// visited. `Abort` and `Pause` are done here.
fn act(name: &'static str) -> Option<Action> {
    if !cfg!(debug_assertions) {
        return None;
    }
    let action = orders().visit(name)?;
    eprintln!("fault: {name}: {}", action.word());
    match action {
        Action::Abort => std::process::abort(),
        Action::Pause => {
            // Raised for the whole process; goes on after SIGCONT.
            let _ = signal_hook::low_level::raise(signal_hook::consts::SIGSTOP);
            None
        }
        Action::Error | Action::Full | Action::Short => Some(action),
    }
}

fn io_error(name: &str, action: Action) -> io::Error {
    match action {
        Action::Full => io::Error::from_raw_os_error(28),
        _ => io::Error::other(format!("a fault on order at {name}")),
    }
}

/// A point between two durable steps.
///
/// # Errors
/// When a test has ordered one for this visit.
pub fn point(name: &'static str) -> Result<(), Error> {
    io_point(name).map_err(|error| Error::failed(format!("{name}: {error}")))
}

/// As [`point`], where I/O errors are handled.
///
/// # Errors
/// When a test has ordered one for this visit.
pub fn io_point(name: &'static str) -> io::Result<()> {
    match act(name) {
        Some(action) => Err(io_error(name, action)),
        None => Ok(()),
    }
}

/// What a write at this point takes of `bytes`: all of them, or, as ordered, the first half.
///
/// # Errors
/// When a test has ordered an error or a full disk for this visit.
pub fn write<'b>(name: &'static str, bytes: &'b [u8]) -> io::Result<&'b [u8]> {
    match act(name) {
        None => Ok(bytes),
        Some(Action::Short) => Ok(&bytes[..bytes.len() / 2]),
        Some(action) => Err(io_error(name, action)),
    }
}

/// Whether the bug of this name is planted.
pub fn planted(bug: &str) -> bool {
    cfg!(debug_assertions) && orders().plants.iter().any(|planted| planted == bug)
}

#[cfg(test)]
mod tests {
    use super::{Action, Orders};

    #[test]
    fn orders_happen_at_their_visit_alone() {
        let orders = Orders::read("a=error@2,a=full@3,b.c=abort", "x,y").expect("well formed");
        let visits = [(); 4].map(|()| orders.visit("a"));
        assert_eq!(
            visits,
            [None, Some(Action::Error), Some(Action::Full), None]
        );
        assert_eq!(orders.visit("b.c"), Some(Action::Abort));
        assert_eq!(orders.visit("other"), None);
        assert_eq!(orders.plants, ["x", "y"]);
    }

    #[test]
    fn a_wrong_order_is_told() {
        for wrong in ["a", "a=", "a=vanish", "a=error@x"] {
            Orders::read(wrong, "").expect_err(wrong);
        }
    }
}
