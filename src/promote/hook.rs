//! Runs the hook of a promotion: a command that swaps a view or an alias.
//!
//! Invariant: it may be run again with the same promotion id, after a crash or a lost answer, and
//! must then do the same thing.
//!
//! It cannot end what the hook has started and left behind: after the timeout the hook itself is
//! killed, not its children.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Lines of its output that are kept.
const LINES_MAX: usize = 20;
/// Bytes of each of them, at most.
const LINE_BYTES_MAX: usize = 300;
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long its output may stay open when it has ended.
const OUTPUT_WAIT: Duration = Duration::from_millis(500);

/// The command and how long it may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Then it is killed, and the promotion has failed.
    pub timeout: Duration,
}

/// What the hook is told, in its environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// `HEADWATER_PROMOTION_ID`: the same for the same promotion.
    pub id: String,
    /// `HEADWATER_PROMOTION_GENERATION`.
    pub generation: String,
    /// `HEADWATER_PROMOTION_JOB`.
    pub job: String,
    /// `HEADWATER_PROMOTION_MANIFEST`: the checkpoint that contains the promotion.
    pub manifest: u64,
    /// `HEADWATER_PROMOTION_BY`.
    pub by: String,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Whether its exit code was 0.
    pub good: bool,
    /// How it ended and the last lines of its output.
    pub said: String,
}

impl Hook {
    /// Runs it to its end. Blocks.
    pub fn run(&self, told: &Told) -> Ended {
        let bad = |said: String| Ended { good: false, said };
        let Some((program, arguments)) = self.argv.split_first() else {
            return bad("promote.hook is empty".to_owned());
        };
        let started = Command::new(program)
            .args(arguments)
            .env("HEADWATER_PROMOTION_ID", &told.id)
            .env("HEADWATER_PROMOTION_GENERATION", &told.generation)
            .env("HEADWATER_PROMOTION_JOB", &told.job)
            .env("HEADWATER_PROMOTION_MANIFEST", told.manifest.to_string())
            .env("HEADWATER_PROMOTION_BY", &told.by)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = match started {
            Ok(child) => child,
            Err(error) => return bad(format!("{program} cannot be run: {error}")),
        };
        let lines = listen(&mut child);
        let ended = self.wait(&mut child);
        let how = match &ended {
            Ok(Some(status)) => status.to_string(),
            Ok(None) => format!("killed after {} s", self.timeout.as_secs()),
            Err(error) => format!("cannot be waited for: {error}"),
        };
        let good = matches!(ended, Ok(Some(status)) if status.success());
        let last = last_lines(&lines);
        let said = std::iter::once(how)
            .chain(last)
            .collect::<Vec<_>>()
            .join("\n");
        Ended { good, said }
    }

    /// Its end; none when it was killed.
    fn wait(&self, child: &mut Child) -> std::io::Result<Option<ExitStatus>> {
        let until = Instant::now() + self.timeout;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() >= until {
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// Lines of both outputs, as they come.
fn listen(child: &mut Child) -> Receiver<String> {
    let (told, lines) = channel();
    let outputs: [Option<Box<dyn Read + Send>>; 2] = [
        child.stdout.take().map(|out| Box::new(out) as _),
        child.stderr.take().map(|out| Box::new(out) as _),
    ];
    for output in outputs.into_iter().flatten() {
        let told = told.clone();
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut line = Vec::new();
            // Bounded: what does not end its line is cut, not kept.
            while let Ok(read) = output.by_ref().take(1 << 16).read_until(b'\n', &mut line) {
                if read == 0 {
                    break;
                }
                let text = String::from_utf8_lossy(&line);
                let text: String = text.trim_end().chars().take(LINE_BYTES_MAX).collect();
                line.clear();
                if told.send(text).is_err() {
                    break;
                }
            }
        });
    }
    lines
}

fn last_lines(lines: &Receiver<String>) -> VecDeque<String> {
    let until = Instant::now() + OUTPUT_WAIT;
    let mut last = VecDeque::new();
    // It ends when both outputs are closed; a child of the hook may hold them open.
    while let Ok(line) = lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
        if last.len() == LINES_MAX {
            last.pop_front();
        }
        last.push_back(line);
    }
    last
}

#[cfg(test)]
mod tests {
    use super::{Hook, Told};
    use std::time::{Duration, Instant};

    fn hook(script: &str, timeout: Duration) -> Hook {
        let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
        Hook { argv, timeout }
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn it_is_told_what_is_promoted_and_its_last_lines_are_kept() {
        let told = Told {
            id: "p1".to_owned(),
            generation: "g2".to_owned(),
            job: "hello".to_owned(),
            manifest: 7,
            by: "me".to_owned(),
        };
        let script = "echo $HEADWATER_PROMOTION_ID $HEADWATER_PROMOTION_GENERATION \
            $HEADWATER_PROMOTION_JOB $HEADWATER_PROMOTION_MANIFEST $HEADWATER_PROMOTION_BY";
        let ended = hook(script, LONG).run(&told);
        assert!(ended.good, "{}", ended.said);
        assert!(ended.said.ends_with("\np1 g2 hello 7 me"), "{}", ended.said);
        let many = hook("seq 1 1000; echo last >&2; exit 3", LONG).run(&told);
        assert!(!many.good);
        assert!(many.said.contains("exit status: 3"), "{}", many.said);
        assert!(many.said.contains("\n1000"), "{}", many.said);
        assert!(!many.said.contains("\n900\n"), "{}", many.said);
    }

    #[test]
    fn what_cannot_be_run_or_does_not_end_has_failed() {
        let told = Told::default();
        let argv = vec!["/nowhere/at-all".to_owned()];
        let timeout = LONG;
        let lost = Hook { argv, timeout }.run(&told);
        assert!(!lost.good && lost.said.contains("cannot be run"));
        let argv = Vec::new();
        assert!(!Hook { argv, timeout }.run(&told).good);
        let begun = Instant::now();
        // Its child keeps the output open.
        let slow = hook("sleep 300 & sleep 300", Duration::from_millis(100)).run(&told);
        assert!(!slow.good && slow.said.contains("killed"), "{}", slow.said);
        assert!(begun.elapsed() < LONG);
    }
}
