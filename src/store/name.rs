//! What an object may be called: a path of non-empty parts, none of which begins with a dot.
//!
//! Invariant: a name that passes leads to no other folder, means the same in every kind of store,
//! and is never the name of a temporary file.

use crate::error::Error;

/// Longest name taken, bytes (object stores allow 1024 with their prefix).
const BYTES_MAX: usize = 800;
/// Longest part, bytes (file systems allow 255).
const PART_BYTES_MAX: usize = 200;

/// Refuses what is no name.
pub(super) fn check(name: &str) -> Result<(), Error> {
    let good = |part: &str| {
        !part.is_empty()
            && part.len() <= PART_BYTES_MAX
            && !part.starts_with('.')
            && !part.chars().any(|c| c.is_control() || c == '\\')
    };
    if name.len() <= BYTES_MAX && name.split('/').all(good) {
        return Ok(());
    }
    let shown: String = name.chars().take(64).collect();
    Err(Error::usage("an object of the store cannot have this name")
        .line(format!("found     {shown:?}"))
        .line(format!(
            "expected  parts of 1 to {PART_BYTES_MAX} bytes between slashes, none with a dot first"
        )))
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn names_are_plain_paths() {
        for name in ["a", "job/lease", "my job/runs/00-ff.run", "jöb/a=b+c~%,1"] {
            check(name).expect(name);
        }
        let long = "x".repeat(201);
        let deep = "ab/".repeat(300) + "c";
        for name in [
            "",
            "/a",
            "a/",
            "a//b",
            ".",
            "a/..",
            "a/.temp-1",
            "a\nb",
            "a\\b",
            &*long,
            &*deep,
        ] {
            check(name).expect_err(name);
        }
    }
}
