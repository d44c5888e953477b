//! What a job has made durable: the newest manifest in its store, and the offsets it holds.
//!
//! Invariant: a manifest that is there can be read, whatever was killed or failed while it was
//! written; else the test ends.
//!
//! It cannot check sums: `headwater checkpoint verify` does.

use crate::history::{History, MUTATIONS, SNAPSHOT};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Job and store of every scenario.
pub(crate) const JOB: &str = "torture";
pub(crate) const STORE: &str = "state";

/// `next_offset` of each partition; zeros for a job that starts from nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offsets {
    /// Of the manifest, none for a fresh job.
    pub(crate) manifest: Option<u64>,
    pub(crate) mutations: Vec<u64>,
    pub(crate) snapshot: Vec<u64>,
}

impl Offsets {
    pub(crate) fn fresh(history: &History) -> Self {
        Offsets {
            manifest: None,
            mutations: vec![0; history.mutations.len()],
            snapshot: vec![0; history.snapshot.len()],
        }
    }

    /// Whether nothing of `other` is before this.
    pub(crate) fn reaches(&self, other: &Offsets) -> bool {
        let all = |these: &[u64], those: &[u64]| these.iter().zip(those).all(|(a, b)| a >= b);
        self.manifest >= other.manifest
            && all(&self.mutations, &other.mutations)
            && all(&self.snapshot, &other.snapshot)
    }
}

fn folder_of(folder: &Path) -> PathBuf {
    folder.join(STORE).join(JOB).join("manifest")
}

/// The numbers of all manifests, in order.
pub(crate) fn numbers(folder: &Path) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(folder_of(folder)) else {
        return Vec::new();
    };
    let number = |entry: std::io::Result<fs::DirEntry>| {
        let name = entry.expect("an entry").file_name();
        name.to_str().and_then(|name| name.parse().ok())
    };
    let mut numbers: Vec<u64> = entries.filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}

/// The bytes of all manifests, to tell whether anything has changed.
pub(crate) fn bytes(folder: &Path) -> Vec<(u64, Vec<u8>)> {
    let read = |number: u64| {
        let path = folder_of(folder).join(format!("{number:010}"));
        (number, fs::read(path).expect("a manifest"))
    };
    numbers(folder).into_iter().map(read).collect()
}

/// The JSON of a manifest: everything behind its first line.
pub(crate) fn read(folder: &Path, number: u64) -> Value {
    let path = folder_of(folder).join(format!("{number:010}"));
    let text = fs::read_to_string(&path).expect("a manifest is text");
    let (_, json) = text.split_once('\n').expect("a first line");
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Whether a manifest covers any record. Older ones may go while it looks.
pub(crate) fn covers_some(folder: &Path) -> bool {
    let Some(number) = numbers(folder).last().copied() else {
        return false;
    };
    let path = folder_of(folder).join(format!("{number:010}"));
    let text = fs::read_to_string(path).unwrap_or_default();
    let json = text.split_once('\n').map_or("", |parts| parts.1);
    let json: Value = serde_json::from_str(json).unwrap_or_default();
    let offsets = json["offsets"].as_array();
    let covers = |entry: &Value| entry["next_offset"].as_u64() > Some(0);
    offsets.is_some_and(|offsets| offsets.iter().any(covers))
}

/// The incarnation that wrote the newest manifest.
pub(crate) fn incarnation(folder: &Path) -> u64 {
    let newest = numbers(folder).last().copied();
    let incarnation = newest.and_then(|number| read(folder, number)["incarnation"].as_u64());
    incarnation.unwrap_or(0)
}

/// The offsets that a job would start from now. Ask while none runs.
pub(crate) fn newest(folder: &Path, history: &History) -> Offsets {
    let mut offsets = Offsets::fresh(history);
    let Some(number) = numbers(folder).last().copied() else {
        return offsets;
    };
    offsets.manifest = Some(number);
    let json = read(folder, number);
    let list = json["offsets"].as_array().expect("offsets");
    for entry in list {
        let topic = entry["topic"].as_str().expect("a topic");
        let get = |name: &str| {
            let number = entry[name].as_u64();
            number.unwrap_or_else(|| panic!("no {name} in {entry}"))
        };
        let of_topic = match topic {
            _ if topic.ends_with(MUTATIONS) => &mut offsets.mutations,
            _ if topic.ends_with(SNAPSHOT) => &mut offsets.snapshot,
            _ => panic!("manifest {number} names the topic {topic}"),
        };
        of_topic[get("partition") as usize] = get("next_offset");
    }
    offsets
}

#[cfg(test)]
mod tests {
    use super::{JOB, Offsets, STORE, newest, numbers};
    use crate::history::Builder;

    #[test]
    fn the_newest_counts() {
        let history = Builder::new(1, &[true], 2, 1).build();
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(newest(folder.path(), &history), Offsets::fresh(&history));
        let store = folder.path().join(STORE).join(JOB).join("manifest");
        std::fs::create_dir_all(&store).expect("a folder");
        std::fs::write(store.join("0000000002"), "head\n{\"offsets\":[]}").expect("written");
        let text = "head\n{\"offsets\":[{\"topic\":\"file:muts\",\"partition\":1,\
                    \"next_offset\":7},{\"topic\":\"file:snap\",\"partition\":0,\
                    \"next_offset\":3}]}";
        std::fs::write(store.join("0000000010"), text).expect("written");
        std::fs::write(store.join("0000000011.tmp"), "").expect("written");
        assert_eq!(numbers(folder.path()), [2, 10]);
        let found = newest(folder.path(), &history);
        assert_eq!(found.manifest, Some(10));
        assert_eq!(
            (found.mutations.clone(), found.snapshot.clone()),
            (vec![0, 7], vec![3])
        );
        assert!(found.reaches(&Offsets::fresh(&history)));
        assert!(!Offsets::fresh(&history).reaches(&found));
    }
}
