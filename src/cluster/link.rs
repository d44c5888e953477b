//! One authenticated connection while the cluster comes up, and what is said on it.
//!
//! Invariant: never a byte beyond a control frame is read. After `Go` the same socket carries
//! timely's own bytes, and a peer that starts earlier may have sent some already. So only the
//! connections of process 0 carry frames (a star), and the others are only looked at.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::wire::{Cursor, TEXT_BYTES_MAX, put_text};

/// A peer that acknowledges nothing for so long is lost: its machine or the network died without
/// a word. A peer that is alive but does not read for so long (stopped, swapping) is cut, too.
pub(super) const PEER_SILENT_MS_MAX: u64 = 30_000;
/// Idle time before the kernel asks the peer whether it is there, and time between its questions.
const KEEPALIVE_IDLE_MS: u64 = 10_000;
const KEEPALIVE_EVERY_MS: u64 = 5_000;
const KEEPALIVE_QUESTIONS: u32 = 4;
/// Most bytes of a frame's body: the longest text, or 1,024 processes waited for.
const BODY_BYTES_MAX: usize = 4 * 1024 + 64;
const HEAD_BYTES: usize = 3;

/// What is said between process 0 and another one, once authenticated.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// To process 0: the processes that the sender has no connection to. Empty: it can start.
    WaitsFor(Vec<u32>),
    /// From process 0: everyone can start. The last frame on a connection.
    Go,
    /// Either way: `process` found that the cluster cannot come up.
    Abort {
        process: u32,
        code: u8,
        reason: String,
    },
}

impl Frame {
    fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let kind = match self {
            Self::WaitsFor(processes) => {
                // A longer list is only a shorter explanation: it must not come out empty.
                for process in processes.iter().take(1024) {
                    body.extend_from_slice(&process.to_le_bytes());
                }
                1
            }
            Self::Go => 2,
            Self::Abort {
                process,
                code,
                reason,
            } => {
                body.extend_from_slice(&process.to_le_bytes());
                body.push(*code);
                put_text(&mut body, reason, TEXT_BYTES_MAX);
                3
            }
        };
        let length = u16::try_from(body.len()).expect("a body is at most BODY_BYTES_MAX");
        let mut out = vec![kind];
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&body);
        out
    }

    fn decode(kind: u8, body: &[u8]) -> Option<Self> {
        let mut cursor = Cursor(body);
        match kind {
            1 => {
                let chunks = body.chunks_exact(4);
                chunks.remainder().is_empty().then_some(())?;
                let number = |c: &[u8]| Some(u32::from_le_bytes(c.try_into().ok()?));
                Some(Self::WaitsFor(chunks.filter_map(number).collect()))
            }
            2 => body.is_empty().then_some(Self::Go),
            3 => {
                let process = cursor.u32()?;
                let code = cursor.array::<1>()?[0];
                let reason = cursor.text(TEXT_BYTES_MAX)?;
                Some(Self::Abort {
                    process,
                    code,
                    reason,
                })
            }
            _ => None,
        }
    }
}

/// A connection to another process of the cluster.
pub(super) struct Link {
    stream: TcpStream,
    /// The peer's process start, from its hello.
    pub(super) instance: [u8; 16],
    /// The other end.
    pub(super) address: SocketAddr,
    /// On process 0: what the peer last said it waits for; nothing before its first word.
    pub(super) waits_for: Option<Vec<u32>>,
}

impl Link {
    /// Takes a socket after its handshake.
    pub(super) fn new(stream: TcpStream, instance: [u8; 16]) -> io::Result<Self> {
        prepare(&stream)?;
        stream.set_nonblocking(true)?;
        let address = stream.peer_addr()?;
        Ok(Self {
            stream,
            instance,
            address,
            waits_for: None,
        })
    }

    /// Whether the other end still holds the connection, judged without reading from it.
    pub(super) fn is_alive(&self) -> bool {
        match self.stream.peek(&mut [0]) {
            Ok(count) => count > 0,
            Err(error) => waiting(&error),
        }
    }

