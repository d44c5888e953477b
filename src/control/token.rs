//! The token that changes need, and everything on an address that others reach.
//!
//! Invariant: a token is compared by its digest in constant time, and is in no message. Its file
//! must not be open to other users. It is read once, at the start.

use crate::error::Error;
use sha2::{Digest, Sha256};
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use subtle::ConstantTimeEq;

/// Fewer bytes could be guessed.
const BYTES_MIN: usize = 16;
/// Read, write and enter for everybody else.
const OTHERS: u32 = 0o007;

/// What a client must show.
#[derive(Clone)]
pub(super) struct Token([u8; 32]);

impl Token {
    /// The token of a text.
    pub(super) fn new(text: &str) -> Token {
        Token(Sha256::digest(text).into())
    }

    /// Whether `text` is it.
    pub(super) fn is(&self, text: &str) -> bool {
        Token::new(text).0.ct_eq(&self.0).into()
    }

    /// Whether the value of an `Authorization` header has it.
    pub(super) fn authorizes(&self, header: Option<&str>) -> bool {
        let given = header.and_then(|value| value.split_once(' '));
        given.is_some_and(|(scheme, token)| {
            scheme.eq_ignore_ascii_case("bearer") && self.is(token.trim())
        })
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(<redacted>)")
    }
}

/// The text in a token file, without its last line break.
///
/// # Errors
/// Of usage: a file that cannot be read, that other users can, or that holds no token.
pub(super) fn read(path: &Path) -> Result<String, Error> {
    let name = path.display();
    let unread = |error: std::io::Error| {
        Error::usage("the file of `control.token_file` cannot be read")
            .line(format!("found     {name}: {error}"))
            .line("expected  a file that holds the token alone")
            .line("(umask 077; head -c 32 /dev/urandom | base64 > FILE) makes one.")
    };
    let mode = std::fs::metadata(path)
        .map_err(unread)?
        .permissions()
        .mode();
    if mode & OTHERS != 0 {
        return Err(
            Error::usage("the file of `control.token_file` is open to every user")
                .line(format!("found     {name}, mode {:o}", mode & 0o777))
                .line("expected  mode 600, or 640 with a group of its own")
                .line(format!(
                    "chmod 600 {name}, and a new token: others may have read this one."
                )),
        );
    }
    let text = std::fs::read_to_string(path).map_err(unread)?;
    let token = text.trim_end_matches(['\n', '\r']);
    let graphic = token.bytes().all(|byte| byte.is_ascii_graphic());
    if token.len() < BYTES_MIN || !graphic {
        let found = match graphic {
            true => format!("{} bytes", token.len()),
            false => "spaces, line breaks or characters beyond ASCII".to_owned(),
        };
        return Err(
            Error::usage("the file of `control.token_file` holds no token")
                .line(format!("found     {found} in {name}"))
                .line(format!(
                    "expected  {BYTES_MIN} or more printable ASCII characters, on one line"
                )),
        );
    }
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Token, read};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_the_token_itself_authorizes() {
        let token = Token::new("0123456789abcdef");
        assert!(token.authorizes(Some("Bearer 0123456789abcdef")));
        assert!(token.authorizes(Some("bearer  0123456789abcdef")));
        for header in [
            "Bearer 0123456789abcdeg",
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdef0",
            "Bearer ",
            "Basic 0123456789abcdef",
            "0123456789abcdef",
            "",
        ] {
            assert!(!token.authorizes(Some(header)), "{header}");
        }
        assert!(!token.authorizes(None));
        assert!(!format!("{token:?}").contains("0123"));
    }

    #[test]
    fn a_file_must_be_closed_to_others_and_hold_a_token() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("token");
        let put = |text: &str, mode: u32| {
            std::fs::write(&path, text).expect("written");
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, mode).expect("set");
            read(&path)
        };
        let good = "0123456789abcdef\n";
        assert_eq!(put(good, 0o600), Ok("0123456789abcdef".to_owned()));
        assert_eq!(put(good, 0o640), Ok("0123456789abcdef".to_owned()));
        for (text, mode, part) in [
            (good, 0o644, "open to every user"),
            (good, 0o602, "open to every user"),
            ("short\n", 0o600, "holds no token"),
            ("", 0o600, "holds no token"),
            ("0123456789 abcdef\n", 0o600, "holds no token"),
            ("0123456789\nabcdef\n", 0o600, "holds no token"),
        ] {
            let error = put(text, mode).expect_err(part);
            assert!(error.text.contains(part), "{error}");
            assert!(!error.text.contains("0123456789"), "{error}");
        }
        let error = read(&dir.path().join("none")).expect_err("missing");
        assert!(error.text.contains("cannot be read"), "{error}");
    }
}
