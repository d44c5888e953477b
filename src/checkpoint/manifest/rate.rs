//! A limit that may be none, where that it was set at all is another thing: 0 is no limit, as none
//! can be 0, and null was not set. JSON has one null, so that without this *no limit*, once
//! written, would be read back as *not set*.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(super) fn serialize<S: Serializer>(
    limit: &Option<Option<u64>>,
    to: S,
) -> Result<S::Ok, S::Error> {
    limit.map(Option::unwrap_or_default).serialize(to)
}

pub(super) fn deserialize<'d, D: Deserializer<'d>>(
    from: D,
) -> Result<Option<Option<u64>>, D::Error> {
    let limit: Option<u64> = Option::deserialize(from)?;
    Ok(limit.map(|limit| (limit > 0).then_some(limit)))
}