    /// The next whole frame, nothing if there is none yet; an error means the link is lost.
    pub(super) fn read(&mut self) -> io::Result<Option<Frame>> {
        let mut bytes = [0; HEAD_BYTES + BODY_BYTES_MAX];
        let seen = match self.stream.peek(&mut bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(seen) => seen,
            Err(error) if waiting(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        if seen < HEAD_BYTES {
            return Ok(None);
        }
        let length = usize::from(u16::from_le_bytes([bytes[1], bytes[2]]));
        if length > BODY_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let whole = HEAD_BYTES + length;
        if seen < whole {
            return Ok(None);
        }
        self.stream.read_exact(&mut bytes[..whole])?;
        let frame = Frame::decode(bytes[0], &bytes[HEAD_BYTES..whole]);
        frame
            .map(Some)
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Sends a frame. Frames are few and small, so they fit the socket's buffer.
    pub(super) fn write(&mut self, frame: &Frame) -> io::Result<()> {
        self.stream.write_all(&frame.encode())
    }

    /// Says that nothing more will come. Closing a socket with unread bytes in it would throw away
    /// what was written to it last, so the caller reads on for a while.
    pub(super) fn finish_writing(&self) {
        drop(self.stream.shutdown(std::net::Shutdown::Write));
    }

    /// The socket as timely wants it: blocking, without timeouts of its own.
    pub(super) fn into_stream(self) -> io::Result<TcpStream> {
        self.stream.set_nonblocking(false)?;
        self.stream.set_read_timeout(None)?;
        self.stream.set_write_timeout(None)?;
        Ok(self.stream)
    }
}

fn waiting(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

/// No delay for small messages, and an end for a peer that died without a word.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = socket2::SockRef::from(stream);
    let keepalive = socket2::TcpKeepalive::new()
        .with_time(Duration::from_millis(KEEPALIVE_IDLE_MS))
        .with_interval(Duration::from_millis(KEEPALIVE_EVERY_MS))
        .with_retries(KEEPALIVE_QUESTIONS);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(Duration::from_millis(PEER_SILENT_MS_MAX)))
}

#[cfg(test)]
mod tests {
    use super::{Frame, KEEPALIVE_IDLE_MS, Link, PEER_SILENT_MS_MAX};
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    fn pair() -> (Link, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        (Link::new(stream, [0; 16]).unwrap(), other)
    }

    fn eventually<T>(mut get: impl FnMut() -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(value) = get() {
                return value;
            }
            assert!(start.elapsed() < Duration::from_secs(10), "waited for 10 s");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn frames_are_read_to_their_end_and_not_a_byte_further() {
        let (mut link, mut other) = pair();
        assert!(link.read().unwrap().is_none());
        let abort = Frame::Abort {
            process: 2,
            code: 1,
            reason: "why".to_owned(),
        };
        for frame in [
            Frame::WaitsFor(vec![1, 2]),
            Frame::WaitsFor(vec![]),
            abort,
            Frame::Go,
        ] {
            for byte in frame.encode() {
                other.write_all(&[byte]).unwrap();
            }
            assert_eq!(eventually(|| link.read().unwrap()), frame);
        }
        // What timely sends next stays in the socket.
        other.write_all(b"timely").unwrap();
        let mut rest = [0; 6];
        link.into_stream().unwrap().read_exact(&mut rest).unwrap();
        assert_eq!(&rest, b"timely");
    }

    #[test]
    fn a_closed_peer_is_noticed_and_garbage_is_an_error() {
        let (mut link, other) = pair();
        assert!(link.is_alive());
        drop(other);
        eventually(|| (!link.is_alive()).then_some(()));
        assert!(link.read().is_err());
        let (mut link, mut other) = pair();
        other.write_all(&[9, 0, 0]).unwrap();
        eventually(|| link.read().is_err().then_some(()));
        let (mut link, mut other) = pair();
        other.write_all(&[1, 0xff, 0xff]).unwrap();
        eventually(|| link.read().is_err().then_some(()));
    }

    #[test]
    fn the_kernel_watches_for_a_silent_peer() {
        let (link, _other) = pair();
        let stream = link.into_stream().unwrap();
        assert!(stream.nodelay().unwrap());
        let socket = socket2::SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        let idle = Duration::from_millis(KEEPALIVE_IDLE_MS);
        assert_eq!(socket.tcp_keepalive_time().unwrap(), idle);
        let silent = Duration::from_millis(PEER_SILENT_MS_MAX);
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(silent));
    }
}
