//! STUB, replaced by the helper's module.
use super::{Assignment, OffsetRange};
use crate::error::Error;

/// Stub.
pub fn resumable(
    saved: &[Assignment],
    ranges_of: impl Fn(&str) -> Result<Vec<OffsetRange>, Error>,
) -> Result<(), Error> {
    for of in saved {
        let ranges = ranges_of(&of.topic)?;
        let range = ranges
            .get(of.partition as usize)
            .copied()
            .unwrap_or(OffsetRange { low: 0, high: 0 });
        if of.next_offset < range.low || of.next_offset > range.high {
            return Err(Error::refused(format!(
                "{}[{}] cannot go on at offset {}: the log holds {} to {}",
                of.topic, of.partition, of.next_offset, range.low, range.high
            )));
        }
    }
    Ok(())
}
