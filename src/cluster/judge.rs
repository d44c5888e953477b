//! Whether a proved peer belongs to this cluster: pure decisions over two hellos.
//!
//! Invariant: both sides run [`Identity::fits`] on the other's hello, so a difference is an error
//! on both, each naming both values.

use std::net::SocketAddr;

use super::error::{ClusterError, printable};
use super::wire::{Hello, Verdict};

/// What this process is and believes.
pub(super) struct Identity {
    pub(super) job: String,
    pub(super) build: String,
    pub(super) config_hash: [u8; 32],
    pub(super) threads: usize,
    pub(super) process: usize,
    pub(super) hosts: Vec<String>,
    pub(super) secret: Vec<u8>,
    pub(super) instance: [u8; 16],
}

/// What a listener decides about a dialler.
#[derive(Debug)]
pub(super) enum Judged {
    /// Keep the connection.
    Fits,
    /// One of both knows another incarnation, or none: that passes.
    Later,
    /// The cluster cannot come up.
    Never(ClusterError),
}

/// A setting that two processes do not share.
struct Difference {
    what: &'static str,
    ours: String,
    theirs: String,
    todo: &'static str,
}

impl Identity {
    pub(super) fn processes(&self) -> usize {
        self.hosts.len()
    }

    /// Our hello to process `to`.
    pub(super) fn hello(
        &self,
        to: usize,
        incarnation: Option<[u8; 16]>,
        verdict: Verdict,
        text: String,
    ) -> Hello {
        // All of them were checked against u32 when the settings were.
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        Hello {
            processes: number(self.processes()),
            threads: number(self.threads),
            from: number(self.process),
            to: number(to),
            config_hash: self.config_hash,
            instance: self.instance,
            incarnation,
            verdict,
            job: self.job.clone(),
            build: self.build.clone(),
            text,
        }
    }

    /// Whether the peer runs with the same settings, and is `peer`.
    pub(super) fn fits(
        &self,
        theirs: &Hello,
        peer: usize,
        address: &str,
    ) -> Result<(), ClusterError> {
        let (process, from) = (self.process, theirs.from as usize);
        if let Some(Difference {
            what,
            ours,
            theirs,
            todo,
        }) = self.difference(theirs)
        {
            let (peer, address) = (from, address.into());
            return Err(ClusterError::Mismatch {
                process,
                peer,
                address,
                what,
                ours,
                theirs,
                todo,
            });
        }
        if from != peer {
            return Err(ClusterError::Misdirected(format!(
                "process {process} dialled process {peer} at {address}, and process {from} answered"
            )));
        }
        Ok(())
    }

    /// The first setting that must be equal and is not.
    fn difference(&self, theirs: &Hello) -> Option<Difference> {
        let differs = |what, todo, ours: String, theirs: String| {
            Some(Difference {
                what,
                ours,
                theirs,
                todo,
            })
        };
        if theirs.job != self.job {
            let (a, b) = (
                format!("{:?}", self.job),
                format!("{:?}", printable(&theirs.job, 80)),
            );
            return differs(
                "the job",
                "does the hostfile name another job's processes?",
                a,
                b,
            );
        }
        if theirs.build != self.build {
            let (a, b) = (self.build.clone(), printable(&theirs.build, 80));
            return differs(
                "the program's version",
                "run the same build everywhere",
                a,
                b,
            );
        }
        if theirs.config_hash != self.config_hash {
            let (a, b) = (hex(&self.config_hash[..8]), hex(&theirs.config_hash[..8]));
            let todo = "compare the two configuration files (hashes, first 8 bytes)";
            return differs("the configuration", todo, a, b);
        }
        if theirs.processes as usize != self.processes() {
            let (a, b) = (
                format!("-n {}", self.processes()),
                format!("-n {}", theirs.processes),
            );
            return differs(
                "the number of processes",
                "give every process the same -n",
                a,
                b,
            );
        }
        if theirs.threads as usize != self.threads {
            let (a, b) = (
                format!("-w {}", self.threads),
                format!("-w {}", theirs.threads),
            );
            return differs(
                "the number of workers",
                "give every process the same -w",
                a,
                b,
            );
        }
        None
    }

