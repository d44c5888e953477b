//! A TCP proxy that loses answers: the server has done what was asked, and the client never hears.
//!
//! It cannot tell requests apart that follow each other without a pause on one connection; a client
//! waits for each answer, so none do.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

pub(crate) struct Proxy {
    port: u16,
    cuts: Arc<AtomicU32>,
}

impl Proxy {
    /// Forwards to a port of the loopback address, until the process ends.
    pub(crate) fn start(to: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let cuts = Arc::new(AtomicU32::new(0));
        let left = Arc::clone(&cuts);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if let Ok(server) = TcpStream::connect(("127.0.0.1", to)) {
                    forward(&client, &server, &left);
                }
            }
        });
        Proxy { port, cuts }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Loses the answers to the next `count` writes.
    pub(crate) fn cut(&self, count: u32) {
        self.cuts.store(count, Ordering::SeqCst);
    }

    /// Answers that are still to be lost.
    pub(crate) fn left(&self) -> u32 {
        self.cuts.load(Ordering::SeqCst)
    }
}

fn forward(client: &TcpStream, server: &TcpStream, cuts: &Arc<AtomicU32>) {
    let clone = |stream: &TcpStream| stream.try_clone().expect("a handle");
    let doomed = Arc::new(AtomicBool::new(false));
    let (mut from, mut to) = (clone(client), clone(server));
    let (left, mark) = (Arc::clone(cuts), Arc::clone(&doomed));
    thread::spawn(move || {
        let look = |bytes: &[u8]| {
            let one_less = |left: u32| left.checked_sub(1);
            let taken = || left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
            if bytes.starts_with(b"PUT ") && taken().is_ok() {
                mark.store(true, Ordering::SeqCst);
            }
            true
        };
        pump(&mut from, &mut to, look);
    });
    let (mut from, mut to) = (clone(server), clone(client));
    thread::spawn(move || pump(&mut from, &mut to, |_| !doomed.load(Ordering::SeqCst)));
}

/// Moves bytes until an end or until `go_on` says no.
fn pump(from: &mut TcpStream, to: &mut TcpStream, go_on: impl Fn(&[u8]) -> bool) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let bytes = &buffer[..count];
        if !go_on(bytes) || to.write_all(bytes).is_err() {
            break;
        }
    }
    // Closed already is as good.
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
