//! The `file` topic: a folder with one append-only file a partition, tailed while it is written.
//!
//! `topic.json` holds the format and the number of partitions, `N.log` the records of partition N
//! (frames with checksums after a head with the first offset), `N.lock` is locked by its writer.
//! The embedded default, and what examples and most tests use. Local file systems only: a lock or
//! a length that another machine sees late would break it.

mod frame;
mod log;
mod reader;
mod tail;
#[cfg(test)]
mod tests;
mod writer;

pub use frame::NewRecord;
pub use writer::FileTopicWriter;

use crate::error::Error;
use crate::topic::{Assignment, OffsetRange, Reader, Start, Topics, Waker};
use log::{Cursor, Next, failed, file_head};
use reader::{FileReader, Place, out_of_range};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

/// What a topic's name begins with when it is a folder.
pub const PREFIX: &str = "file:";

const FORMAT: &str = "headwater-topic";
const VERSION: u32 = 1;
/// Bytes between two known places of a file.
const PLACE_EVERY: u64 = 1 << 20;

/// What `topic.json` says.
#[derive(Debug, Serialize, Deserialize)]
struct Meta {
    format: String,
    version: u32,
    partitions: u32,
}

/// Makes a topic in the folder `dir`, which is made if it is missing; offsets start at 0.
///
/// # Errors
/// When there is a topic already, or the folder cannot be written.
pub fn create(dir: &Path, partitions: u32) -> Result<(), Error> {
    create_at(dir, &vec![0; partitions as usize])
}

/// [`create`] with a partition for each of `bases`, whose offsets start there.
///
/// # Errors
/// As [`create`].
pub fn create_at(dir: &Path, bases: &[u64]) -> Result<(), Error> {
    let partitions = u32::try_from(bases.len()).unwrap_or(0);
    if partitions == 0 {
        return Err(Error::usage("a topic has 1 to 4294967295 partitions"));
    }
    let meta_path = dir.join("topic.json");
    if meta_path.exists() {
        let text = format!("topic file:{} is there already", dir.display());
        return Err(Error::usage(text).line("what to do: remove the folder, or take another"));
    }
    let made = |result: io::Result<()>, path: &Path| {
        result.map_err(|e| failed(path, "could not be made", &e))
    };
    made(fs::create_dir_all(dir), dir)?;
    for (partition, base) in (0..partitions).zip(bases) {
        let path = log_path(dir, partition);
        made(fs::write(&path, file_head(*base)), &path)?;
    }
    let meta = Meta {
        format: FORMAT.into(),
        version: VERSION,
        partitions,
    };
    let json = serde_json::to_vec(&meta).expect("strings and numbers");
    // Last and at once: a topic is there only with all its partitions.
    let draft = dir.join("topic.json.new");
    made(fs::write(&draft, json), &draft)?;
    made(fs::rename(&draft, &meta_path), &meta_path)
}

fn read_meta(dir: &Path) -> Result<Meta, Error> {
    let path = dir.join("topic.json");
    let json = fs::read(&path).map_err(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            return failed(&path, "could not be read", &error);
        }
        Error::usage(format!("topic file:{} does not exist", dir.display()))
            .line(format!("{} is missing", path.display()))
            .line("what to do: make it with the tool that writes it, or correct its name")
    })?;
    let bad = |found: &str| {
        Error::usage(format!(
            "{} is not the head of a topic: {found}",
            path.display()
        ))
        .line(format!(
            "expected format {FORMAT:?}, version {VERSION}, at least one partition"
        ))
    };
    let meta: Meta = serde_json::from_slice(&json).map_err(|e| bad(&e.to_string()))?;
    if meta.format != FORMAT || meta.version != VERSION || meta.partitions == 0 {
        return Err(bad(&format!("{meta:?}")));
    }
    Ok(meta)
}

fn log_path(dir: &Path, partition: u32) -> PathBuf {
    dir.join(format!("{partition}.log"))
}

fn lock_path(dir: &Path, partition: u32) -> PathBuf {
    dir.join(format!("{partition}.lock"))
}

/// The folder of a topic's name, with [`PREFIX`] or without.
fn folder(topic: &str) -> &Path {
    Path::new(topic.strip_prefix(PREFIX).unwrap_or(topic))
}

fn open_log(path: &Path) -> Result<File, Error> {
    File::open(path).map_err(|e| failed(path, "could not be opened", &e))
}

/// Frame starts of a file and the next offset there, in order; the last is the end as last seen.
type Places = Vec<(u64, u64)>;

/// A file and not only its name: a topic that was made anew has other places.
type FileId = (PathBuf, u64, Option<SystemTime>);

