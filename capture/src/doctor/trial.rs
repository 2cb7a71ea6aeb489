//! The tools of a trial: tiny BPF programs, loaded and attached by hand.

#![allow(unsafe_code)]

use libbpf_rs::libbpf_sys::{
    self as sys, BPF_PERF_EVENT, BPF_PROG_TYPE_KPROBE, BPF_TRACE_UPROBE_MULTI, bpf_attach_type,
    bpf_func_id, bpf_link_create_opts, bpf_map_type, bpf_prog_load_opts, bpf_prog_type,
};
use perf_event_open_sys::{
    bindings::{PERF_FLAG_FD_CLOEXEC, perf_event_attr},
    perf_event_open,
};
use std::{
    ffi::CStr,
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    ptr,
};

/// Takes over a descriptor that a call returned, or its error.
fn owned(result: i32) -> io::Result<OwnedFd> {
    if result < 0 {
        // libbpf returns the negated error number.
        return Err(io::Error::from_raw_os_error(-result));
    }
    // SAFETY: the call has just given this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(result) })
}

/// Makes a map of one element.
pub(crate) fn map(kind: bpf_map_type, key: u32, value: u32, entries: u32) -> io::Result<OwnedFd> {
    // SAFETY: a null name and null options are allowed.
    owned(unsafe { sys::bpf_map_create(kind, ptr::null(), key, value, entries, ptr::null()) })
}

/// A counter that BPF programs raise.
pub(super) struct Counter(OwnedFd);

impl Counter {
    pub(super) fn new() -> io::Result<Self> {
        map(sys::BPF_MAP_TYPE_ARRAY, 4, 8, 1).map(Self)
    }

    pub(super) fn value(&self) -> u64 {
        let [value] = read_element(&self.0);
        value
    }
}

/// The element of a map whose value is `N` numbers; zeros when it is not there.
pub(crate) fn read_element<const N: usize>(map: &OwnedFd) -> [u64; N] {
    let (key, mut values) = (0u32, [0; N]);
    // SAFETY: key and value have the sizes that the callers made the map with.
    unsafe {
        sys::bpf_map_lookup_elem(
            map.as_raw_fd(),
            ptr::from_ref(&key).cast(),
            values.as_mut_ptr().cast(),
        );
    }
    values
}

