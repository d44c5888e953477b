//! The part of Java's regular expressions that topic routers use: literal text, `.*`, `.+`,
//! `[^.]+`, `[^.]*`, each bare or in a group.
//!
//! Invariant: an expression with anything else gives nothing, never a wrong topic.

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Text(String),
    /// Any characters: whether a dot is one, how many at least, whether it is captured.
    Any {
        dots: bool,
        least: usize,
        group: bool,
    },
}

/// What a router makes of a topic: the same when the expression does not match all of it. Nothing
/// when the expression or the replacement is beyond this module.
pub(super) fn route(regex: &str, replacement: &str, topic: &str) -> Option<String> {
    let tokens = tokens(regex)?;
    let mut groups = Vec::new();
    if !matches(&tokens, topic, &mut groups) {
        return Some(topic.to_owned());
    }
    let mut out = String::new();
    let mut rest = replacement.chars();
    while let Some(c) = rest.next() {
        match c {
            '$' => {
                let place = rest.next()?.to_digit(10)?;
                let group = match place {
                    0 => topic,
                    place => groups.get(place as usize - 1)?,
                };
                out.push_str(group);
            }
            '\\' => out.push(rest.next()?),
            c => out.push(c),
        }
    }
    Some(out)
}

fn tokens(regex: &str) -> Option<Vec<Token>> {
    const ANY: [(&str, bool, usize); 4] = [
        (".*", true, 0),
        (".+", true, 1),
        ("[^.]*", false, 0),
        ("[^.]+", false, 1),
    ];
    let mut tokens = Vec::new();
    let mut text = String::new();
    let mut rest = regex;
    while let Some(c) = rest.chars().next() {
        let any = ANY.iter().find_map(|(pattern, dots, least)| {
            let bare = rest.strip_prefix(pattern).map(|after| (after, false));
            let in_group = || {
                let inner = rest.strip_prefix('(')?.strip_prefix(pattern)?;
                inner.strip_prefix(')').map(|after| (after, true))
            };
            let (after, group) = bare.or_else(in_group)?;
            let (dots, least) = (*dots, *least);
            Some((after, Token::Any { dots, least, group }))
        });
        if let Some((after, token)) = any {
            if !text.is_empty() {
                tokens.push(Token::Text(std::mem::take(&mut text)));
            }
            tokens.push(token);
            rest = after;
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            '\\' => {
                let escaped = rest.chars().next().filter(|c| !c.is_alphanumeric())?;
                text.push(escaped);
                rest = &rest[escaped.len_utf8()..];
            }
            // A dot that was not escaped is meant as one, and matches one.
            c if !"*+?[](){}|^$".contains(c) => text.push(c),
            _ => return None,
        }
    }
    if !text.is_empty() {
        tokens.push(Token::Text(text));
    }
    Some(tokens)
}

fn matches<'t>(tokens: &[Token], topic: &'t str, groups: &mut Vec<&'t str>) -> bool {
    let Some((first, others)) = tokens.split_first() else {
        return topic.is_empty();
    };
    match first {
        Token::Text(text) => topic
            .strip_prefix(text.as_str())
            .is_some_and(|rest| matches(others, rest, groups)),
        Token::Any { dots, least, group } => {
            let whole = match dots {
                true => topic.len(),
                false => topic.find('.').unwrap_or(topic.len()),
            };
            let known = groups.len();
            // Greedy: the longest first.
            for end in (0..=whole).rev().filter(|end| topic.is_char_boundary(*end)) {
                if topic[..end].chars().count() < *least {
                    break;
                }
                if *group {
                    groups.push(&topic[..end]);
                }
                if matches(others, &topic[end..], groups) {
                    return true;
                }
                groups.truncate(known);
            }
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::route;

    #[test]
    fn routers_that_are_understood_and_others() {
        let cases = [
            (".*", "snap_g1", Some("snap_g1")),
            (r"app\.(.*)", "snap_g1.$1", Some("snap_g1.public.hello")),
            (r"(.*)\.(.*)", "$2", Some("hello")),
            (r"([^.]+)\.([^.]+)\.([^.]+)", "$3-$1", Some("hello-app")),
            (r"([^.]+)\.([^.]+)", "$1", Some("app.public.hello")),
            ("app.public.hello", "x$0", Some("xapp.public.hello")),
            ("other", "x", Some("app.public.hello")),
            (r"app\.(public|other)\.(.*)", "$2", None),
            (r"\w+", "x", None),
            ("(.*)", "${name}", None),
            ("(.*)", "$2", None),
        ];
        for (regex, replacement, expected) in cases {
            let found = route(regex, replacement, "app.public.hello");
            assert_eq!(found.as_deref(), expected, "{regex} {replacement}");
        }
    }
}
