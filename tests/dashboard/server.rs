//! A small HTTP server for a test, and a proxy that lets nothing out.
//!
//! Invariant: it ends when it is dropped, and its address is free then.
//!
//! It reads no bodies.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// What is asked.
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) target: String,
    /// The header lines as they came.
    pub(crate) headers: Vec<String>,
}

/// What is answered.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) kind: &'static str,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(code: u16, value: &serde_json::Value) -> Answer {
        Answer {
            code,
            kind: "application/json",
            headers: Vec::new(),
            body: value.to_string(),
        }
    }
}

/// See the module.
pub(crate) struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves at an address; port 0 takes a free one.
    pub(crate) fn start(
        address: SocketAddr,
        answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
    ) -> Server {
        let listener = TcpListener::bind(address).expect("the address is free");
        let address = listener.local_addr().expect("bound");
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, answer) = (Arc::clone(&stop), Arc::new(answer));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let (stream, answer) = (stream.expect("a connection"), Arc::clone(&answer));
                // A browser opens connections that it may never use.
                std::thread::spawn(move || serve(&stream, &*answer));
            }
        });
        Server {
            address,
            stop,
            thread: Some(thread),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes it.
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it does not panic");
        }
    }
}

/// Any free port.
pub(crate) fn anywhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn serve(stream: &TcpStream, answer: &dyn Fn(&Asked) -> Answer) {
    let waits = Some(Duration::from_secs(20));
    stream.set_read_timeout(waits).expect("a length of time");
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let Some(first) = lines.next() else {
        return;
    };
    let mut words = first.split(' ').map(str::to_owned);
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return;
    };
    let headers = lines.take_while(|line| !line.is_empty()).collect();
    let answer = answer(&Asked {
        method,
        target,
        headers,
    });
    let more = answer.headers.iter();
    let more: String = more
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let (code, kind, body) = (answer.code, answer.kind, &answer.body);
    let text = format!(
        "HTTP/1.1 {code} .\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n{more}\
         connection: close\r\n\r\n{body}",
        body.len()
    );
    // The browser may have gone.
    let _ = (&*stream).write_all(text.as_bytes());
}

/// Whom Chromium asks by itself, whatever its flags say: updates, the time, the search engine.
const BROWSERS_OWN: &[&str] = &[
    "googleapis.com",
    "google.com",
    "duckduckgo.com",
    "gstatic.com",
];

/// A proxy that writes down what it is asked for and answers nothing good.
pub(crate) struct Proxy {
    pub(crate) server: Server,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    pub(crate) fn start() -> Proxy {
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let list = Arc::clone(&asked);
        let server = Server::start(anywhere(), move |one| {
            let line = format!("{} {}", one.method, one.target);
            list.lock().expect("nobody panics").push(line);
            Answer {
                code: 502,
                kind: "text/plain",
                headers: Vec::new(),
                body: "nothing leaves this machine".to_owned(),
            }
        });
        Proxy { server, asked }
    }

    /// What went to it, without what the browser asks by itself. A page that asks one of those is
    /// not seen here: the browser's own record of what a page requests shows it.
    pub(crate) fn asked(&self) -> Vec<String> {
        let asked = self.asked.lock().expect("nobody panics");
        let of_page = |line: &&String| {
            let host = host(line);
            let own = |name: &&str| {
                let rest = host.strip_suffix(*name);
                rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            };
            !BROWSERS_OWN.iter().any(own)
        };
        asked.iter().filter(of_page).cloned().collect()
    }
}

/// The host of `GET http://HOST:PORT/PATH` or `CONNECT HOST:PORT`.
fn host(line: &str) -> &str {
    let (_, target) = line.split_once(' ').expect("a method and a target");
    let target = target.split_once("://").map_or(target, |(_, rest)| rest);
    let end = target.find([':', '/']).unwrap_or(target.len());
    &target[..end]
}

#[test]
fn a_host_is_found_in_what_a_proxy_is_asked() {
    for (line, expected) in [
        ("GET http://outside.example/a.png", "outside.example"),
        ("GET http://outside.example:80/a:b", "outside.example"),
        ("CONNECT outside.example:443", "outside.example"),
    ] {
        assert_eq!(host(line), expected);
    }
}
