//! The bytes of the handshake. Little endian, every length bounded before it is believed.
//!
//! ```text
//! dialler → listener   opening   magic 8 · version u16 · nonce 32
//! listener → dialler   opening   the same, and only after the dialler's magic was right
//! dialler → listener   letter    length u16 · hello · tag 32
//! listener → dialler   kind u8 = ANSWER · letter      or      kind u8 = AUTH_FAILED
//! ```
//! Tags are HMAC-SHA256 under the cluster's secret over a role label, both openings and the hellos
//! so far. The listener shows its tag only to a dialler that has proved itself, so a stranger who
//! connects learns nothing to guess the secret from.
//!
//! Known limit: the opening is not authenticated, so a wrong protocol version can only be noted.
//! After the handshake nothing is encrypted or authenticated: private network only.

use hmac::{Hmac, Mac};
use sha2::Sha256;

/// First bytes of every connection between processes.
pub(super) const MAGIC: [u8; 8] = *b"headwtr\x01";
/// Version of the handshake, not of the program.
pub(super) const VERSION: u16 = 1;
/// Bytes of an opening.
pub(super) const OPENING_BYTES: usize = 8 + 2 + 32;
/// Bytes of a tag.
pub(super) const TAG_BYTES: usize = 32;
/// Most bytes of an encoded hello: what a stranger can make us hold, before its tag is checked.
pub(super) const HELLO_BYTES_MAX: usize = 2048;
/// Most bytes of a job's name.
pub(super) const JOB_BYTES_MAX: usize = 255;
/// Most bytes of a refusal's text.
pub(super) const TEXT_BYTES_MAX: usize = 1024;
/// The listener answers with its own letter.
pub(super) const ANSWER: u8 = 1;
/// The listener could not verify the dialler's tag.
pub(super) const AUTH_FAILED: u8 = 2;

const LABEL_DIALLER: &[u8] = b"headwater cluster handshake 1: dialler";
const LABEL_LISTENER: &[u8] = b"headwater cluster handshake 1: listener";

/// What one side sends before anything is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opening {
    pub(super) version: u16,
    pub(super) nonce: [u8; 32],
}

impl Opening {
    pub(super) fn encode(&self) -> [u8; OPENING_BYTES] {
        let mut out = [0; OPENING_BYTES];
        out[..8].copy_from_slice(&MAGIC);
        out[8..10].copy_from_slice(&self.version.to_le_bytes());
        out[10..].copy_from_slice(&self.nonce);
        out
    }

    /// `None` when the magic is not ours.
    pub(super) fn decode(bytes: &[u8; OPENING_BYTES]) -> Option<Self> {
        let mut cursor = Cursor(bytes);
        (cursor.take(8)? == MAGIC).then_some(())?;
        Some(Self {
            version: cursor.u16()?,
            nonce: cursor.array()?,
        })
    }
}

/// What a listener decided about an authenticated dialler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A dialler's hello: no verdict in it.
    Asking,
    /// The connection is part of the cluster.
    Accepted,
    /// Not now (the listener has not heard of this incarnation, or of another): dial again.
    Retry,
    /// Never; the text says why.
    Refused,
}

impl Verdict {
    fn decode(byte: u8) -> Option<Self> {
        [Self::Asking, Self::Accepted, Self::Retry, Self::Refused]
            .into_iter()
            .find(|verdict| *verdict as u8 == byte)
    }
}

/// What both sides must agree on, and who speaks to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) processes: u32,
    pub(super) threads: u32,
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) config_hash: [u8; 32],
    /// Random at every start of a process: tells a restarted process from a second one.
    pub(super) instance: [u8; 16],
    /// Chosen by process 0; unknown to the others until they have spoken to it.
    pub(super) incarnation: Option<[u8; 16]>,
    pub(super) verdict: Verdict,
    pub(super) job: String,
    /// Version of the program: timely's own framing is only safe between equal builds.
    pub(super) build: String,
    pub(super) text: String,
}

