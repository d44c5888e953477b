//! The dataflow of Headwater, without any I/O.
pub mod marker;
