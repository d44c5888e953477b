//! The two sides of one handshake, over a blocking socket with one deadline for all of it.
//!
//! Invariant: the deadline covers the whole exchange, not each read, so a peer that drips one byte
//! at a time is let go as soon as one that says nothing. Nothing here decides whether a peer fits:
//! it only proves that both sides know the secret, and carries the hellos.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use super::error::printable;
use super::wire::{
    ANSWER, AUTH_FAILED, HELLO_BYTES_MAX, Hello, MAGIC, OPENING_BYTES, Opening, TAG_BYTES,
    Transcript, VERSION,
};

/// Longest a handshake may take, and so longest a stranger holds a socket and a thread.
pub(super) const HANDSHAKE_MS_MAX: u64 = 5_000;
/// Longest one address is dialled before the next is tried.
const CONNECT_MS_MAX: u64 = 2_000;

/// A dialler that has proved itself and waits for our answer.
pub(super) struct Asked {
    pub(super) stream: TcpStream,
    pub(super) hello: Hello,
    asked: Vec<u8>,
    transcript: Transcript,
}

/// Why a dialled process was not reached, as a sentence for the list of who is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unreached {
    /// Nobody there, or an exchange that broke off.
    Away(String),
    /// Something there that is not of this cluster, or does not take us for one of it.
    Proof(String),
}

impl From<String> for Unreached {
    fn from(why: String) -> Self {
        Unreached::Away(why)
    }
}

/// Dials `address` and returns the listener's authenticated answer.
pub(super) fn dial(
    address: &str,
    secret: &[u8],
    hello: &Hello,
    patience: Duration,
) -> Result<(TcpStream, Hello), Unreached> {
    let proof = |why: &str| Unreached::Proof(why.to_owned());
    let until = Instant::now() + patience.min(Duration::from_millis(HANDSHAKE_MS_MAX));
    let stream = connect(address, until)?;
    let mut wire = Timed {
        stream: &stream,
        until,
    };

    let ours = Opening {
        version: VERSION,
        nonce: nonce()?,
    };
    wire.write_all(&ours.encode()).map_err(broken)?;
    let theirs = read_opening(&mut wire)?;
    same_version(&theirs).map_err(Unreached::Proof)?;
    let transcript = Transcript::new(secret, &ours, &theirs);

    let asked = hello.encode();
    let tag = transcript.dialler_tag(&asked);
    wire.write_all(&letter(None, &asked, &tag))
        .map_err(broken)?;

    let mut kind = [0];
    wire.read_exact(&mut kind).map_err(broken)?;
    match kind[0] {
        ANSWER => {}
        AUTH_FAILED => return Err(proof("it says our secret is not its own")),
        other => {
            let why = format!("it answered with kind {other}, which is not known");
            return Err(Unreached::Proof(why));
        }
    }
    let (answer, tag) = read_letter(&mut wire)?;
    if !transcript.listener_proves(&asked, &answer, &tag) {
        return Err(proof("it failed authentication: its secret is not ours"));
    }
    let answer = Hello::decode(&answer).ok_or_else(|| proof("its answer cannot be decoded"))?;
    Ok((stream, answer))
}

/// Takes an accepted connection to the point where the dialler has proved itself.
///
/// Errors are sentences about a stranger; the connection is closed with them.
pub(super) fn receive(stream: TcpStream, secret: &[u8]) -> Result<Asked, String> {
    let until = Instant::now() + Duration::from_millis(HANDSHAKE_MS_MAX);
    let mut wire = Timed {
        stream: &stream,
        until,
    };

    let theirs = read_opening(&mut wire)?;
    let ours = Opening {
        version: VERSION,
        nonce: nonce()?,
    };
    wire.write_all(&ours.encode()).map_err(broken)?;
    // Checked only now, so that the other side learns our version too.
    same_version(&theirs)?;
    let transcript = Transcript::new(secret, &theirs, &ours);
    let (asked, tag) = read_letter(&mut wire)?;
    if !transcript.dialler_proves(&asked, &tag) {
        // Harmless to say, and it lets an operator with two secrets see it on both sides.
        drop(wire.write_all(&[AUTH_FAILED]));
        return Err("failed authentication: its secret is not ours".to_owned());
    }
    let hello = Hello::decode(&asked).ok_or("its hello cannot be decoded")?;
    Ok(Asked {
        stream,
        hello,
        asked,
        transcript,
    })
}

