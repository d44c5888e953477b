//! Files of JSON lines that only grow by whole, durable lines.
//!
//! Invariant: after an error the file ends where it ended before the write, so a retry never leaves
//! half a line in the middle. A crash may leave half a line at the very end, which readers ignore.
//!
//! It cannot rotate or compress.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;
use std::fs::{File, OpenOptions};
use std::io::{Result, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A file that is appended to.
pub(super) struct LineFile {
    path: PathBuf,
    file: File,
    length: u64,
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
        Ok(LineFile { path, file, length })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends lines and makes them durable.
    pub(super) fn append(&mut self, lines: &[u8]) -> Result<()> {
        let appended = self
            .file
            .write_all(lines)
            .and_then(|()| self.file.sync_data());
        match appended {
            Ok(()) => {
                self.length += lines.len() as u64;
                Ok(())
            }
            Err(error) => {
                self.file.set_len(self.length)?;
                self.file.seek(SeekFrom::End(0))?;
                Err(error)
            }
        }
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
    use super::{LineFile, put_field};

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
