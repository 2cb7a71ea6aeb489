//! Writes the HTML report of made-up findings, to look at the page without a
//! recording: `cargo run -p memtrack-report --example sample_page -- FILE
//! [STACKS]`.

#[path = "../tests/sample/mod.rs"]
mod sample;

use std::{
    fs::File,
    io::{BufWriter, Write},
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: sample_page FILE [STACKS]")?;
    let stacks = arguments.next().map_or(Ok(4_000), |count| count.parse())?;
    let mut out = BufWriter::new(File::create(&path)?);
    memtrack_report::html::write(&sample::findings(stacks), &mut out)?;
    out.flush()?;
    Ok(())
}
