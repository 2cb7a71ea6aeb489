//! What this machine permits, tried for real, and what to do about the rest.
//!
//! Nothing is concluded from version numbers where it can be tried: programs
//! of a few instructions are loaded, attached to a function of memtrack's own
//! or to a tracepoint, and must count a hit. Everything is detached again
//! before [`examine`] returns.
//!
//! ```no_run
//! let report = memtrack_capture::doctor::examine();
//! print!("{report}");
//! assert!(report.can_record());
//! ```

mod settings;
pub(crate) mod trial;
pub(crate) mod trials;

use std::fmt;

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It is there and works.
    Ok,
    /// The machine has it, and does not let this process use it.
    Refused,
    /// The machine does not have it.
    Missing,
    /// It could not be found out.
    Unknown,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Refused => "refused",
            Self::Missing => "missing",
            Self::Unknown => "unknown",
        })
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The group it belongs to.
    pub topic: &'static str,
    /// What was looked at.
    pub name: &'static str,
    /// How it came out.
    pub status: Status,
    /// What was found, for people.
    pub found: String,
    /// Recording is impossible without it.
    pub required: bool,
    /// What memtrack does where it is not to be had.
    pub instead: Option<&'static str>,
    /// The command that would put it right, where there is one.
    pub fix: Option<String>,
}

/// Everything that was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// In order, grouped by topic.
    pub checks: Vec<Check>,
}

/// What keeps memtrack from recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", describe(.checks))]
pub struct Missing {
    /// The required checks that failed.
    pub checks: Vec<Check>,
}

/// Looks at everything. Takes a fraction of a second; needs no privilege (but
/// most checks then come out as refused).
#[must_use]
pub fn examine() -> Report {
    crate::libbpf_log::install();
    let mut checks = settings::kernel();
    checks.extend(trials::all());
    checks.extend(settings::privileges());
    checks.extend(settings::limits());
    drop(crate::libbpf_log::take());
    Report { checks }
}

/// Whether memtrack can record here.
///
/// # Errors
/// With what is missing, and the command that would put it right.
pub fn bpf_permitted() -> Result<(), Missing> {
    crate::libbpf_log::install();
    let mut checks = settings::kernel();
    checks.extend(trials::required());
    drop(crate::libbpf_log::take());
    checks.retain(Check::stands_in_the_way);
    if checks.is_empty() {
        Ok(())
    } else {
        Err(Missing { checks })
    }
}

impl Check {
    fn stands_in_the_way(&self) -> bool {
        self.required && matches!(self.status, Status::Refused | Status::Missing)
    }
}

impl Report {
    /// Whether everything that recording needs is there.
    #[must_use]
    pub fn can_record(&self) -> bool {
        !self.checks.iter().any(Check::stands_in_the_way)
    }
}

impl fmt::Display for Report {
    /// Plain lines, one a check, with what follows from a failed one below it,
    /// and a verdict at the end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut topic = "";
        for check in &self.checks {
            if check.topic != topic {
                if !topic.is_empty() {
                    writeln!(f)?;
                }
                topic = check.topic;
                writeln!(f, "{topic}")?;
            }
            writeln!(
                f,
                "  {:<8} {:<32} {}",
                check.status, check.name, check.found
            )?;
            if check.status == Status::Ok {
                continue;
            }
            let indent = "           ";
            if check.required {
                writeln!(f, "{indent}needed: nothing can be recorded without it")?;
            }
            if let Some(instead) = check.instead {
                writeln!(f, "{indent}instead: {instead}")?;
            }
            if let Some(fix) = &check.fix {
                writeln!(f, "{indent}to change it: {fix}")?;
            }
        }
        writeln!(f)?;
        if self.can_record() {
            writeln!(f, "memtrack can record on this machine.")
        } else {
            writeln!(f, "memtrack cannot record on this machine:")?;
            let failed: Vec<Check> = self
                .checks
                .iter()
                .filter(|check| check.stands_in_the_way())
                .cloned()
                .collect();
            writeln!(f, "  {}", describe(&failed))
        }
    }
}

/// One line: what is missing, why, and each remedy once.
fn describe(checks: &[Check]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut reasons: Vec<(Status, &str)> = Vec::new();
    for check in checks {
        let reason = (check.status, check.found.as_str());
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    for (status, found) in reasons {
        let names: Vec<&str> = checks
            .iter()
            .filter(|check| (check.status, check.found.as_str()) == (status, found))
            .map(|check| check.name)
            .collect();
        parts.push(format!("{status}: {} ({found})", names.join(", ")));
    }
    let mut fixes: Vec<&str> = Vec::new();
    for fix in checks.iter().filter_map(|check| check.fix.as_deref()) {
        if !fixes.contains(&fix) {
            fixes.push(fix);
        }
    }
    if !fixes.is_empty() {
        parts.push(format!("to change it: {}", fixes.join("; ")));
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests;
