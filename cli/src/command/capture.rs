//! `memtrack capture`.

use crate::{args, exit::Exit, progress::Bar};
use anyhow::{Result, anyhow};
use memtrack_artifact::{ExitStatus, Losses, PauseReason};
use memtrack_capture::{DebugSearch, Options, Outcome, StackMode};
use memtrack_report::{escape::printable, units};

impl From<args::Stacks> for StackMode {
    fn from(stacks: args::Stacks) -> Self {
        match stacks {
            args::Stacks::Raw => Self::Raw,
            args::Stacks::Fp => Self::FramePointer,
            args::Stacks::Off => Self::Off,
        }
    }
}

pub(crate) fn run(args: &args::Capture) -> Result<Exit> {
    let defaults = Options::default();
    let options = Options {
        command: args.command.clone(),
        output: args.output.clone(),
        stacks: args.stacks.into(),
        stack_bytes: args.stack_bytes.unwrap_or(defaults.stack_bytes),
        event_ring_bytes: args.event_ring.unwrap_or(defaults.event_ring_bytes),
        stack_ring_bytes: args.stack_ring.unwrap_or(defaults.stack_ring_bytes),
        debug: search(args)?,
        ..defaults
    };
    let outcome = match memtrack_capture::run(&options, &Bar::default()) {
        Ok(outcome) => outcome,
        Err(error) => {
            let exit = match (error.shell_status(), error.command_status()) {
                (Some(status), _) => Some(Exit::Command(status)),
                // The command ran to its end, and a failure of its own counts
                // for more than ours.
                (None, Some(status)) if status != ExitStatus::Code(0) => Some(of_command(status)),
                _ => None,
            };
            let error = anyhow!(error);
            return match exit {
                Some(exit) => {
                    eprintln!("memtrack: {error:#}");
                    Ok(exit)
                }
                None => Err(error),
            };
        }
    };
    let lost = lost(&outcome.losses);
    if lost > 0 || !args.quiet {
        say(&outcome, lost);
    }
    Ok(match outcome.status {
        ExitStatus::Code(0) if lost > 0 && !args.allow_loss => Exit::Incomplete,
        status => of_command(status),
    })
}

/// The command's own status, as a shell tells it: 128+n for signal n.
fn of_command(status: ExitStatus) -> Exit {
    let code = match status {
        ExitStatus::Code(code) => code,
        ExitStatus::Signal(signal) => signal.saturating_add(128),
    };
    Exit::Command(u8::try_from(code).unwrap_or(u8::MAX))
}

/// Where separate debug files are searched: the folders that were named, then
/// the usual one.
fn search(args: &args::Capture) -> Result<DebugSearch> {
    super::check_folders(&args.debug_dir)?;
    let defaults = DebugSearch::default();
    let mut folders = args.debug_dir.clone();
    folders.extend(defaults.folders);
    Ok(DebugSearch {
        folders,
        max_bytes: args.max_debug.map_or(defaults.max_bytes, u64::from),
    })
}

/// Everything that a reader of the artifact will miss.
fn lost(losses: &Losses) -> u64 {
    losses.total()
}

/// The closing lines, on stderr.
fn say(outcome: &Outcome, lost: u64) {
    let allocations = units::counted(outcome.counts.allocations, "allocation", "allocations");
    let place = format!(
        "{} ({})",
        printable(&outcome.path.display().to_string()),
        units::bytes(outcome.summary.file_bytes)
    );
    if lost == 0 {
        eprintln!("memtrack: complete: {allocations}, 0 lost; {place}");
    } else {
        let reasons: Vec<String> = outcome
            .losses
            .counts
            .iter()
            .map(|(reason, loss)| format!("{} {}", units::count(loss.count), reason.describe()))
            .collect();
        eprintln!(
            "memtrack: INCOMPLETE: {allocations}, {}; {place}",
            reasons.join(", ")
        );
    }
    for (reason, why) in [
        (PauseReason::Pressure, "rings were filling"),
        (PauseReason::Attach, "new files were probed first"),
    ] {
        let times: Vec<u64> = outcome
            .losses
            .pauses
            .iter()
            .filter(|pause| pause.reason == reason)
            .map(|pause| pause.end_ns.saturating_sub(pause.start_ns))
            .collect();
        let Some(&longest) = times.iter().max() else {
            continue;
        };
        eprintln!(
            "memtrack: the program was held {} ({why}), {} in all, {} at most",
            units::counted(times.len() as u64, "time", "times"),
            units::duration(times.iter().sum()),
            units::duration(longest)
        );
    }
    for note in &outcome.losses.notes {
        eprintln!("memtrack: {}", printable(note));
    }
}