impl Hello {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        for number in [self.processes, self.threads, self.from, self.to] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.config_hash);
        out.extend_from_slice(&self.instance);
        out.push(u8::from(self.incarnation.is_some()));
        out.extend_from_slice(&self.incarnation.unwrap_or_default());
        out.push(self.verdict as u8);
        put_text(&mut out, &self.job, JOB_BYTES_MAX);
        put_text(&mut out, &self.build, JOB_BYTES_MAX);
        put_text(&mut out, &self.text, TEXT_BYTES_MAX);
        debug_assert!(out.len() <= HELLO_BYTES_MAX);
        out
    }

    /// `None` for anything that [`Hello::encode`] does not write.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor(bytes);
        let (processes, threads) = (cursor.u32()?, cursor.u32()?);
        let (from, to) = (cursor.u32()?, cursor.u32()?);
        let (config_hash, instance) = (cursor.array()?, cursor.array()?);
        let known = cursor.array::<1>()?[0];
        let incarnation = cursor.array()?;
        let incarnation = match known {
            0 if incarnation == [0; 16] => None,
            1 => Some(incarnation),
            _ => return None,
        };
        let verdict = Verdict::decode(cursor.array::<1>()?[0])?;
        let job = cursor.text(JOB_BYTES_MAX)?;
        let build = cursor.text(JOB_BYTES_MAX)?;
        let text = cursor.text(TEXT_BYTES_MAX)?;
        cursor.0.is_empty().then_some(Self {
            processes,
            threads,
            from,
            to,
            config_hash,
            instance,
            incarnation,
            verdict,
            job,
            build,
            text,
        })
    }
}

/// Both openings and the secret: what every tag of one connection covers.
#[derive(Clone)]
pub(super) struct Transcript {
    mac: Hmac<Sha256>,
}

impl Transcript {
    pub(super) fn new(secret: &[u8], dialler: &Opening, listener: &Opening) -> Self {
        let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(secret)
            .expect("HMAC takes a key of any length, the empty one too");
        mac.update(&dialler.encode());
        mac.update(&listener.encode());
        Self { mac }
    }

    /// The tag under the dialler's own hello.
    pub(super) fn dialler_tag(&self, hello: &[u8]) -> [u8; TAG_BYTES] {
        self.dialler(hello).finalize().into_bytes().into()
    }

    /// Whether `tag` is the dialler's, compared in constant time.
    pub(super) fn dialler_proves(&self, hello: &[u8], tag: &[u8]) -> bool {
        self.dialler(hello).verify_slice(tag).is_ok()
    }

    /// The tag under the listener's answer to `asked`.
    pub(super) fn listener_tag(&self, asked: &[u8], answer: &[u8]) -> [u8; TAG_BYTES] {
        self.listener(asked, answer).finalize().into_bytes().into()
    }

    /// Whether `tag` is the listener's, compared in constant time.
    pub(super) fn listener_proves(&self, asked: &[u8], answer: &[u8], tag: &[u8]) -> bool {
        self.listener(asked, answer).verify_slice(tag).is_ok()
    }

    fn dialler(&self, hello: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.mac.clone();
        mac.update(LABEL_DIALLER);
        mac.update(hello);
        mac
    }

    fn listener(&self, asked: &[u8], answer: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.mac.clone();
        mac.update(LABEL_LISTENER);
        mac.update(&(asked.len() as u64).to_le_bytes());
        mac.update(asked);
        mac.update(answer);
        mac
    }
}

/// Appends a text with its length, cut at a character to at most `max` bytes.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str, max: usize) {
    let end = text.floor_char_boundary(max.min(text.len()));
    let length = u16::try_from(end).expect("every maximum here is below 64 KiB");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&text.as_bytes()[..end]);
}

/// Reads what the functions above wrote; every step is `None` when the bytes end.
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(count)?;
        self.0 = tail;
        Some(head)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn text(&mut self, max: usize) -> Option<String> {
        let length = usize::from(self.u16()?);
        (length <= max).then_some(())?;
        String::from_utf8(self.take(length)?.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests;
