//! Records a command into an artifact: `record [-o FILE] COMMAND ARGUMENTS...`

fn main() -> Result<(), Box<dyn std::error::Error>> {
    record::main()
}

#[cfg(target_os = "linux")]
mod record {
    use memtrack_capture::{Options, run};

    pub(super) fn main() -> Result<(), Box<dyn std::error::Error>> {
        let mut options = Options::default();
        let mut arguments = std::env::args_os().skip(1).peekable();
        if arguments.next_if(|first| first == "-o").is_some() {
            options.output = arguments.next().map(Into::into);
        }
        options.command = arguments.collect();
        let outcome = run(&options, &memtrack_artifact::Silent)?;
        eprintln!("{outcome:#?}");
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
mod record {
    pub(super) fn main() -> Result<(), Box<dyn std::error::Error>> {
        Err("recording needs Linux".into())
    }
}
