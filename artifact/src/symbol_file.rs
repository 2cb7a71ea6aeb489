//! Reading and writing symbol files (`.mts`).

use crate::{error::Result, symbols::Symbols};
use std::{io::Write, path::Path};

/// Writes a symbol file. The bytes depend on `symbols` alone.
pub fn write_symbols<W: Write>(sink: W, symbols: &Symbols) -> Result<W> {
    let _ = (&sink, symbols);
    todo!()
}

/// Reads a symbol file; every id in it is checked against its table.
pub fn read_symbols(path: &Path) -> Result<Symbols> {
    let _ = path;
    todo!()
}
