//! Headwater, the application: topics in, one merged stream per primary key out.
//!
//! Everything that reads, writes or waits is here; the dataflow itself is `headwater-operators`.

pub mod cli;
pub mod config;
pub mod decode;
pub mod error;
pub mod progress;
pub mod signals;
pub mod sink;
pub mod summary;
pub mod table;
pub mod topic;
