//! Files of JSON lines that only grow by whole, durable lines.
//!
//! Invariant: after an error the file ends where it ended before the write, or nothing is appended
//! until it does, so a retry never leaves half a line in the middle. A crash may leave half a line
//! at the very end, which readers ignore.
//!
//! It cannot rotate or compress.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;
use std::fs::{File, OpenOptions};
use std::io::{Error, Result, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// What is done to an open file; whatever it appends goes to its end.
trait Disk {
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
    fn sync(&mut self) -> Result<()>;
    fn cut(&mut self, length: u64) -> Result<()>;
}

impl Disk for File {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> Result<()> {
        self.sync_data()
    }

    fn cut(&mut self, length: u64) -> Result<()> {
        self.set_len(length)
    }
}

/// A file that is appended to.
pub(super) struct LineFile {
    path: PathBuf,
    lines: Lines<File>,
}

/// Its end. The disk is apart, so that a test can let it fail.
struct Lines<D> {
    disk: D,
    /// Bytes of whole, durable lines.
    length: u64,
    /// Whether a piece of a failed append may stand behind them.
    torn: bool,
}

impl LineFile {
    /// Opens or makes a file, and its folder; cuts half a line off its end.
    pub(super) fn open(path: PathBuf) -> Result<LineFile> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut options = OpenOptions::new();
        let file = options.create(true).read(true).append(true).open(&path)?;
        let length = whole_lines(&path)?;
        file.set_len(length)?;
        sync_folder(&path)?;
        let lines = Lines {
            disk: file,
            length,
            torn: false,
        };
        Ok(LineFile { path, lines })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends lines and makes them durable.
    pub(super) fn append(&mut self, lines: &[u8]) -> Result<()> {
        self.lines.append(lines)
    }
}

impl<D: Disk> Lines<D> {
    fn append(&mut self, lines: &[u8]) -> Result<()> {
        self.mend()?;
        self.torn = true;
        let appended = self.disk.append(lines).and_then(|()| self.disk.sync());
        match appended {
            Ok(()) => {
                self.torn = false;
                self.length += lines.len() as u64;
                Ok(())
            }
            Err(error) => {
                // If it fails the next append tries again; the first error is the one to tell.
                let _ = self.mend();
                Err(error)
            }
        }
    }

    /// Cuts off what a failed append left.
    fn mend(&mut self) -> Result<()> {
        if self.torn {
            self.disk.cut(self.length).map_err(|error| {
                let what = "the piece of a line that a failed write left cannot be cut off";
                Error::new(error.kind(), format!("{what}: {error}"))
            })?;
            self.torn = false;
        }
        Ok(())
    }
}

/// The length of a file up to its last line end.
fn whole_lines(path: &Path) -> Result<u64> {
    let mut file = File::open(path)?;
    let mut end = file.seek(SeekFrom::End(0))?;
    let mut block = vec![0; 64 << 10];
    while end > 0 {
        let start = end.saturating_sub(block.len() as u64);
        let size = usize::try_from(end - start).expect("at most a block");
        file.seek(SeekFrom::Start(start))?;
        std::io::Read::read_exact(&mut file, &mut block[..size])?;
        if let Some(at) = memchr::memrchr(b'\n', &block[..size]) {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// A new file is durable only when its folder is.
fn sync_folder(path: &Path) -> Result<()> {
    match path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        Some(folder) => File::open(folder)?.sync_all(),
        None => File::open(".")?.sync_all(),
    }
}

/// Appends `bytes`, which are JSON, on one line: a line end outside of a string is only a space.
pub(super) fn put_json(out: &mut Vec<u8>, bytes: &[u8]) {
    let one_line = |byte: &u8| match byte {
        b'\n' | b'\r' => b' ',
        byte => *byte,
    };
    out.extend(bytes.iter().map(one_line));
}

/// Appends a JSON string.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("a Vec takes all and text is always JSON");
}

/// Appends `"name":…` as JSON when `bytes` are, else `"name_base64":"…"`.
pub(super) fn put_field(out: &mut Vec<u8>, name: &str, bytes: &[u8]) {
    if serde_json::from_slice::<&RawValue>(bytes).is_ok() {
        put_text(out, name);
        out.push(b':');
        put_json(out, bytes);
    } else {
        put_text(out, &format!("{name}_base64"));
        out.push(b':');
        put_text(out, &STANDARD.encode(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::{Disk, LineFile, Lines, put_field};
    use std::io::{Error, Result};

    /// A full disk that takes half of a write, and may refuse to be cut.
    #[derive(Default)]
    struct Faulty {
        bytes: Vec<u8>,
        full: bool,
        uncut: bool,
    }

    impl Disk for Faulty {
        fn append(&mut self, bytes: &[u8]) -> Result<()> {
            if self.full {
                self.bytes.extend(&bytes[..bytes.len() / 2]);
                return Err(Error::other("full"));
            }
            self.bytes.extend(bytes);
            Ok(())
        }

        fn sync(&mut self) -> Result<()> {
            Ok(())
        }

        fn cut(&mut self, length: u64) -> Result<()> {
            if self.uncut {
                return Err(Error::other("read-only"));
            }
            self.bytes.truncate(usize::try_from(length).unwrap());
            Ok(())
        }
    }

    #[test]
    fn nothing_is_appended_behind_a_torn_piece() {
        let mut lines = Lines {
            disk: Faulty::default(),
            length: 0,
            torn: false,
        };
        let text = |error: Error| error.to_string();
        lines.append(b"{1}\n").unwrap();
        lines.disk.full = true;
        assert_eq!(lines.append(b"{2}\n").map_err(text), Err("full".into()));
        assert_eq!(lines.disk.bytes, b"{1}\n", "cut at once");
        lines.disk.uncut = true;
        assert_eq!(lines.append(b"{2}\n").map_err(text), Err("full".into()));
        assert_eq!(lines.disk.bytes, b"{1}\n{2", "it could not be cut");
        // There is room again, but the piece stands there still.
        lines.disk.full = false;
        let error = text(lines.append(b"{2}\n").unwrap_err());
        assert!(
            error.contains("cannot be cut off: read-only"),
            "it was: {error}"
        );
        assert_eq!(lines.disk.bytes, b"{1}\n{2");
        lines.disk.uncut = false;
        lines.append(b"{2}\n").unwrap();
        assert_eq!(lines.disk.bytes, b"{1}\n{2}\n");
    }

    #[test]
    fn half_a_line_at_the_end_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deeper/a.jsonl");
        LineFile::open(path.clone())
            .unwrap()
            .append(b"{}\n{")
            .unwrap();
        LineFile::open(path.clone())
            .unwrap()
            .append(b"{1}\n")
            .unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"{}\n{1}\n");
    }

    #[test]
    fn fields_are_json_on_one_line_or_base64() {
        let mut out = Vec::new();
        put_field(&mut out, "key", b"{\n\"id\": 1}");
        put_field(&mut out, "value", b"\xff\x00");
        put_field(&mut out, "empty", b"");
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            r#""key":{ "id": 1}"value_base64":"/wA=""empty_base64":"""#
        );
    }
}
