//! `headwater checkpoint` on stores that the program itself has made, whole and damaged, and the
//! committed stores of every format, which must stay readable for ever.
//!
//! It cannot make every damage that a disk can; `src/checkpoint/` has property tests for that.

#[path = "../support/binary.rs"]
#[expect(dead_code, reason = "the tests of `run` use all of it")]
mod binary;
mod damage;
mod fixture;
mod making;
#[path = "../support/signal.rs"]
mod signal;
mod store;
mod tools;