fn file_id(path: &Path, file: &File) -> Result<FileId, Error> {
    let meta = file
        .metadata()
        .map_err(|e| failed(path, "could not be read", &e))?;
    Ok((path.to_path_buf(), meta.ino(), meta.created().ok()))
}

/// The client of `file` topics. Remembers where it was in each file, so that asking again for an
/// end costs only what was added.
#[derive(Debug, Default)]
pub struct FileTopics {
    places: Mutex<HashMap<FileId, Places>>,
}

impl FileTopics {
    /// A client.
    pub fn new() -> Self {
        FileTopics::default()
    }

    /// The last known place at or before `offset`.
    fn place_before(&self, id: &FileId, offset: u64) -> Option<(u64, u64)> {
        let places = self.places.lock().expect("no panic under this lock");
        let places = places.get(id)?;
        let count = places.partition_point(|(_, next_offset)| *next_offset <= offset);
        count.checked_sub(1).map(|last| places[last])
    }

    /// Scans to the end and remembers places.
    fn range(&self, path: &Path) -> Result<OffsetRange, Error> {
        let file = open_log(path)?;
        let id = file_id(path, &file)?;
        let mut cursor = Cursor::open(path, file)?;
        let low = cursor.base;
        let (mut found, mut last) = (Places::new(), 0);
        if let Some((position, next_offset)) = self.place_before(&id, u64::MAX)
            && cursor.file_len()? >= position
        {
            cursor.jump(position, next_offset);
            last = position;
        }
        while let Next::Record(frame) = cursor.next()? {
            cursor.step(&frame);
            if cursor.position - last >= PLACE_EVERY {
                last = cursor.position;
                found.push((cursor.position, cursor.next_offset));
            }
        }
        let high = cursor.next_offset;
        let mut places = self.places.lock().expect("no panic under this lock");
        let places = places.entry(id).or_default();
        for place in found {
            if places.last().is_none_or(|last| last.0 < place.0) {
                places.push(place);
            }
        }
        Ok(OffsetRange { low, high })
    }

    fn first_since(&self, path: &Path, time_ms: i64) -> Result<u64, Error> {
        let mut cursor = Cursor::open(path, open_log(path)?)?;
        while let Next::Record(frame) = cursor.next()? {
            if frame.timestamp_ms >= time_ms {
                return Ok(frame.offset);
            }
            cursor.step(&frame);
        }
        Ok(cursor.next_offset)
    }

    fn place(&self, assignment: &Assignment) -> Result<(Place, File), Error> {
        let path = log_path(folder(&assignment.topic), assignment.partition);
        let file = open_log(&path)?;
        let copy = file
            .try_clone()
            .map_err(|e| failed(&path, "could not be opened", &e))?;
        let id = file_id(&path, &file)?;
        let mut cursor = Cursor::open(&path, file)?;
        let start = assignment.next_offset;
        if start < cursor.base {
            let high = self.range(&path)?.high;
            return Err(out_of_range(&path, start, cursor.base, high));
        }
        if let Some((position, next_offset)) = self.place_before(&id, start) {
            cursor.jump(position, next_offset);
        }
        Ok((Place::new(cursor, start), copy))
    }
}

/// All partition files of a topic, by number.
fn logs(topic: &str) -> Result<impl Iterator<Item = PathBuf>, Error> {
    let dir = folder(topic);
    let partitions = read_meta(dir)?.partitions;
    Ok((0..partitions).map(move |partition| log_path(dir, partition)))
}

impl Topics for FileTopics {
    fn ranges(&self, topic: &str) -> Result<Vec<OffsetRange>, Error> {
        logs(topic)?.map(|path| self.range(&path)).collect()
    }

    fn partition_count(&self, topic: &str) -> Result<u32, Error> {
        Ok(read_meta(folder(topic))?.partitions)
    }

    fn starts(&self, topic: &str, start: Start) -> Result<Vec<u64>, Error> {
        logs(topic)?
            .map(|path| match start {
                Start::Beginning => Ok(Cursor::open(&path, open_log(&path)?)?.base),
                Start::Time(time_ms) => self.first_since(&path, time_ms),
            })
            .collect()
    }

    fn reader(&self, partitions: &[Assignment], waker: Waker) -> Result<Box<dyn Reader>, Error> {
        let (mut places, mut files) = (Vec::new(), Vec::new());
        for assignment in partitions {
            let (place, file) = self.place(assignment)?;
            places.push(place);
            files.push(file);
        }
        Ok(Box::new(FileReader::new(places, files, waker)?))
    }
}
