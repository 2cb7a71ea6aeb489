//! The `memtrack` program: arguments, progress and exit codes over the rooms
//! that do the work.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod args;
mod command;
mod exit;
mod load;
mod output;
mod progress;

use clap::Parser;
use exit::Exit;
use std::process::ExitCode;

// The probes of a capture are system-wide, on the C library's file: memtrack's
// own allocations must not pass them, or it would slow and feed itself.
#[cfg(all(feature = "capture", target_os = "linux"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = args::Cli::parse();
    let capturing = matches!(cli.command, args::Command::Capture(_));
    let result = match &cli.command {
        args::Command::Inspect(args) => command::inspect::run(args),
        args::Command::Symbolize(args) => command::symbolize::run(args),
        args::Command::Report(args) => command::report::run(args),
        #[cfg(all(feature = "capture", target_os = "linux"))]
        args::Command::Capture(args) => command::capture::run(args),
        #[cfg(all(feature = "capture", target_os = "linux"))]
        args::Command::Doctor(args) => command::doctor::run(args),
        #[cfg(not(all(feature = "capture", target_os = "linux")))]
        args::Command::Capture(_) | args::Command::Doctor(_) => Err(anyhow::anyhow!(
            "this memtrack was built without capture, which needs Linux and the cargo feature \
             `capture`; inspect, symbolize and report work everywhere"
        )),
    };
    let exit = match result {
        Ok(exit) => exit,
        // Whoever read the output has seen enough.
        Err(error) if output::is_closed_pipe(&error) => Exit::Success,
        Err(error) => {
            eprintln!("memtrack: {error:#}");
            if capturing {
                Exit::CaptureFailed
            } else {
                Exit::Failed
            }
        }
    };
    ExitCode::from(exit.code())
}