    /// Decides about a dialler. `known` is the living connection to the process it says it is.
    pub(super) fn judge(
        &self,
        theirs: &Hello,
        address: SocketAddr,
        incarnation: Option<[u8; 16]>,
        known: Option<([u8; 16], SocketAddr)>,
    ) -> Judged {
        let (from, me) = (theirs.from as usize, self.process);
        if let Err(error) = self.fits(theirs, from, &address.to_string()) {
            return Judged::Never(error);
        }
        if theirs.to as usize != me {
            return Judged::Never(ClusterError::Misdirected(format!(
                "process {from} ({address}) dialled process {}, and reached process {me} at {}",
                theirs.to, self.hosts[me]
            )));
        }
        if from == me {
            return Judged::Never(self.duplicate(me, self.hosts[me].clone(), address));
        }
        if from < me || from >= self.processes() {
            return Judged::Never(ClusterError::Misdirected(format!(
                "process {from} ({address}) dialled process {me}; only higher ones dial lower ones"
            )));
        }
        if me > 0 && (incarnation.is_none() || theirs.incarnation != incarnation) {
            return Judged::Later;
        }
        match known {
            Some((instance, first)) if instance != theirs.instance => {
                Judged::Never(self.duplicate(from, first.to_string(), address))
            }
            _ => Judged::Fits,
        }
    }

    fn duplicate(&self, process: usize, first: String, second: SocketAddr) -> ClusterError {
        ClusterError::Duplicate {
            process,
            first,
            second: second.to_string(),
        }
    }
}

/// Lower-case hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::{Hello, Identity, Judged, Verdict};

    fn identity(process: usize) -> Identity {
        Identity {
            job: "hello".to_owned(),
            build: "0.1.0".to_owned(),
            config_hash: [7; 32],
            threads: 2,
            process,
            hosts: ["a:1", "b:1", "c:1"].map(str::to_owned).to_vec(),
            secret: Vec::new(),
            instance: [u8::try_from(process).unwrap(); 16],
        }
    }

    fn judge(me: usize, change: impl FnOnce(&mut Hello)) -> Judged {
        judge_known(me, None, change)
    }

    fn judge_known(me: usize, known: Option<u8>, change: impl FnOnce(&mut Hello)) -> Judged {
        let mut theirs = identity(2).hello(me, Some([1; 16]), Verdict::Asking, String::new());
        change(&mut theirs);
        let address = "10.0.0.9:5000".parse().unwrap();
        let known = known.map(|byte| ([byte; 16], "10.0.0.8:4000".parse().unwrap()));
        identity(me).judge(&theirs, address, Some([1; 16]), known)
    }

    fn never(judged: Judged) -> String {
        match judged {
            Judged::Never(error) => {
                assert_eq!(error.exit_code(), 2);
                error.to_string()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_differs_is_named_with_both_values() {
        assert!(matches!(judge(0, |_| ()), Judged::Fits));
        type Change = fn(&mut Hello);
        let changes: [(Change, &str, &str); 5] = [
            (
                |h| h.job = "other".to_owned(),
                "\"other\" there, \"hello\" here",
                "job",
            ),
            (
                |h| h.build = "9.9.9".to_owned(),
                "9.9.9 there, 0.1.0 here",
                "same build",
            ),
            (
                |h| h.config_hash = [8; 32],
                "0808080808080808 there, 0707",
                "configuration files",
            ),
            (|h| h.processes = 4, "-n 4 there, -n 3 here", "processes"),
            (|h| h.threads = 1, "-w 1 there, -w 2 here", "workers"),
        ];
        for (change, both, hint) in changes {
            let message = never(judge(0, change));
            assert!(
                message.contains(both) && message.contains(hint),
                "{message}"
            );
            assert!(message.contains("process 2 (10.0.0.9:5000)"), "{message}");
        }
    }

    #[test]
    fn wrong_turns_are_named() {
        assert!(never(judge(0, |h| h.to = 1)).contains("dialled process 1, and reached process 0"));
        assert!(never(judge(1, |h| h.from = 0)).contains("only higher ones"));
        assert!(never(judge(1, |h| h.from = 3)).contains("only higher ones"));
        assert!(never(judge(1, |h| h.from = 1)).contains("started with -p 1"));
        let answer = identity(1).hello(2, None, Verdict::Accepted, String::new());
        let message = identity(2).fits(&answer, 0, "a:1").unwrap_err().to_string();
        assert!(
            message.contains("dialled process 0 at a:1, and process 1 answered"),
            "{message}"
        );
    }

    #[test]
    fn incarnations_must_agree_and_second_processes_are_refused() {
        assert!(matches!(
            judge(1, |h| h.incarnation = Some([2; 16])),
            Judged::Later
        ));
        assert!(matches!(judge(1, |h| h.incarnation = None), Judged::Later));
        // Process 0 is the one who tells it.
        assert!(matches!(judge(0, |h| h.incarnation = None), Judged::Fits));
        assert!(
            matches!(judge_known(1, Some(2), |_| ()), Judged::Fits),
            "the same one again"
        );
        let message = never(judge_known(0, Some(9), |_| ()));
        assert!(message.contains("-p 2: one at 10.0.0.8:4000, another at 10.0.0.9:5000"));
    }
}