impl Asked {
    /// Sends our answer; the connection is the caller's from here.
    ///
    /// An answer is far below a socket's buffer, so this does not wait for the peer.
    pub(super) fn answer(self, hello: &Hello) -> io::Result<TcpStream> {
        let answer = hello.encode();
        let tag = self.transcript.listener_tag(&self.asked, &answer);
        let until = Instant::now() + Duration::from_secs(1);
        let mut wire = Timed {
            stream: &self.stream,
            until,
        };
        wire.write_all(&letter(Some(ANSWER), &answer, &tag))?;
        Ok(self.stream)
    }
}

/// Connects to the first address of the name that answers.
fn connect(address: &str, until: Instant) -> Result<TcpStream, String> {
    let resolved: Vec<SocketAddr> = address
        .to_socket_addrs()
        .map_err(|error| format!("the name does not resolve: {error}"))?
        .collect();
    let mut last = "the name resolves to no address".to_owned();
    for socket in resolved {
        let patience = left(until).min(Duration::from_millis(CONNECT_MS_MAX));
        if patience.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(&socket, patience) {
            // On loopback the kernel may give a dialler the very port it dials: it then talks to
            // itself, and keeps the port from the process that wants to listen there.
            Ok(stream) if stream.local_addr().ok() == stream.peer_addr().ok() => {
                last = "nobody listens there yet".to_owned();
            }
            Ok(stream) => {
                drop(stream.set_nodelay(true));
                return Ok(stream);
            }
            Err(error) => last = format!("{socket}: {error}"),
        }
    }
    Err(last)
}

fn read_opening(wire: &mut Timed<'_>) -> Result<Opening, String> {
    let mut bytes = [0; OPENING_BYTES];
    // The magic alone first: a stranger that sends less than an opening is known at once.
    let (magic, rest) = bytes.split_at_mut(MAGIC.len());
    wire.read_exact(magic).map_err(silent)?;
    if *magic != MAGIC {
        let start = printable(&String::from_utf8_lossy(magic), MAGIC.len());
        return Err(format!(
            "is not a Headwater process (it starts with {start:?})"
        ));
    }
    wire.read_exact(rest).map_err(silent)?;
    Opening::decode(&bytes).ok_or_else(|| "is not a Headwater process".to_owned())
}

fn same_version(theirs: &Opening) -> Result<(), String> {
    if theirs.version == VERSION {
        return Ok(());
    }
    Err(format!(
        "speaks version {} of the handshake, this build {VERSION}: run the same build everywhere",
        theirs.version
    ))
}

fn silent(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "closed before it said who it is".to_owned(),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            format!("did not say who it is within {HANDSHAKE_MS_MAX} ms")
        }
        _ => format!("failed before it said who it is: {error}"),
    }
}

fn broken(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "ended the handshake early".to_owned(),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            format!("did not finish the handshake within {HANDSHAKE_MS_MAX} ms")
        }
        _ => format!("broke the handshake: {error}"),
    }
}

fn letter(kind: Option<u8>, hello: &[u8], tag: &[u8; TAG_BYTES]) -> Vec<u8> {
    let length = u16::try_from(hello.len()).expect("a hello is at most HELLO_BYTES_MAX");
    let mut out = Vec::with_capacity(3 + hello.len() + TAG_BYTES);
    out.extend(kind);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(hello);
    out.extend_from_slice(tag);
    out
}

fn read_letter(wire: &mut Timed<'_>) -> Result<(Vec<u8>, [u8; TAG_BYTES]), String> {
    let mut length = [0; 2];
    wire.read_exact(&mut length).map_err(broken)?;
    let length = usize::from(u16::from_le_bytes(length));
    if length > HELLO_BYTES_MAX {
        return Err(format!(
            "announced a hello of {length} bytes, over {HELLO_BYTES_MAX}"
        ));
    }
    let mut hello = vec![0; length];
    wire.read_exact(&mut hello).map_err(broken)?;
    let mut tag = [0; TAG_BYTES];
    wire.read_exact(&mut tag).map_err(broken)?;
    Ok((hello, tag))
}

fn nonce() -> Result<[u8; 32], String> {
    let mut out = [0; 32];
    getrandom::fill(&mut out).map_err(|error| format!("no random numbers here: {error}"))?;
    Ok(out)
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

/// A blocking socket whose reads and writes together end at `until`.
struct Timed<'a> {
    stream: &'a TcpStream,
    until: Instant,
}

impl Timed<'_> {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = left(self.until);
        if left.is_zero() {
            Err(io::ErrorKind::TimedOut.into())
        } else {
            Ok(Some(left))
        }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(buffer)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
