//! What keeps a run waiting, told once it lasts: a broker that is away, a target that is retried.
//!
//! Pure: it is handed what is wrong just now and the time, and gives the lines to say. It cannot
//! tell whether waiting helps.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A trouble that is shorter is not worth a line.
const LASTS: Duration = Duration::from_secs(3);

/// Who is in trouble since when, and whether that was told.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    known: BTreeMap<String, (Instant, bool)>,
}

impl Troubles {
    /// Takes what is wrong now, by who is in trouble; gives what to say.
    pub(super) fn look(&mut self, now: Instant, wrong: &BTreeMap<String, String>) -> Vec<String> {
        let mut lines = Vec::new();
        self.known.retain(|who, (_, told)| {
            let over = !wrong.contains_key(who);
            if over && *told {
                lines.push(format!("note: {who}: all is well again"));
            }
            !over
        });
        for (who, what) in wrong {
            let (since, told) = self.known.entry(who.clone()).or_insert((now, false));
            if !*told && now.duration_since(*since) >= LASTS {
                *told = true;
                lines.push(format!("note: waiting, {who}: {what}"));
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::{LASTS, Troubles};
    use std::collections::BTreeMap;
    use std::time::{Duration, Instant};

    #[test]
    fn what_lasts_is_told_once_and_so_is_its_end() {
        let (mut troubles, start) = (Troubles::default(), Instant::now());
        let wrong = BTreeMap::from([("target".to_owned(), "away".to_owned())]);
        let none = BTreeMap::new();
        assert!(troubles.look(start, &wrong).is_empty());
        assert!(troubles.look(start + LASTS / 2, &none).is_empty(), "short");
        let later = start + LASTS;
        assert!(troubles.look(later, &wrong).is_empty(), "begins anew");
        let said = troubles.look(later + LASTS, &wrong);
        assert_eq!(said, ["note: waiting, target: away"]);
        let second = Duration::from_secs(1);
        assert!(troubles.look(later + LASTS + second, &wrong).is_empty());
        let said = troubles.look(later + LASTS + second, &none);
        assert_eq!(said, ["note: target: all is well again"]);
        assert!(troubles.look(later + 2 * LASTS, &none).is_empty());
    }
}
