//! Kafka's default partitioner, for tools that write topics.
//!
//! Java producers put a record with a key into partition `murmur2(key) & 0x7fffffff % n`;
//! librdkafka does so only with `partitioner=murmur2_random`. Nothing in the merge relies on it.

/// Kafka's murmur2 of a key (`org.apache.kafka.common.utils.Utils.murmur2`).
pub fn murmur2(key: &[u8]) -> i32 {
    const M: u32 = 0x5bd1_e995;
    const SEED: u32 = 0x9747_b28c;
    let mut hash = SEED ^ (key.len() as u32);
    let (words, rest) = key.as_chunks::<4>();
    for word in words {
        let mut word = u32::from_le_bytes(*word).wrapping_mul(M);
        word ^= word >> 24;
        hash = hash.wrapping_mul(M) ^ word.wrapping_mul(M);
    }
    if !rest.is_empty() {
        let tail = rest
            .iter()
            .rev()
            .fold(0, |tail, byte| tail << 8 | u32::from(*byte));
        hash = (hash ^ tail).wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    (hash ^ (hash >> 15)) as i32
}

/// The partition of a key among `partitions`, as a Java producer chooses it.
///
/// # Panics
/// When `partitions` is 0.
pub fn partition_of(key: &[u8], partitions: u32) -> u32 {
    (murmur2(key) as u32 & 0x7fff_ffff) % partitions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_as_kafka_does() {
        // The first two are of Kafka's own tests, the others were computed with its code.
        let hashes: [(&str, i32); 6] = [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            (r#"{"id":1}"#, -56_768_732),
            (r#"{"id":2}"#, -1_705_675_864),
            (r#"{"id":3}"#, -671_347_997),
            (r#"{"id":7}"#, -1_038_564_011),
        ];
        for (key, hash) in hashes {
            assert_eq!(murmur2(key.as_bytes()), hash, "{key}");
        }
    }

    #[test]
    fn chooses_the_partition_as_kafka_does() {
        let partitions = [
            (r#"{"id":1}"#, [0, 0, 0, 4]),
            (r#"{"id":2}"#, [1, 0, 4, 0]),
            (r#"{"id":3}"#, [0, 3, 3, 3]),
            (r#"{"id":7}"#, [0, 1, 3, 5]),
        ];
        for (key, expected) in partitions {
            let found = [3, 4, 6, 8].map(|n| partition_of(key.as_bytes(), n));
            assert_eq!(found, expected, "{key}");
        }
    }
}
