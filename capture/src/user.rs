//! Under sudo the command runs as the user who typed it.

use crate::error::{Result, system};
use nix::unistd::{Gid, Uid, getgrouplist, setgid, setgroups, setuid};
use std::{ffi::CString, io, os::fd::AsFd};

/// Who invoked sudo.
#[derive(Clone, Debug)]
pub(crate) struct User {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

impl User {
    /// The invoking user, when this process is root by sudo's doing: only then
    /// can it become someone else.
    pub(crate) fn behind_sudo() -> Option<Self> {
        if !Uid::effective().is_root() {
            return None;
        }
        let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
        let uid = Uid::from_raw(number("SUDO_UID")?);
        let gid = Gid::from_raw(number("SUDO_GID")?);
        // Looked up now: it cannot be done between fork and exec.
        let groups = nix::unistd::User::from_uid(uid)
            .ok()
            .flatten()
            .and_then(|user| CString::new(user.name).ok())
            .and_then(|name| getgrouplist(&name, gid).ok())
            .unwrap_or_else(|| vec![gid]);
        Some(Self { uid, gid, groups })
    }

    /// Makes this process the user's, for good.
    pub(crate) fn become_it(&self) -> io::Result<()> {
        setgroups(&self.groups)?;
        setgid(self.gid)?;
        setuid(self.uid)?;
        Ok(())
    }

    /// Gives an open file to the user.
    pub(crate) fn give(&self, file: impl AsFd) -> Result<()> {
        std::os::unix::fs::fchown(file, Some(self.uid.as_raw()), Some(self.gid.as_raw()))
            .map_err(system("giving the artifact to the invoking user"))
    }
}
