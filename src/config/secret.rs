//! Text that is, or may hold, a secret: `"${ENV_VAR}"`, `"@file"`, or a URL with a password.
//!
//! Invariant: neither [`Secret`] nor [`Plain`] shows a secret through `Display` or `Debug`; only
//! [`Plain::expose`] gives it. References are followed late, by [`Secret::resolve`], so that
//! `headwater config` never touches them. Nothing wipes memory.

use crate::error::Error;
use std::fmt;

/// What stands where a secret was.
pub const REDACTED: &str = "<redacted>";

/// A setting as written, not yet followed.
#[derive(Clone)]
pub struct Secret {
    written: String,
    /// The setting, for messages: `sink.url`.
    key: String,
    /// Whether a literal is secret as a whole, or only where it is a URL with a password.
    whole: bool,
}

/// A setting's value. Its `Display` is that of the [`Secret`] it came from.
#[derive(Clone, PartialEq, Eq)]
pub struct Plain {
    value: String,
    shown: String,
}

impl Secret {
    /// A setting `key` that may be a URL with a password.
    pub fn url(key: impl Into<String>, written: impl Into<String>) -> Self {
        Secret {
            written: written.into(),
            key: key.into(),
            whole: false,
        }
    }

    /// A setting `key` that is a secret as a whole.
    pub fn whole(key: impl Into<String>, written: impl Into<String>) -> Self {
        Secret {
            written: written.into(),
            key: key.into(),
            whole: true,
        }
    }

    /// The value: environment variables put in, the file read (without its last line break).
    ///
    /// # Errors
    /// Names the variable or file that is missing, and the setting; of usage.
    pub fn resolve(&self) -> Result<Plain, Error> {
        self.resolve_in(&|name| std::env::var(name).ok())
    }

    /// As [`Secret::resolve`], with the environment given.
    ///
    /// # Errors
    /// As [`Secret::resolve`].
    pub fn resolve_in(&self, env: &dyn Fn(&str) -> Option<String>) -> Result<Plain, Error> {
        if self.written.contains(REDACTED) {
            return Err(Error::usage(format!("`{}` has no value", self.key))
                .line(format!(
                    "found     `{REDACTED}`, which `headwater config` puts over a secret"
                ))
                .line("expected  the secret, `${ENV_VAR}` or `@file`"));
        }
        let value = match self.written.strip_prefix('@') {
            Some(path) => self.read_file(path)?,
            None => self.put_in(env)?,
        };
        Ok(Plain {
            value,
            shown: self.to_string(),
        })
    }

    fn read_file(&self, path: &str) -> Result<String, Error> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            Error::usage(format!("the file of `{}` cannot be read", self.key))
                .line(format!("found     {path}: {error}"))
                .line("expected  a readable file of UTF-8 text that holds the value alone")
        })?;
        let text = text.strip_suffix('\n').unwrap_or(&text);
        Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
    }

    fn put_in(&self, env: &dyn Fn(&str) -> Option<String>) -> Result<String, Error> {
        let mut value = String::new();
        let mut rest = self.written.as_str();
        while let Some((before, name, after)) = reference(rest) {
            let found = env(name).ok_or_else(|| {
                Error::usage(format!("the environment variable `{name}` is not set"))
                    .line(format!("needed by `{}` = \"{self}\"", self.key))
                    .line("Set it, or use `@file`, or write the value itself.")
            })?;
            value.push_str(before);
            value.push_str(&found);
            rest = after;
        }
        value.push_str(rest);
        Ok(value)
    }
}

/// Text before the first `${NAME}`, the name, and the text after it.
fn reference(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("${")?;
    let (name, after) = rest.split_once('}')?;
    Some((before, name, after))
}

/// Whether this is a reference and nothing else, which is safe to show.
fn is_reference(text: &str) -> bool {
    reference(text).is_some_and(|(before, name, after)| {
        before.is_empty() && after.is_empty() && !name.is_empty()
    })
}

/// Replaces the password of a URL (in its authority or its query) or of a libpq string.
pub fn redact_url(text: &str) -> String {
    redact_parameters(&redact_authority(text))
}

fn redact_authority(text: &str) -> String {
    let Some(start) = text.find("://").map(|at| at + 3) else {
        return text.to_owned();
    };
    // The last `@` before the path: a password may hold one.
    let end = text[start..]
        .find(['/', '?', '#'])
        .map_or(text.len(), |at| start + at);
    // A password may hold a raw `/` too; then the `@` comes after what looks like the path.
    let authority = match text[start..end].rfind('@') {
        Some(at) => start..start + at,
        None => match text[start..].rfind('@') {
            Some(at) if text[start..start + at].contains(':') => start..start + at,
            _ => return text.to_owned(),
        },
    };
    let user_info = &text[authority.clone()];
    match user_info.split_once(':') {
        Some((user, password)) if !is_reference(password) => {
            format!(
                "{}{user}:{REDACTED}{}",
                &text[..start],
                &text[authority.end..]
            )
        }
        _ => text.to_owned(),
    }
}

fn redact_parameters(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    loop {
        let lower = rest.to_ascii_lowercase();
        let found = ["password=", "passwd=", "pwd=", "secret=", "token="]
            .iter()
            .filter_map(|name| lower.find(name).map(|at| at + name.len()))
            .min();
        let Some(start) = found else {
            out.push_str(rest);
            return out;
        };
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let end = match rest.strip_prefix('\'') {
            Some(quoted) => quoted.find('\'').map_or(rest.len(), |at| at + 2),
            None => rest.find(['&', ' ', '#', ';']).unwrap_or(rest.len()),
        };
        out.push_str(if is_reference(&rest[..end]) {
            &rest[..end]
        } else {
            REDACTED
        });
        rest = &rest[end..];
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_reference(&self.written) || self.written.starts_with('@') {
            f.write_str(&self.written)
        } else if self.whole {
            f.write_str(REDACTED)
        } else {
            f.write_str(&redact_url(&self.written))
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({self})")
    }
}

/// Two settings are equal when the same was written, wherever.
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written && self.whole == other.whole
    }
}

impl Eq for Secret {}

impl Plain {
    /// The secret itself: for the library that needs it, never for a message.
    pub fn expose(&self) -> &str {
        &self.value
    }
}

impl fmt::Display for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plain({})", self.shown)
    }
}

#[cfg(test)]
mod tests;
