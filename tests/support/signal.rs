//! Signals to a child.
//!
//! It cannot tell whether the child has seen one; its end does.

use crate::binary::Running;
use std::process::Command;

/// Sends a signal by its name, such as `INT`.
pub(crate) fn send(child: &Running, name: &str) {
    let pid = child.child.id().to_string();
    let sent = Command::new("kill")
        .args([&format!("-{name}"), &pid])
        .status();
    assert!(sent.expect("kill is there").success());
}
