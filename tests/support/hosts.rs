//! Free loopback addresses for clusters that run side by side.
//!
//! It cannot keep them: a port is free when it is told, and taken by whoever binds it first.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU8, Ordering};

/// Addresses on an IP address within 127/8 that no other call of this process uses, and hardly one
/// of another test process.
pub(crate) fn free(count: usize) -> Vec<String> {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let pid = std::process::id().to_le_bytes();
    let ip = Ipv4Addr::new(
        127,
        1 + pid[0] % 250,
        pid[1],
        NEXT.fetch_add(1, Ordering::SeqCst),
    );
    let taken: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind((ip, 0)).expect("a free port"))
        .collect();
    let address = |listener: &TcpListener| listener.local_addr().expect("bound").to_string();
    taken.iter().map(address).collect()
}
