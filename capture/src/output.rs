//! The artifact's file and header.

use crate::{
    clock::{monotonic_ns, wall_ns},
    error::{Error, Result},
    options::{Options, StackMode},
    user::User,
};
use memtrack_artifact::{Architecture, ArtifactWriter, ByteString, Header};
use std::{
    env,
    ffi::OsStr,
    fs::{self, File},
    io,
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::FileTypeExt as _,
    },
    path::{Path, PathBuf},
};

/// The open file.
pub(crate) struct Output {
    path: PathBuf,
    file: File,
    /// It was made here: it goes when nothing comes of the recording.
    created: bool,
}

impl Output {
    /// Opens it for the command that runs as `pid`.
    pub(crate) fn create(options: &Options, pid: u32, user: Option<&User>) -> Result<Self> {
        let path = match &options.output {
            Some(path) => path.clone(),
            None => default_name(options.command.first().map_or(OsStr::new(""), |c| c), pid),
        };
        // Opening a pipe waits for a reader, for ever if need be.
        let is_pipe = fs::metadata(&path).is_ok_and(|found| found.file_type().is_fifo());
        if is_pipe {
            return Err(Error::Output {
                path,
                source: io::Error::other("a pipe cannot hold an artifact; name a file"),
            });
        }
        let created = !path.exists();
        let file = File::create(&path).map_err(|source| Error::Output {
            path: path.clone(),
            source,
        })?;
        let output = Self {
            path,
            file,
            created,
        };
        // Only what was made here is given away: `-o /dev/stdout` is not.
        match user {
            Some(user) if created => user.give(&output.file)?,
            _ => {}
        }
        Ok(output)
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Begins the artifact.
    pub(crate) fn begin(
        &self,
        options: &Options,
        stacks: StackMode,
    ) -> Result<ArtifactWriter<File>> {
        let file = self.file.try_clone().map_err(|source| Error::Output {
            path: self.path.clone(),
            source,
        })?;
        Ok(ArtifactWriter::new(file, &header(options, stacks))?)
    }

    /// Takes the file away again: there is nothing to record.
    pub(crate) fn discard(&self) {
        if self.created {
            // It is empty but for its header; a failure leaves that.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// `memtrack-<command>-<pid>.mtk` in the working directory.
fn default_name(command: &OsStr, pid: u32) -> PathBuf {
    let mut name = b"memtrack-".to_vec();
    let command = Path::new(command).file_name().unwrap_or(command);
    name.extend_from_slice(command.as_bytes());
    name.extend_from_slice(format!("-{pid}.mtk").as_bytes());
    PathBuf::from(std::ffi::OsString::from_vec(name))
}

fn header(options: &Options, stacks: StackMode) -> Header {
    let in_force = Options {
        stacks,
        ..options.clone()
    };
    // Both clocks at one moment, or nearly.
    let (start_monotonic_ns, start_wall_ns) = (monotonic_ns(), wall_ns());
    Header {
        memtrack_version: env!("CARGO_PKG_VERSION").into(),
        architecture: if cfg!(target_arch = "aarch64") {
            Architecture::Aarch64
        } else {
            Architecture::X86_64
        },
        page_bytes: page_bytes(),
        start_monotonic_ns,
        start_wall_ns,
        kernel: kernel(),
        command: options.command.iter().map(|part| bytes(part)).collect(),
        environment_names: env::vars_os().map(|(name, _)| bytes(&name)).collect(),
        working_directory: bytes(env::current_dir().unwrap_or_default().as_os_str()),
        options: in_force.describe(),
        backend: "bpf".into(),
    }
}

fn bytes(text: &OsStr) -> ByteString {
    ByteString(text.as_bytes().to_vec())
}

fn page_bytes() -> u64 {
    nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)
        .ok()
        .flatten()
        .and_then(|bytes| u64::try_from(bytes).ok())
        .unwrap_or(4096)
}

/// Release and version, as `uname -r` and `-v` have them.
fn kernel() -> String {
    let part = |name| {
        fs::read_to_string(Path::new("/proc/sys/kernel").join(name))
            .map_or_else(|_| "unknown".into(), |text| text.trim().to_owned())
    };
    format!("{} {}", part("osrelease"), part("version"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_name_has_the_command_without_its_folder() {
        let name = default_name(OsStr::new("/usr/bin/python3"), 12);
        assert_eq!(name, Path::new("memtrack-python3-12.mtk"));
    }
}