/// One instruction as the kernel reads it (`struct bpf_insn`).
pub(crate) const fn instruction(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> u64 {
    code as u64
        | ((to & 15 | from << 4) as u64) << 8
        | (offset.cast_unsigned() as u64) << 16
        | (immediate.cast_unsigned() as u64) << 32
}

/// What kind of program to load.
#[derive(Clone, Copy, Default)]
pub(crate) struct Kind {
    pub(crate) program: bpf_prog_type,
    pub(crate) attach: bpf_attach_type,
    /// The kernel function or tracepoint, for kinds that are bound to one.
    pub(crate) target: Option<&'static CStr>,
}

/// Loads a program that raises the counter and returns 0:
///
/// ```text
///  0  *(u32 *)(r10 - 4) = 0
///  1  r2 = r10
///  2  r2 += -4
///  3  r1 = counter
///  5  call map_lookup_elem
///  6  if r0 == 0 goto 9
///  7  r1 = 1
///  8  lock *(u64 *)(r0 + 0) += r1
///  9  r0 = 0
/// 10  exit
/// ```
pub(super) fn load(kind: Kind, counter: &Counter) -> io::Result<OwnedFd> {
    let program = [
        instruction(0x62, 10, 0, -4, 0),
        instruction(0xbf, 2, 10, 0, 0),
        instruction(0x07, 2, 0, 0, -4),
        instruction(0x18, 1, PSEUDO_MAP_FD, 0, counter.0.as_raw_fd()),
        0,
        instruction(0x85, 0, 0, 0, MAP_LOOKUP_ELEM),
        instruction(0x15, 0, 0, 2, 0),
        instruction(0xb7, 1, 0, 0, 1),
        instruction(0xdb, 0, 1, 0, 0),
        instruction(0xb7, 0, 0, 0, 0),
        instruction(0x95, 0, 0, 0, 0),
    ];
    load_instructions(kind, &program)
}

/// `BPF_PSEUDO_MAP_FD`: the immediate is a map's descriptor.
pub(crate) const PSEUDO_MAP_FD: u8 = 1;
/// `BPF_FUNC_map_lookup_elem`
pub(crate) const MAP_LOOKUP_ELEM: i32 = 1;

/// Loads a program of these instructions.
pub(crate) fn load_instructions(kind: Kind, program: &[u64]) -> io::Result<OwnedFd> {
    let mut options = bpf_prog_load_opts {
        sz: size_of::<bpf_prog_load_opts>() as u64,
        expected_attach_type: kind.attach,
        ..bpf_prog_load_opts::default()
    };
    if let Some(target) = kind.target {
        // SAFETY: `target` is a C string.
        let id = unsafe { sys::libbpf_find_vmlinux_btf_id(target.as_ptr(), kind.attach) };
        options.attach_btf_id =
            u32::try_from(id).map_err(|_| io::Error::from_raw_os_error(id.saturating_neg()))?;
    }
    // SAFETY: the instructions have the layout and alignment of `bpf_insn`,
    // and all that is pointed to outlives the call.
    owned(unsafe {
        sys::bpf_prog_load(
            kind.program,
            ptr::null(),
            c"GPL".as_ptr(),
            program.as_ptr().cast(),
            program.len() as u64,
            &mut options,
        )
    })
}

/// Attaches a program to the tracepoint, function or hook it was loaded for.
pub(super) fn attach_typed(program: &OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: a null name means the target of the program itself.
    owned(unsafe { sys::bpf_raw_tracepoint_open(ptr::null(), program.as_raw_fd()) })
}

/// Attaches a program to a raw tracepoint.
pub(super) fn attach_raw(program: &OwnedFd, name: &CStr) -> io::Result<OwnedFd> {
    // SAFETY: `name` is a C string.
    owned(unsafe { sys::bpf_raw_tracepoint_open(name.as_ptr(), program.as_raw_fd()) })
}

/// Whose hits count.
#[derive(Clone, Copy)]
pub(crate) enum Scope {
    /// Every process: what capture does.
    System,
    /// Only this process: nobody else is slowed down.
    #[cfg(test)]
    OwnProcess,
}

/// A perf event that fires at a place, for a program to be attached to.
pub(crate) fn perf_event(mut attr: perf_event_attr, scope: Scope) -> io::Result<OwnedFd> {
    attr.size = size_of::<perf_event_attr>() as u32;
    let (pid, cpu) = match scope {
        Scope::System => (-1, 0),
        #[cfg(test)]
        Scope::OwnProcess => (0, -1),
    };
    // SAFETY: `attr` is a whole, initialised `perf_event_attr` of the size it
    // states; what it points to is borrowed by the caller for the call.
    let fd = unsafe { perf_event_open(&mut attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC.into()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    owned(fd)
}

/// Attaches a program to a perf event, with a cookie as capture uses it.
pub(crate) fn attach_perf(program: &OwnedFd, event: &OwnedFd) -> io::Result<OwnedFd> {
    let mut options = link_options();
    options.__bindgen_anon_1.perf_event =
        sys::bpf_link_create_opts__bindgen_ty_1__bindgen_ty_1 { bpf_cookie: 1 };
    link(program, event.as_raw_fd(), BPF_PERF_EVENT, &options)
}

/// Attaches a program to one place of a file by uprobe_multi.
pub(super) fn attach_multi(program: &OwnedFd, path: &CStr, offset: u64) -> io::Result<OwnedFd> {
    let offsets = [offset];
    let cookies = [1u64];
    let mut options = link_options();
    options.__bindgen_anon_1.uprobe_multi = sys::bpf_link_create_opts__bindgen_ty_1__bindgen_ty_3 {
        cnt: 1,
        path: path.as_ptr(),
        offsets: offsets.as_ptr(),
        cookies: cookies.as_ptr(),
        ..Default::default()
    };
    link(program, 0, BPF_TRACE_UPROBE_MULTI, &options)
}

fn link_options() -> bpf_link_create_opts {
    bpf_link_create_opts {
        sz: size_of::<bpf_link_create_opts>() as u64,
        ..bpf_link_create_opts::default()
    }
}

fn link(
    program: &OwnedFd,
    target: RawFd,
    kind: bpf_attach_type,
    options: &bpf_link_create_opts,
) -> io::Result<OwnedFd> {
    // SAFETY: `options` states its size, and what it points to is borrowed by
    // the callers for the call.
    owned(unsafe { sys::bpf_link_create(program.as_raw_fd(), target, kind, options) })
}

/// Whether probe programs may call a helper: 1 yes, 0 no, else an error.
pub(super) fn has_helper(helper: bpf_func_id) -> io::Result<bool> {
    // SAFETY: null options are what the call asks for.
    match unsafe { sys::libbpf_probe_bpf_helper(BPF_PROG_TYPE_KPROBE, helper, ptr::null()) } {
        0 => Ok(false),
        1 => Ok(true),
        error => Err(io::Error::from_raw_os_error(error.saturating_neg())),
    }
}

/// The function that trials probe. It must not be inlined or folded away.
#[inline(never)]
pub(super) extern "C" fn probed(value: u64) -> u64 {
    std::hint::black_box(value).wrapping_mul(3)
}
