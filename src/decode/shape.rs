//! Knows the `source` block again: most of it is the same bytes in every record of a topic.
//!
//! Keeps the last block that was walked in full. Members whose values have not changed so far are
//! compared as one piece; of the others only the value is walked. Anything unexpected is `None`,
//! and the block is walked in full, so it says no more and no less than the slow way.
//!
//! Invariant: bytes pass unwalked only when they equal bytes that were walked, up to the end of a
//! value (`,` or `}` follows). It cannot tell what a member means.

use super::scan::{Broken, Scanner};

/// Blocks beyond this are not kept.
const BYTES_MAX: usize = 4096;
/// Misses that are not made up for by as many hits, after which it gives up.
const MISSES_MAX: u32 = 64;

#[derive(Clone, Copy, Debug)]
struct Member {
    /// Where the piece before the value begins: from the end of the member before.
    head: usize,
    /// Where the value begins, and ends.
    value: usize,
    end: usize,
    /// Whether the value was seen to change.
    varies: bool,
    /// Number of the name among those that are asked for.
    name: usize,
}

/// An object of one topic, as it was last walked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shape {
    text: Vec<u8>,
    members: Vec<Member>,
    misses: u32,
}

/// The raw values of the names that were asked for; of a name that comes twice, the last.
pub(crate) type Values<'a, const N: usize> = [Option<&'a [u8]>; N];

impl Shape {
    /// Keeps nothing: for one record.
    pub(crate) fn none() -> Self {
        Shape {
            misses: MISSES_MAX,
            ..Shape::default()
        }
    }

    /// Reads the object that `scanner` stands at, to its end; always asked for the same names.
    pub(crate) fn read<'a, const N: usize>(
        &mut self,
        scanner: &mut Scanner<'a>,
        names: &[&[u8]; N],
    ) -> Result<Values<'a, N>, Broken> {
        if let Some((values, at)) = self.again(scanner) {
            self.misses = self.misses.saturating_sub(1);
            *scanner = Scanner::starting_at(scanner.text(), at);
            return Ok(values);
        }
        self.members.clear();
        let start = scanner.at();
        let walked = self.walk(scanner, names);
        let text = &scanner.text()[start..scanner.at()];
        if walked.is_err() || text.len() > BYTES_MAX || self.misses >= MISSES_MAX {
            self.members.clear();
        } else {
            self.misses += 1;
            self.text.clear();
            self.text.extend_from_slice(text);
        }
        walked
    }

    fn walk<'a, const N: usize>(
        &mut self,
        scanner: &mut Scanner<'a>,
        names: &[&[u8]; N],
    ) -> Result<Values<'a, N>, Broken> {
        let mut values = [None; N];
        let start = scanner.at();
        let mut head = 0;
        let mut members = scanner.object()?;
        while let Some(name) = scanner.member(&mut members)? {
            scanner.peek();
            let at = scanner.at() - start;
            let value = scanner.value()?;
            let end = scanner.at() - start;
            let name = names.iter().position(|of| *of == name).unwrap_or(N);
            if let Some(slot) = values.get_mut(name) {
                *slot = Some(value);
            }
            if self.misses < MISSES_MAX {
                self.members.push(Member {
                    head,
                    value: at,
                    end,
                    varies: false,
                    name,
                });
            }
            head = end;
        }
        Ok(values)
    }

    /// The values, and where the object ends, when it has the members of the last one.
    fn again<'a, const N: usize>(
        &mut self,
        scanner: &Scanner<'a>,
    ) -> Option<(Values<'a, N>, usize)> {
        let (text, mut at) = (scanner.text(), scanner.at());
        let mut values = [None; N];
        let mut index = 0;
        while index < self.members.len() {
            let run = self.members[index..]
                .iter()
                .take_while(|m| !m.varies)
                .count();
            let first = self.members[index];
            if run == 0 {
                let head = &self.text[first.head..first.value];
                if !text[at..].starts_with(head) {
                    return None;
                }
                let mut inner = Scanner::starting_at(text, at + head.len());
                let value = inner.value().ok()?;
                at = inner.at();
                if let Some(slot) = values.get_mut(first.name) {
                    *slot = Some(value);
                }
                index += 1;
                continue;
            }
            let members = &self.members[index..index + run];
            let same = &self.text[first.head..members[run - 1].end];
            if !starts_with(&text[at..], same) {
                self.find_change(index, &text[at..])?;
                continue;
            }
            for member in members {
                if let Some(slot) = values.get_mut(member.name) {
                    *slot =
                        Some(&text[at + member.value - first.head..][..member.end - member.value]);
                }
            }
            at += same.len();
            index += run;
        }
        (!self.members.is_empty() && text.get(at) == Some(&b'}')).then_some((values, at + 1))
    }

    /// Finds the member from `index` on whose value is no longer the same.
    #[cold]
    fn find_change(&mut self, index: usize, text: &[u8]) -> Option<()> {
        let from = self.members[index].head;
        let changed = |member: &&mut Member| !starts_with(text, &self.text[from..member.end]);
        let member = self.members[index..].iter_mut().find(changed)?;
        member.varies = true;
        Some(())
    }
}

/// Whether `text` starts with `same` and a value ends there.
fn starts_with(text: &[u8], same: &[u8]) -> bool {
    let rest = text.strip_prefix(same);
    rest.is_some_and(|rest| matches!(rest.first(), Some(b',' | b'}')))
}

#[cfg(test)]
mod tests {
    use super::Shape;
    use crate::decode::scan::Scanner;
    use proptest::prelude::{Strategy, prop, prop_assert_eq, proptest};

    const NAMES: [&[u8]; 2] = [b"a", b"c"];

    fn value() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec![
            "1",
            "12",
            "null",
            "\"x\"",
            "\"x\\\"y\"",
            "{\"a\":[1,2]}",
            "",
            "\"",
            "01",
            " 1 ",
            "[1",
        ])
    }

    fn object() -> impl Strategy<Value = String> {
        let name = prop::sample::select(vec!["a", "b", "c"]);
        let member = (name, value()).prop_map(|(name, value)| format!("\"{name}\":{value}"));
        let end = prop::sample::select(vec!["}", "", ",}", " }", "}x"]);
        (prop::collection::vec(member, 0..4), end)
            .prop_map(|(members, end)| format!("{{{}{end}", members.join(",")))
    }

    proptest! {
        #[test]
        fn it_says_what_the_slow_way_says(objects in prop::collection::vec(object(), 1..30)) {
            let mut shape = Shape::default();
            for text in &objects {
                for _ in 0..2 {
                    let mut slow = Scanner::new(text.as_bytes());
                    let mut quick = slow.clone();
                    let expected = Shape::default().read(&mut slow, &NAMES);
                    prop_assert_eq!(shape.read(&mut quick, &NAMES), expected);
                    if expected.is_ok() {
                        prop_assert_eq!(quick.at(), slow.at());
                    }
                }
            }
        }
    }

    #[test]
    fn values_that_vary_are_read_anew() {
        let mut shape = Shape::default();
        for number in 0..300 {
            let text = format!(r#"{{"a":{number},"b":"same","c":"{}"}}"#, number / 7);
            let mut scanner = Scanner::new(text.as_bytes());
            let [a, c] = shape.read(&mut scanner, &NAMES).expect("good");
            assert_eq!(a, Some(number.to_string().as_bytes()));
            assert_eq!(c, Some(format!("\"{}\"", number / 7).as_bytes()));
            assert_eq!(scanner.at(), text.len());
        }
        assert!(shape.misses <= 1, "it is found again");
    }
}
