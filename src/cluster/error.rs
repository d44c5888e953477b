//! What can go wrong while a cluster comes up, in the words its operator reads.
//!
//! Invariant: every message names the process or setting, what was found, what was expected and
//! what to do. No message holds the secret, and text that came from a peer is made printable.

use std::fmt;
use std::io;

/// Why a cluster did not come up.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The hostfile could not be read.
    #[error("cannot read the hostfile {path}: {source}")]
    HostfileUnreadable {
        /// The path as given.
        path: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// A line of the hostfile is not an address.
    #[error("hostfile{}, line {line}: {found:?} {reason}; expected one `host:port` a line, \
        as in `10.0.0.1:2101` (blank lines and `#` comments are fine)", in_file(.path))]
    HostfileLine {
        /// The path, when the text came from a file.
        path: Option<String>,
        /// Line number, from 1.
        line: usize,
        /// The offending text, cut to 80 characters.
        found: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A setting is missing, out of range, or contradicts another.
    #[error("{0}")]
    Usage(String),
    /// The secret that peers prove to each other is missing or too short.
    #[error("{0}; give every process the same secret of at least {min} bytes in `cluster.secret` \
        (one way to make one: `head -c 32 /dev/urandom | base64`)",
        min = super::SECRET_BYTES_MIN)]
    Secret(String),
    /// Our own address of the hostfile could not be listened on.
    #[error("process {process} cannot listen on {address}, its line of the hostfile: {source}; {}",
        listen_hint(.source, *.process))]
    Listen {
        /// This process.
        process: usize,
        /// Its address.
        address: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// An authenticated peer runs with something else than we do.
    #[error(
        "process {peer} ({address}) and this process {process} do not fit: {what} differs: \
        {theirs} there, {ours} here; {todo}"
    )]
    Mismatch {
        /// This process.
        process: usize,
        /// The other one.
        peer: usize,
        /// Where it is.
        address: Box<str>,
        /// What differs.
        what: &'static str,
        /// The value here.
        ours: String,
        /// The value there.
        theirs: String,
        /// What to do.
        todo: &'static str,
    },
    /// An authenticated peer took us for another process, or is where another should be.
    #[error(
        "{0}; the hostfiles differ or their lines are swapped: all processes need the same \
        addresses in the same order"
    )]
    Misdirected(String),
    /// Two running processes have the same index.
    #[error(
        "two processes were started with -p {process}: one at {first}, another at {second}; \
        every process of the cluster needs its own -p, from 0 to -n less one"
    )]
    Duplicate {
        /// The index both claim.
        process: usize,
        /// Where the first is.
        first: String,
        /// Where the second is.
        second: String,
    },
    /// Another process ended the bring-up and told us why.
    #[error("process {process} ended the start of the cluster: {reason}")]
    Ended {
        /// The process that found the reason.
        process: usize,
        /// Its own message.
        reason: String,
        /// Its exit code.
        code: i32,
    },
    /// A peer went away after everyone had agreed to start.
    #[error(
        "process {peer} ({address}) went away at the moment the cluster started; restart all \
        processes"
    )]
    LostAtStart {
        /// The peer.
        peer: usize,
        /// Its address of the hostfile.
        address: String,
    },
    /// Not everyone came in time.
    #[error(
        "process {process} gave up after {waited_ms} ms: the cluster is not complete, \
        missing: {missing}.{notes} Start what is missing; if it runs, check that all hostfiles \
        agree and that every process can reach the ports named in them"
    )]
    Deadline {
        /// This process.
        process: usize,
        /// How long it waited.
        waited_ms: u128,
        /// Who is missing, `index=address (what is known)`, separated by commas.
        missing: String,
        /// Connections that were turned away, as sentences, or nothing.
        notes: String,
    },
    /// The operating system refused something else.
    #[error("cluster: {doing}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// What came back.
        source: io::Error,
    },
}

impl ClusterError {
    /// The exit code of the process: 2 for a mistake in flags, hostfile or configuration (a
    /// restart cannot help), 1 for what a restart may heal.
    #[must_use]
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::HostfileUnreadable { .. }
            | Self::HostfileLine { .. }
            | Self::Usage(_)
            | Self::Secret(_)
            | Self::Mismatch { .. }
            | Self::Misdirected(_)
            | Self::Duplicate { .. } => 2,
            Self::Ended { code, .. } => *code,
            Self::Listen { .. }
            | Self::LostAtStart { .. }
            | Self::Deadline { .. }
            | Self::Io { .. } => 1,
        }
    }
}

fn in_file(path: &Option<String>) -> String {
    path.as_ref().map(|p| format!(" {p}")).unwrap_or_default()
}

fn listen_hint(source: &io::Error, process: usize) -> String {
    match source.kind() {
        io::ErrorKind::AddrInUse => format!(
            "something listens there already: another process with -p {process}, one whose \
             hostfile has its lines in another order, or another program"
        ),
        io::ErrorKind::AddrNotAvailable => format!(
            "that is not an address of this machine: is -p {process} right here, and is the \
             hostfile the same on all machines?"
        ),
        _ => "check the address and that the name resolves on this machine".to_owned(),
    }
}

/// Cuts foreign text to `max` characters and replaces what would disturb a terminal.
pub(super) fn printable(text: &str, max: usize) -> String {
    let clean = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut out: String = text.chars().take(max).map(clean).collect();
    if text.chars().nth(max).is_some() {
        out.push('…');
    }
    out
}

/// `index=address`, as every message names a process.
pub(super) struct Named<'a>(pub(super) usize, pub(super) &'a [String]);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.1.get(self.0).map_or("?", String::as_str);
        write!(f, "{}={}", self.0, address)
    }
}
