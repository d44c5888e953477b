//! Who a process is on its machine, and whether another one of the same machine is gone.
//!
//! Invariant: a process is called gone only when this one could have seen it: same boot of the
//! same machine, same namespace of process ids, and process ids of others not hidden.
//!
//! For Linux, from `/proc`; elsewhere nobody is ever called gone, and a lease must run out.

use super::Holder;
use std::fs;

/// The machine's name.
pub(super) fn host() -> String {
    read("/proc/sys/kernel/hostname").unwrap_or_else(|| "unknown".to_owned())
}

/// This boot of this machine and this namespace of process ids; empty when that is not known.
pub(super) fn boot() -> String {
    let boot = read("/proc/sys/kernel/random/boot_id");
    let space = fs::read_link("/proc/self/ns/pid").ok();
    match (boot, space) {
        (Some(boot), Some(space)) => format!("{boot} {}", space.display()),
        _ => String::new(),
    }
}

/// When a process was started, in clock ticks since the boot; `None` when it is no more (a zombie
/// writes nothing either).
pub(super) fn started(pid: u32) -> Option<u64> {
    let stat = read(&format!("/proc/{pid}/stat"))?;
    // The second field is the command in parentheses, and may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    // The start is field 22, and the state field 3.
    let started = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(started)
}

/// Whether the holder's process was of this boot and is no more.
pub(super) fn gone(holder: &Holder) -> bool {
    let boot = boot();
    !boot.is_empty()
        && holder.boot == boot
        && !hidden()
        && started(holder.pid) != Some(holder.started)
}

/// Whether processes of other users may be hidden from this one.
fn hidden() -> bool {
    let mounts = read("/proc/self/mountinfo").unwrap_or_default();
    let hides = |mount: &str| mount.contains(" - proc ") && mount.contains("hidepid=");
    mounts.lines().any(hides) || started(std::process::id()).is_none()
}

fn read(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::{boot, gone, started};
    use crate::lease::Holder;
    use std::process::{Command, Stdio};

    #[test]
    fn a_killed_process_is_gone_and_a_living_one_is_not() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn();
        let child = child.as_mut().expect("sleep is there");
        let holder = Holder {
            pid: child.id(),
            started: started(child.id()).expect("it runs"),
            ..Holder::here(1)
        };
        assert!(!gone(&holder));
        child.kill().expect("killed");
        while started(child.id()).is_some() {
            std::thread::yield_now();
        }
        assert!(gone(&holder), "a zombie");
        child.wait().expect("reaped");
        assert!(gone(&holder), "no process");
    }

    #[test]
    fn another_start_of_the_same_id_is_another_process() {
        let here = Holder::here(1);
        assert!(!gone(&here));
        let earlier = Holder {
            started: here.started - 1,
            ..here.clone()
        };
        assert!(gone(&earlier));
        let elsewhere = Holder {
            boot: "another".to_owned(),
            ..earlier
        };
        assert!(!gone(&elsewhere), "it cannot be seen from here");
        assert!(!boot().is_empty());
    }
}
