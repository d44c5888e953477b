//! Headwater, the application: topics in, one merged stream per primary key out.
//!
//! Everything that reads, writes or waits is here; the dataflow itself is `headwater-operators`.

pub mod decode;
pub mod error;
pub mod key;
pub mod sink;
pub mod table;
pub mod topic;
