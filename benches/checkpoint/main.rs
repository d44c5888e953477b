//! What checkpoints cost: `cargo bench --bench checkpoint -- 10` (millions of markers).
//!
//! Bytes and seconds of the first checkpoint and of further ones, through the thread that uploads
//! to a folder; the longest call that the merge makes while that goes on; seconds and peak memory
//! of a restore, each in a process of its own. Every number stands beside a plain one of the same
//! run: the same bytes written with fsync, or read and hashed. Wall time counts what the machine
//! does meanwhile, CPU time does not. Times of two runs are not to be compared.
//!
//! It cannot show a cold disk: what it reads back is in the page cache.

mod job;
mod pause;
mod restore;
mod time;
mod write;

use headwater::store::Store;
use std::error::Error;
use std::path::Path;
use std::process::Command;

type Outcome<T> = Result<T, Box<dyn Error>>;

const JOB: &str = "bench";
const TICK_MS: u64 = 20;
const MILLION: u64 = 1_000_000;
/// Workers that write the checkpoint which is restored.
const WORKERS: usize = 2;

fn open(folder: &Path) -> Outcome<Store> {
    let folder = folder.to_str().ok_or("the temporary folder has no name")?;
    Ok(Store::open(&format!("file:{folder}"))?)
}

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "--restore") {
        let [folder, workers, millions] = &args[at + 1..] else {
            return Err("--restore FOLDER WORKERS MILLIONS".into());
        };
        return restore::restore(Path::new(folder), workers.parse()?, millions.parse()?);
    }
    let sizes: Vec<u64> = args.iter().filter_map(|arg| arg.parse().ok()).collect();
    for millions in if sizes.is_empty() { vec![10] } else { sizes } {
        let folder = tempfile::tempdir()?;
        write::write(folder.path(), millions)?;
        for workers in [WORKERS, WORKERS + 1, WORKERS - 1] {
            let mut child = Command::new(std::env::current_exe()?);
            child.arg("--restore").arg(folder.path());
            let status = child
                .args([workers as u64, millions].map(|n| n.to_string()))
                .status()?;
            if !status.success() {
                return Err("a restore failed".into());
            }
        }
        pause::pause(tempfile::tempdir()?.path(), millions)?;
    }
    Ok(())
}
