//! The kernel's own library, which has no file: every process of the same
//! architecture has the same image, so memtrack's own is taken.

use std::{fs::File, io, os::unix::fs::FileExt};

/// Its path in the module stream.
pub(super) const PATH: &[u8] = b"[vdso]";
/// The image is a few pages.
const MAX_BYTES: u64 = 1 << 20;

/// The image as it is mapped in this process.
pub(super) fn read() -> io::Result<Vec<u8>> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let (start, end) = maps
        .lines()
        .filter(|line| line.ends_with("[vdso]"))
        .find_map(|line| {
            let (start, rest) = line.split_once('-')?;
            let (end, _) = rest.split_once(' ')?;
            let parse = |text| u64::from_str_radix(text, 16).ok();
            Some((parse(start)?, parse(end)?))
        })
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no [vdso] in /proc/self/maps"))?;
    let len = end.saturating_sub(start).min(MAX_BYTES);
    let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
    File::open("/proc/self/mem")?.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use crate::elf::ElfFile;

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
