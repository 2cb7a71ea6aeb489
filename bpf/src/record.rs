//! The records of the rings, read from their bytes.
//!
//! This is the one place that knows their layout on this side; `abi.h` is the
//! other. Records are read field by field at fixed offsets in the machine's
//! byte order: a record that is too short, or of no known kind, is `None`.

/// Length of `struct event_head`: all of a free or a process event.
const EVENT_HEAD: usize = 32;
/// Length of `struct allocation_record`.
const ALLOCATION: usize = 72;
/// General registers of a stack record.
pub const REGISTER_COUNT: usize = if cfg!(target_arch = "x86_64") { 17 } else { 33 };
/// Length of `struct stack_head`.
const STACK_HEAD: usize = 48 + 8 * REGISTER_COUNT;
/// Length of `struct attach_file`.
const ATTACH_FILE: usize = 32;

/// `EVENT_HAS_STACK`: only within capture, no flag of the artifact.
const HAS_STACK: u8 = 0x80;

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_ne_bytes(field.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(field.try_into().ok()?))
}

/// A record of the event ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it took effect, `CLOCK_MONOTONIC` ns.
    pub time_ns: u64,
    /// When the call was entered.
    pub start_ns: u64,
    /// The block, or the child's pid.
    pub address: u64,
    /// The process (tgid).
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The artifact's number of the kind.
    pub kind: u8,
    /// The artifact's flags.
    pub flags: u8,
    /// Bytes asked for.
    pub size: u64,
    /// `realloc`: the block given.
    pub old_address: u64,
    /// The alignment asked for.
    pub alignment: u64,
    /// The key of its stack, where it has one.
    pub stack_key: Option<u64>,
}

impl Event {
    /// Reads one record.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let flags = *bytes.get(25)?;
        let time_ns = word(bytes, 0)?;
        let mut event = Self {
            time_ns,
            start_ns: time_ns,
            address: word(bytes, 8)?,
            pid: half(bytes, 16)?,
            tid: half(bytes, 20)?,
            kind: *bytes.get(24)?,
            flags: flags & !HAS_STACK,
            size: 0,
            old_address: 0,
            alignment: 0,
            stack_key: None,
        };
        match bytes.len() {
            EVENT_HEAD => {}
            ALLOCATION => {
                event.start_ns = word(bytes, 32)?;
                event.size = word(bytes, 40)?;
                event.old_address = word(bytes, 48)?;
                event.alignment = word(bytes, 56)?;
                event.stack_key = (flags & HAS_STACK != 0).then(|| word(bytes, 64)).flatten();
            }
            _ => return None,
        }
        Some(event)
    }
}

/// A record of the stack ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack<'a> {
    /// Its key.
    pub key: u64,
    /// When it was taken, `CLOCK_MONOTONIC` ns.
    pub time_ns: u64,
    /// Address of the window's first byte.
    pub stack_pointer: u64,
    /// Bytes from there to the top of the stack; 0: unknown.
    pub available_bytes: u64,
    /// The process (tgid).
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Registers by DWARF number.
    pub registers: [u64; REGISTER_COUNT],
    /// The copied bytes.
    pub window: &'a [u8],
    chain: &'a [u8],
}

impl<'a> Stack<'a> {
    /// Reads one record.
    #[must_use]
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let window_bytes = half(bytes, 40)? as usize;
        let chain_bytes = (half(bytes, 44)? as usize).checked_mul(8)?;
        let mut registers = [0; REGISTER_COUNT];
        for (index, register) in registers.iter_mut().enumerate() {
            *register = word(bytes, 48 + 8 * index)?;
        }
        let chain_at = STACK_HEAD.checked_add(window_bytes)?;
        Some(Self {
            key: word(bytes, 0)?,
            time_ns: word(bytes, 8)?,
            stack_pointer: word(bytes, 16)?,
            available_bytes: word(bytes, 24)?,
            pid: half(bytes, 32)?,
            tid: half(bytes, 36)?,
            registers,
            window: bytes.get(STACK_HEAD..chain_at)?,
            chain: bytes.get(chain_at..chain_at.checked_add(chain_bytes)?)?,
        })
    }

    /// Return addresses by the frame-pointer chain, innermost first.
    pub fn chain(&self) -> impl Iterator<Item = u64> + use<'a> {
        self.chain
            .chunks_exact(8)
            .filter_map(|bytes| Some(u64::from_ne_bytes(bytes.try_into().ok()?)))
    }
}

