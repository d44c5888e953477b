//! The marker arrangement: for every key, the tick of its latest mutation.
