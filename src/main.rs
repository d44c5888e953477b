//! `headwater`: from the command line to the verb, and from its error to the exit code.
//!
//! Nothing is decided here.

use headwater::cli::{self, Command};
use headwater::error::Error;

fn main() {
    let done = cli::parse(std::env::args_os()).and_then(act);
    std::process::exit(done.map_or_else(|error| cli::report(&error), |()| 0));
}

fn act(command: Command) -> Result<(), Error> {
    match command {
        Command::Say(text) => cli::say(&text),
        Command::Init(args) => headwater::init::init(&args),
        Command::Config(origin) => cli::config(&origin),
        Command::Run(args) => headwater::run::run(&args),
        Command::Check(args) => headwater::check::check(&args),
        Command::Checkpoint(args) => headwater::checkpoint_cli::checkpoint(&args),
        Command::EndSnapshot(args) => headwater::end_snapshot::end_snapshot(&args),
        Command::Verify(args) => headwater::verify::verify(&args),
        Command::Quarantine(args) => headwater::quarantine::quarantine(&args),
        Command::Status(args) => headwater::control::status(&args),
        Command::Explain(args) => headwater::explain::explain(&args),
        Command::WaitReady(args) => headwater::control::wait_ready(&args),
        Command::Generation(args) => headwater::control::generation(&args),
        Command::Tune(args) => headwater::control::tune(&args),
        Command::Demo(args) => headwater::demo::demo(&args),
    }
}
