//! What `headwater check` says: findings, as a table for a person and as JSON for a program.
//!
//! Invariant: both forms come from the same [`Findings`], and the exit code is that of the worst.

use crate::error::{Error, ErrorKind};
use serde::Serialize;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// As it should be.
    Ok,
    /// The job would run; a person should look.
    Warning,
    /// The job would not start, or would stop.
    Error,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Warning => "warning",
            Level::Error => "error",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// What was looked at: `topic app.public.hello`.
    pub thing: String,
    /// What was found, on one line.
    pub found: String,
    /// What was expected, on one line.
    pub expected: Option<String>,
    /// Details and what to do, one a line.
    pub advice: Vec<String>,
    /// The exit code that it alone would give.
    pub exit_code: i32,
}

impl Finding {
    /// A good one.
    pub fn ok(thing: impl Into<String>, found: impl Into<String>) -> Self {
        Finding {
            level: Level::Ok,
            thing: thing.into(),
            found: found.into(),
            expected: None,
            advice: Vec::new(),
            exit_code: 0,
        }
    }

    /// One that a person should look at.
    pub fn warning(thing: impl Into<String>, found: impl Into<String>, advice: &[&str]) -> Self {
        Finding {
            level: Level::Warning,
            advice: advice.iter().map(|line| (*line).to_owned()).collect(),
            ..Finding::ok(thing, found)
        }
    }

    /// One that stops the job, or would let wrong rows through; `kind` gives the exit code.
    pub fn bad(kind: ErrorKind, thing: impl Into<String>, found: impl Into<String>) -> Self {
        Finding {
            level: Level::Error,
            exit_code: kind.exit_code(),
            ..Finding::ok(thing, found)
        }
    }

    /// Says what was expected instead.
    #[must_use]
    pub fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(expected.into());
        self
    }

    /// Adds a line of what to do.
    #[must_use]
    pub fn to_do(mut self, line: impl Into<String>) -> Self {
        self.advice.push(line.into());
        self
    }

    /// What an error says, about `thing`.
    pub fn error(thing: impl Into<String>, error: &Error) -> Self {
        let mut lines = error.text.lines();
        let found = lines.next().unwrap_or_default();
        let mut finding = Finding::bad(error.kind, thing, found);
        for line in lines.map(str::trim_start) {
            match line.strip_prefix("expected  ") {
                Some(expected) if finding.expected.is_none() => {
                    finding.expected = Some(expected.trim_start().to_owned());
                }
                _ => finding.advice.push(line.to_owned()),
            }
        }
        finding
    }
}

/// All of them, in the order in which they were looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings(pub Vec<Finding>);

#[derive(Serialize)]
struct Json<'f> {
    errors: usize,
    warnings: usize,
    findings: &'f [Finding],
}

impl Findings {
    fn count(&self, level: Level) -> usize {
        self.0.iter().filter(|one| one.level == level).count()
    }

    /// One JSON object, on one line.
    pub fn json(&self) -> String {
        let json = Json {
            errors: self.count(Level::Error),
            warnings: self.count(Level::Warning),
            findings: &self.0,
        };
        serde_json::to_string(&json).expect("plain numbers and text")
    }

    /// Level, thing and what was found, details below; with a line break at the end.
    pub fn table(&self) -> String {
        let width = self.0.iter().map(|one| one.thing.chars().count()).max();
        let width = width.unwrap_or(0);
        let mut out = String::new();
        for one in &self.0 {
            let line = format!(
                "{:<8} {:<width$}  {}",
                one.level.word(),
                one.thing,
                one.found
            );
            out.push_str(line.trim_end());
            out.push('\n');
            let expected = one.expected.iter().map(|text| format!("expected  {text}"));
            for line in expected.chain(one.advice.iter().cloned()) {
                out.push_str(&format!("{:<8}   {line}\n", ""));
            }
        }
        out
    }

    /// Good when there is no error. Of several errors a refusal is the worst, then a setting that
    /// is wrong, then what is broken or away.
    ///
    /// # Errors
    /// With the kind of the worst finding.
    pub fn verdict(&self) -> Result<(), Error> {
        let worst = self.0.iter().map(|one| one.exit_code).max().unwrap_or(0);
        let kind = match worst {
            0 => return Ok(()),
            4 => ErrorKind::Refused,
            2 => ErrorKind::Usage,
            _ => ErrorKind::Failed,
        };
        let (errors, warnings) = (self.count(Level::Error), self.count(Level::Warning));
        let counted = |count, word| match count {
            1 => format!("1 {word}"),
            _ => format!("{count} {word}s"),
        };
        Err(Error::new(
            kind,
            format!(
                "the check found {} and {}",
                counted(errors, "error"),
                counted(warnings, "warning")
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::{Finding, Findings};
    use crate::error::{Error, ErrorKind};

    #[test]
    fn the_worst_gives_the_exit_code_and_both_forms_say_all() {
        let ok = Finding::ok("topic a", "4 partitions");
        let warning = Finding::warning("topic b", "empty", &["wait"]);
        let failed = Finding::error("sink", &Error::failed("away").line("start it"));
        let refused = Finding::error("key", &Error::refused("differs").line("set `key`"));
        let usage = Finding::error("topic c", &Error::usage("missing"));
        let kind = |findings: &[&Finding]| {
            let all = Findings(findings.iter().map(|one| (*one).clone()).collect());
            all.verdict().map_err(|error| error.kind)
        };
        assert_eq!(kind(&[&ok, &warning]), Ok(()));
        assert_eq!(kind(&[&failed, &ok]), Err(ErrorKind::Failed));
        assert_eq!(kind(&[&failed, &usage]), Err(ErrorKind::Usage));
        assert_eq!(kind(&[&usage, &refused, &failed]), Err(ErrorKind::Refused));
        let all = Findings(vec![ok, warning, failed]);
        assert_eq!(
            all.table(),
            "ok       topic a  4 partitions\n\
             warning  topic b  empty\n           wait\n\
             error    sink     away\n           start it\n"
        );
        let json: serde_json::Value = serde_json::from_str(&all.json()).expect("JSON");
        assert_eq!((&json["errors"], &json["warnings"]), (&1.into(), &1.into()));
        assert_eq!(json["findings"][2]["advice"][0], "start it");
        let told = all.verdict().expect_err("an error").text;
        assert_eq!(told, "the check found 1 error and 1 warning");
    }
}
