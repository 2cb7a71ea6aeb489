//! Runs a command, records its module stream, and takes the files that it
//! mapped into an artifact: `modules OUTPUT.mtk COMMAND [ARGUMENT...]`.
//!
//! Only what the stream saw after the exec is recorded; no probes are set.

fn main() -> std::process::ExitCode {
    #[cfg(target_os = "linux")]
    match linux::run() {
        Ok(()) => return std::process::ExitCode::SUCCESS,
        Err(error) => eprintln!("modules: {error}"),
    }
    std::process::ExitCode::FAILURE
}

#[cfg(target_os = "linux")]
mod linux {
    use memtrack_artifact::{
        Architecture, Artifact, ArtifactWriter, ByteString, Ending, Header, Losses, ModuleEvent,
        Pid, Silent,
    };
    use memtrack_capture::{harvest::Harvest, mappings::ModuleStream};
    use std::{
        error::Error,
        ffi::OsString,
        fs::File,
        io::{BufWriter, Write},
        path::PathBuf,
        process::{Command, Stdio},
        time::Duration,
    };

    pub(super) fn run() -> Result<(), Box<dyn Error>> {
        let mut arguments = std::env::args_os().skip(1);
        let output = arguments
            .next()
            .map(PathBuf::from)
            .ok_or("usage: modules OUTPUT.mtk COMMAND [ARGUMENT...]")?;
        let command: Vec<OsString> = arguments.collect();

        // A shell that waits for a line before it becomes the command: the
        // stream is open by then.
        let mut child = Command::new("sh")
            .args(["-c", "read go; exec \"$@\" </dev/null", "sh"])
            .args(&command)
            .stdin(Stdio::piped())
            .spawn()?;
        let mut stream = ModuleStream::open(Pid(child.id()))?;
        let mut go = child.stdin.take().ok_or("the child has no input")?;
        go.write_all(b"go\n")?;
        drop(go);

        let header = Header {
            memtrack_version: env!("CARGO_PKG_VERSION").into(),
            architecture: if cfg!(target_arch = "aarch64") {
                Architecture::Aarch64
            } else {
                Architecture::X86_64
            },
            page_bytes: 4096,
            start_monotonic_ns: 0,
            start_wall_ns: 0,
            kernel: String::new(),
            command: command
                .into_iter()
                .map(|part| ByteString(part.into_encoded_bytes()))
                .collect(),
            environment_names: Vec::new(),
            working_directory: ByteString::default(),
            options: Vec::new(),
            backend: "modules example".into(),
        };
        let mut writer = ArtifactWriter::new(BufWriter::new(File::create(&output)?), &header)?;
        let mut harvest = Harvest::new();
        let mut records = Vec::new();
        while child.try_wait()?.is_none() {
            stream.poll(&mut |record| records.push(record));
            for record in records.drain(..) {
                harvest.see(&record);
                writer.module_record(&record)?;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        stream.finish(&mut |record| records.push(record));
        for record in records {
            harvest.see(&record);
            writer.module_record(&record)?;
        }
        let summary = harvest.finish(&mut writer, &Silent)?;
        let ending = Ending {
            end_monotonic_ns: 0,
            status: None,
            root_pid: Some(Pid(child.id())),
            null_frees: 0,
        };
        let (mut file, _) = writer.finish(&Losses::default(), &ending)?;
        file.flush()?;
        drop(file);

        let artifact = Artifact::open(&output)?;
        println!("{} records, {summary:?}", artifact.module_records().len());
        let mappings = || {
            artifact
                .module_records()
                .iter()
                .filter_map(|record| match &record.event {
                    ModuleEvent::Map(mapping) => Some(mapping),
                    _ => None,
                })
        };
        let known = mappings()
            .filter(|mapping| artifact.module_of(mapping).is_some())
            .count();
        println!("{known} of {} mappings have a module", mappings().count());
        for module in artifact.modules() {
            let bytes: u64 = module.sections.iter().map(|section| section.len).sum();
            println!(
                "{:<40} {:>3} sections {bytes:>10} bytes  {}  {}",
                module.key.to_string(),
                module.sections.len(),
                String::from_utf8_lossy(&module.mapped_as[0].path),
                module.notes.join("; "),
            );
        }
        for refused in artifact.refused_modules() {
            let path = String::from_utf8_lossy(&refused.mapped_as.path);
            println!("refused {path}: {}", refused.reason);
        }
        Ok(())
    }
}
