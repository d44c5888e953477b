//! x
pub mod cluster;
