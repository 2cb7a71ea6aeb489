//! `memtrack doctor`.

use crate::{args, exit::Exit, output::Output};
use anyhow::Result;
use memtrack_capture::doctor;
use serde::Serialize;
use std::io::{self, Write};

/// The report's JSON.
#[derive(Serialize)]
struct Examination {
    can_record: bool,
    checks: Vec<Check>,
}

#[derive(Serialize)]
struct Check {
    topic: &'static str,
    name: &'static str,
    status: String,
    found: String,
    required: bool,
    instead: Option<&'static str>,
    fix: Option<String>,
}

pub(crate) fn run(args: &args::Doctor) -> Result<Exit> {
    let report = doctor::examine();
    let can_record = report.can_record();
    let mut out = Output::stdout();
    if args.json {
        let examination = Examination {
            can_record,
            checks: report.checks.into_iter().map(check).collect(),
        };
        serde_json::to_writer_pretty(&mut out, &examination).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        write!(out, "{report}")?;
    }
    out.finish()?;
    Ok(if can_record {
        Exit::Success
    } else {
        Exit::Failed
    })
}

fn check(check: doctor::Check) -> Check {
    Check {
        topic: check.topic,
        name: check.name,
        status: check.status.to_string(),
        found: check.found,
        required: check.required,
        instead: check.instead,
        fix: check.fix,
    }
}