/// A file as the kernel names it: key of the map of known files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileKey {
    /// Inode number.
    pub inode: u64,
    /// Device major and minor number.
    pub device: (u32, u32),
    /// Length in bytes when it was mapped.
    pub size_bytes: u64,
}

impl FileKey {
    /// `MINORBITS` of the kernel's `include/linux/kdev_t.h`.
    const MINOR_BITS: u32 = 20;

    fn read(bytes: &[u8]) -> Option<Self> {
        let device = half(bytes, 8)?;
        Some(Self {
            inode: word(bytes, 0)?,
            device: (
                device >> Self::MINOR_BITS,
                device & ((1 << Self::MINOR_BITS) - 1),
            ),
            size_bytes: word(bytes, 16)?,
        })
    }

    /// The key as the map has it.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 24] {
        let (major, minor) = self.device;
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&self.inode.to_ne_bytes());
        bytes[8..12].copy_from_slice(&(major << Self::MINOR_BITS | minor).to_ne_bytes());
        bytes[16..].copy_from_slice(&self.size_bytes.to_ne_bytes());
        bytes
    }
}

/// A thread waits until files were looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachRequest {
    /// When it was stopped, `CLOCK_MONOTONIC` ns.
    pub time_ns: u64,
    /// The process (tgid).
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Whether it was stopped at all.
    pub stopped: bool,
    /// The files, each with an address at which it is mapped.
    pub files: Vec<(FileKey, u64)>,
}

impl AttachRequest {
    /// Reads one record.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let count = half(bytes, 16)? as usize;
        let files = bytes
            .get(24..)?
            .chunks_exact(ATTACH_FILE)
            .take(count)
            .map(|file| Some((FileKey::read(file)?, word(file, 24)?)))
            .collect::<Option<Vec<_>>>()?;
        Some(Self {
            time_ns: word(bytes, 0)?,
            pid: half(bytes, 8)?,
            tid: half(bytes, 12)?,
            stopped: half(bytes, 20)? != 0,
            files,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_and_an_allocation_are_told_apart_by_their_length() {
        let mut bytes = vec![0_u8; ALLOCATION];
        bytes[0] = 7;
        bytes[24] = 1;
        bytes[25] = HAS_STACK | 1;
        bytes[32] = 5;
        bytes[64] = 9;
        let event = Event::read(&bytes).unwrap();
        assert_eq!((event.time_ns, event.start_ns), (7, 5));
        assert_eq!((event.flags, event.stack_key), (1, Some(9)));
        let event = Event::read(&bytes[..EVENT_HEAD]).unwrap();
        assert_eq!((event.start_ns, event.stack_key), (7, None));
        for len in (0..ALLOCATION).filter(|&len| len != EVENT_HEAD) {
            assert_eq!(Event::read(&bytes[..len]), None, "{len}");
        }
    }

    #[test]
    fn a_stack_whose_lengths_pass_its_end_is_refused() {
        let mut bytes = vec![0_u8; STACK_HEAD + 16 + 8];
        bytes[40] = 16;
        bytes[44] = 1;
        bytes[STACK_HEAD] = 0xaa;
        bytes[STACK_HEAD + 16] = 0xbb;
        let stack = Stack::read(&bytes).unwrap();
        assert_eq!(stack.window.len(), 16);
        assert_eq!(stack.window[0], 0xaa);
        assert_eq!(stack.chain().collect::<Vec<_>>(), [0xbb]);
        for len in 0..bytes.len() {
            assert_eq!(Stack::read(&bytes[..len]), None, "{len}");
        }
        bytes[40..48].fill(0xff);
        assert_eq!(Stack::read(&bytes), None);
    }

    #[test]
    fn a_file_key_keeps_its_bytes() {
        let key = FileKey {
            inode: 12,
            device: (254, 1),
            size_bytes: 4096,
        };
        assert_eq!(FileKey::read(&key.to_bytes()), Some(key));
    }
}
