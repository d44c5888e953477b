//! The named points at which a process can be made to fail, as the random runs use them.
//!
//! Invariant: a point stands here with whether it is a write to the store, which can also be full
//! or short.
//!
//! It cannot know that a new point was made: whoever makes one adds it here.

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
