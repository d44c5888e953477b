//! The nearest known word to one that a person mistyped.
//!
//! Cannot judge meaning: it counts edits (insert, delete, replace, swap of neighbours).

/// The known word with the fewest edits, if it is near enough to be meant.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (edits(&lower, candidate), candidate))
        .min()
        .filter(|(distance, candidate)| {
            *distance
                <= candidate
                    .chars()
                    .count()
                    .max(lower.chars().count())
                    .div_ceil(2)
        })
        .map(|(_, candidate)| candidate)
}

/// Optimal string alignment distance.
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::{edits, nearest};

    #[test]
    fn counts_edits() {
        for (a, b, distance) in [
            ("", "", 0),
            ("ttl", "ttl", 0),
            ("tlt", "ttl", 1),
            ("tt", "ttl", 1),
            ("ttll", "ttl", 1),
            ("xyz", "ttl", 3),
            ("", "ttl", 3),
        ] {
            assert_eq!(edits(a, b), distance, "{a} {b}");
            assert_eq!(edits(b, a), distance, "{b} {a}");
        }
    }

    #[test]
    fn suggests_only_what_is_near() {
        let known = ["start_margin", "ttl", "keep_markers"];
        assert_eq!(nearest("start_margn", known), Some("start_margin"));
        assert_eq!(nearest("TTL", known), Some("ttl"));
        assert_eq!(nearest("qqqqqqqq", known), None);
    }
}
