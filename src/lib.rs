//! Headwater, the application: topics in, one merged stream per primary key out.
//!
//! Everything that reads, writes or waits is here; the dataflow itself is `headwater-operators`.

#![deny(unsafe_code)]

pub mod assemble;
pub mod begin;
pub mod check;
pub mod checkpoint;
pub mod checkpoint_cli;
pub mod cli;
pub mod clock;
pub mod cluster;
pub mod config;
pub mod connect;
pub mod connector;
pub mod control;
pub mod coordinator;
pub mod dead_letter;
pub mod decode;
pub mod demo;
pub mod embed;
pub mod end_snapshot;
pub mod error;
pub mod events;
pub mod evidence;
pub mod explain;
pub mod failure;
pub mod fault;
pub mod feed;
pub mod gauges;
pub mod generation;
pub mod guard;
pub mod highs;
mod https;
pub mod init;
pub mod job;
pub mod key;
pub mod launch;
pub mod lease;
pub mod looks;
pub mod outcome;
mod postgres_session;
pub mod progress;
pub mod promote;
pub mod quarantine;
pub mod run;
pub mod signals;
pub mod sink;
pub mod source_database;
pub mod status;
pub mod store;
pub mod summary;
pub mod table;
pub mod topic;
pub mod verify;
pub mod worker;
