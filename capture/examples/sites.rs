//! Prints where the allocator functions of files would be probed:
//! `sites FILE...`.

fn main() -> std::process::ExitCode {
    #[cfg(target_os = "linux")]
    for path in std::env::args_os().skip(1) {
        if let Err(error) = linux::print(path.as_ref()) {
            eprintln!("{}: {error}", path.display());
            return std::process::ExitCode::FAILURE;
        }
    }
    std::process::ExitCode::SUCCESS
}

#[cfg(target_os = "linux")]
mod linux {
    use memtrack_capture::{
        elf::ElfFile,
        site::{Placement, place},
    };
    use std::{error::Error, path::Path};

    pub(super) fn print(path: &Path) -> Result<(), Box<dyn Error>> {
        let bytes = std::fs::read(path)?;
        let file = ElfFile::parse(&bytes)?;
        let functions = file.allocator_functions()?;
        println!("{}: {} functions", path.display(), functions.len());
        for function in &functions {
            let name = function.names.join(",");
            match place(&file, function, &functions) {
                Placement::TailJump { target } => {
                    println!("  {name:<24} jumps to {target:#x}: no probe of its own");
                }
                Placement::Probe(site) => {
                    let registers = site.argument_registers.map(|register| register.0);
                    println!(
                        "  {name:<24} +{:<4} {} {:<28} arguments in {:?}{}",
                        site.entry.0 - function.offset.0,
                        if site.emulated { "cheap" } else { "DEAR " },
                        site.instruction,
                        &registers[..function.function.argument_count()],
                        if site.product { " (product)" } else { "" },
                    );
                }
            }
        }
        Ok(())
    }
}
