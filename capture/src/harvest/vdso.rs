//! The kernel's own library, which has no file: every process of the same
//! architecture has the same image, so memtrack's own is taken.

use std::{fs::File, io, os::unix::fs::FileExt};

/// Its path in the module stream.
pub(super) const PATH: &[u8] = b"[vdso]";
/// The image is a few pages.
const MAX_BYTES: u64 = 1 << 20;

/// The image as it is mapped in this process.
pub(super) fn read() -> io::Result<Vec<u8>> {
    // Paths are bytes, and a program with an odd name may be mapped here too.
    let maps = std::fs::read("/proc/self/maps")?;
    let (start, end) = String::from_utf8_lossy(&maps)
        .lines()
        .find_map(address_range)
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no [vdso] in /proc/self/maps"))?;
    let len = end.saturating_sub(start).min(MAX_BYTES);
    let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
    File::open("/proc/self/mem")?.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}

/// Start and end of a line of proc_pid_maps(5) that is the vdso's.
fn address_range(line: &str) -> Option<(u64, u64)> {
    let mut fields = line.split_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    // Permissions, offset, device and inode lie between; a file whose name
    // ends like this has a path that begins with a slash.
    if fields.nth(4)? != "[vdso]" {
        return None;
    }
    let hex = |text| u64::from_str_radix(text, 16).ok();
    Some((hex(start)?, hex(end)?))
}

#[cfg(test)]
mod tests {
    use super::address_range;
    use crate::elf::ElfFile;

    #[test]
    fn only_the_kernels_own_mapping_is_taken() {
        let line = "7ffd8f7e6000-7ffd8f7e8000 r-xp 00000000 00:00 0          [vdso]";
        assert_eq!(
            address_range(line),
            Some((0x7ffd_8f7e_6000, 0x7ffd_8f7e_8000))
        );
        for other in [
            "7f0000000000-7f0000001000 r-xp 00000000 08:01 12    /tmp/x [vdso]",
            "7f0000000000-7f0000001000 r-xp 00000000 08:01 12    /tmp/[vdso]",
            "7f0000000000-7f0000001000 rw-p 00000000 00:00 0",
            "",
        ] {
            assert_eq!(address_range(other), None, "{other}");
        }
    }

    #[test]
    fn the_image_is_an_elf_file() {
        let bytes = match super::read() {
            Ok(bytes) => bytes,
            Err(error) => {
                println!("skipped: {error}");
                return;
            }
        };
        let elf = ElfFile::parse(&bytes).unwrap();
        assert!(elf.code_segments().count() > 0);
    }
}
