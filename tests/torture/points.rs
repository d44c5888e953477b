//! The named points at which a process can be made to fail and that this test reaches: each is
//! visited by `visits`, and at random by the supervisor.
//!
//! Invariant: every point of the source stands in one list, here or in a test that has the real
//! service (`tests/tidy/faults.rs` holds that).
//!
//! It cannot know whether a point is passed: the visit proves it.

/// (name, whether it writes to the store)
pub(crate) const POINTS: &[(&str, bool)] = &[
    ("claim.manifest.before", false),
    ("claim.manifest.after", false),
    ("claim.target.before", false),
    ("claim.target.after", false),
    ("claim.announce.before", false),
    ("target.claim.before", false),
    ("target.claim.after", false),
    ("target.note.before", false),
    ("target.note.after", false),
    ("sqlite.commit.before", false),
    ("sqlite.commit.after", false),
    ("checkpoint.run.before", false),
    ("checkpoint.run.after", false),
    ("checkpoint.manifest.before", false),
    ("checkpoint.manifest.after", false),
    ("clean.manifest.before", false),
    ("clean.run.before", false),
    ("store.write", true),
    ("store.temp", true),
    ("store.made", true),
    ("store.link", true),
    ("store.folder", true),
    ("store.rename", true),
    ("store.delete", true),
];
