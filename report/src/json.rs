//! The findings as JSON, for programs.
//!
//! One object. `schema` is the number of this layout: it rises when a field
//! goes or changes its meaning; new fields can come at any time. All other
//! fields are those of
//! [`Findings`], with their units in the documentation there.

use crate::format::{Options, Report};
use memtrack_analyze::findings::Findings;
use serde::Serialize;
use std::io::{self, Write};

/// The layout's number.
pub const SCHEMA: u32 = 1;

/// The JSON format.
#[derive(Clone, Copy, Debug)]
pub struct Json;

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    #[serde(flatten)]
    findings: &'a Findings,
}

impl Report for Json {
    fn name(&self) -> &'static str {
        "json"
    }

    fn summary(&self) -> &'static str {
        "all findings, for programs"
    }

    fn write(&self, findings: &Findings, _: &Options, out: &mut dyn Write) -> io::Result<()> {
        let document = Document {
            schema: SCHEMA,
            findings,
        };
        serde_json::to_writer(&mut *out, &document)?;
        writeln!(out)
    }
}
