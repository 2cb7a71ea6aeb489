//! Which functions only hand an allocation on: the frames between the
//! allocator and the code that wanted the memory.
//!
//! A call site is the innermost frame that is none of these. The list is
//! deliberately about *allocating*, not about containers: `std::vector::
//! push_back` or `list_append` are answers to "who wanted memory", `operator
//! new` or `PyObject_Malloc` are not.

/// C functions by their whole name.
const EXACT: &[&str] = &[
    // The C library, under its own and its internal names.
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "aligned_alloc",
    "memalign",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "cfree",
    "__libc_malloc",
    "__libc_calloc",
    "__libc_realloc",
    "__libc_reallocarray",
    "__libc_memalign",
    "__libc_valloc",
    "__libc_pvalloc",
    "__posix_memalign",
    "__malloc",
    "__calloc",
    "__realloc",
    "_int_malloc",
    "_int_realloc",
    "_int_memalign",
    "_mid_memalign",
    "malloc_hook_ini",
    "__GI___libc_malloc",
    "__GI___libc_realloc",
    "__GI___libc_calloc",
    // A copy made for the caller.
    "strdup",
    "__strdup",
    "__GI___strdup",
    "strndup",
    "__strndup",
    "wcsdup",
    "__wcsdup",
    // gnulib, git, binutils, GCC: allocate or exit.
    "xmalloc",
    "xcalloc",
    "xrealloc",
    "xzalloc",
    "xnmalloc",
    "xnrealloc",
    "xnzalloc",
    "x2realloc",
    "x2nrealloc",
    "xreallocarray",
    "ximalloc",
    "xirealloc",
    "xizalloc",
    "xicalloc",
    "xcharalloc",
    "xpalloc",
    "xmemdup",
    "ximemdup",
    "xmemdupz",
    "xstrdup",
    "xstrndup",
    "xmallocz",
    "do_xmalloc",
    "do_xmallocz",
    "safe_malloc",
    "safe_calloc",
    "safe_realloc",
    "checked_malloc",
    "emalloc",
    "ecalloc",
    "erealloc",
    // GLib.
    "g_malloc",
    "g_malloc0",
    "g_realloc",
    "g_malloc_n",
    "g_malloc0_n",
    "g_realloc_n",
    "g_try_malloc",
    "g_try_malloc0",
    "g_try_realloc",
    "g_try_malloc_n",
    "g_try_realloc_n",
    "g_aligned_alloc",
    "g_slice_alloc",
    "g_slice_alloc0",
    "g_strdup",
    "g_strndup",
    "g_memdup",
    "g_memdup2",
    // CPython: the raw, memory and object domains, and the allocation half of
    // the garbage collector.
    "PyMem_RawMalloc",
    "PyMem_RawCalloc",
    "PyMem_RawRealloc",
    "PyMem_Malloc",
    "PyMem_Calloc",
    "PyMem_Realloc",
    "PyObject_Malloc",
    "PyObject_Calloc",
    "PyObject_Realloc",
    "_PyMem_RawMalloc",
    "_PyMem_RawCalloc",
    "_PyMem_RawRealloc",
    "_PyMem_DebugRawAlloc",
    "_PyMem_DebugRawMalloc",
    "_PyMem_DebugRawCalloc",
    "_PyMem_DebugRawRealloc",
    "_PyMem_DebugMalloc",
    "_PyMem_DebugCalloc",
    "_PyMem_DebugRealloc",
    "_PyMem_MiMalloc",
    "_PyMem_RawStrdup",
    "_PyMem_RawWcsdup",
    "_PyMem_Strdup",
    "_PyObject_Malloc",
    "_PyObject_Calloc",
    "_PyObject_Realloc",
    "_PyObject_GC_Alloc",
    "_PyObject_GC_Malloc",
    "_PyObject_GC_Calloc",
    "_PyObject_GC_Resize",
    "gc_alloc",
    "pymalloc_alloc",
    "pymalloc_realloc",
    "allocate_from_new_pool",
    "new_arena",
    "_PyObject_Arena",
    "_PyMem_ArenaAlloc",
    // SQLite.
    "sqlite3MemMalloc",
    "sqlite3MemRealloc",
    "sqlite3Malloc",
    "sqlite3MallocZero",
    "sqlite3Realloc",
    "sqlite3_malloc",
    "sqlite3_malloc64",
    "sqlite3_realloc",
    "sqlite3_realloc64",
    "mallocWithAlarm",
    "sqlite3DbMallocRaw",
    "sqlite3DbMallocRawNN",
    "sqlite3DbMallocZero",
    "sqlite3DbRealloc",
    "sqlite3DbReallocOrFree",
    "dbMallocRawFinish",
    "dbReallocFinish",
    "sqlite3DbStrDup",
    "sqlite3DbStrNDup",
    "memsys5Malloc",
    // OpenSSL, libxml2, zlib, APR.
    "CRYPTO_malloc",
    "CRYPTO_zalloc",
    "CRYPTO_realloc",
    "CRYPTO_strdup",
    "xmlMallocAtomic",
    "zcalloc",
    "apr_palloc",
    "apr_pcalloc",
    // Rust's allocator shims (version 0 names carry the crate in front, see
    // `LAST_SEGMENT`).
    "exchange_malloc",
];

/// Allocation functions by the last part of their path, whatever is in front
/// (`__rustc::__rust_alloc`, `std::alloc::__default_lib_allocator::__rdl_alloc`).
const LAST_SEGMENT: &[&str] = &[
    "__rust_alloc",
    "__rust_alloc_zeroed",
    "__rust_realloc",
    "__rdl_alloc",
    "__rdl_alloc_zeroed",
    "__rdl_realloc",
    "__rg_alloc",
    "__rg_alloc_zeroed",
    "__rg_realloc",
    "__libcpp_allocate",
    "__libcpp_operator_new",
];

/// Everything below these paths.
const PREFIX: &[&str] = &[
    // Rust: the allocator interface, and growth of vectors and strings, whose
    // caller is of interest.
    "alloc::alloc::",
    "alloc::raw_vec::",
    "std::alloc::",
    "std::sys::alloc::",
    "core::alloc::",
    // C++ allocators of libstdc++ and libc++.
    "std::allocator::",
    "std::__new_allocator::",
    "std::allocator_traits::",
    "std::__allocator_traits_base::",
    "std::__1::allocator::",
    "std::__1::allocator_traits::",
    "std::__allocate_guarded",
    "std::__1::__allocate_at_least",
    "std::pmr::",
    "__gnu_cxx::new_allocator::",
    "__gnu_cxx::malloc_allocator::",
    "__gnu_cxx::__alloc_traits::",
    "__gnu_cxx::__pool_alloc::",
    "__gnu_cxx::__mt_alloc::",
    "__gnu_cxx::bitmap_allocator::",
];

/// Members of standard containers that only obtain storage.
const STANDARD_MEMBER: &[&str] = &[
    "_M_allocate",
    "_M_allocate_node",
    "_M_allocate_buckets",
    "_M_allocate_map",
    "_M_get_node",
    "_M_create",
    "_M_create_storage",
    "_S_create",
    "_S_allocate",
    "allocate",
    "_M_allocate_and_copy",
];

/// Whether `name`, a demangled function name, only allocates for its caller.
pub(crate) fn is_allocation_function(name: &str) -> bool {
    // Suffixes of copies that the compiler made: `xmalloc.part.0`.
    let plain = name.split_once('.').map_or(name, |(plain, _)| plain);
    if EXACT.contains(&plain) || name.starts_with("operator new") {
        return true;
    }
    // Rust: `<alloc::alloc::Global as core::alloc::Allocator>::allocate`,
    // `std::sys::alloc::unix::<impl core::alloc::GlobalAlloc for ...>::alloc`.
    if name.contains(" as core::alloc::") || name.contains("GlobalAlloc for ") {
        return true;
    }
    let path = path_of(name);
    if PREFIX.iter().any(|prefix| path.starts_with(prefix)) {
        return true;
    }
    let last = path.rsplit("::").next().unwrap_or_default();
    LAST_SEGMENT.contains(&last)
        || (STANDARD_MEMBER.contains(&last)
            && (path.starts_with("std::") || path.starts_with("__gnu_cxx::")))
}

/// The path alone: without template arguments, parameters, return type, and
/// without the brackets around a Rust self type
/// (`<alloc::raw_vec::RawVec<u8>>::grow_one` is
/// `alloc::raw_vec::RawVec::grow_one`).
fn path_of(name: &str) -> String {
    let name = match name.strip_prefix('<') {
        // `<A as B>::c` was looked at by the caller; what is left of it is
        // not the path of a function that allocates.
        Some(inner) if !name.contains(" as ") => match closing(inner) {
            Some(end) => {
                let (own_type, rest) = inner.split_at(end);
                return path_of(own_type) + &path_of(rest.get(1..).unwrap_or_default());
            }
            None => name,
        },
        _ => name,
    };
    let mut path = String::with_capacity(name.len());
    let mut depth = 0usize;
    for character in name.chars() {
        match character {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            // Parameters begin; "(anonymous namespace)" is no allocator.
            '(' => break,
            // What came before was a return type or "static".
            ' ' => path.clear(),
            _ => path.push(character),
        }
    }
    // Rust writes `Vec::<u8>::push` for what C++ writes `vector<char>::push`.
    path.replace("::::", "::")
}

/// Where the bracket that was opened before `text` closes.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1usize;
    for (position, character) in text.char_indices() {
        match character {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(position);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocation_functions_are_told_from_who_wanted_the_memory() {
        for name in [
            "malloc",
            "xmalloc.part.0",
            "operator new(unsigned long)",
            "operator new[](unsigned long, std::align_val_t)",
            "std::allocator_traits<std::allocator<int> >::allocate(std::allocator<int>&, unsigned long)",
            "__gnu_cxx::new_allocator<int>::allocate(unsigned long, void const*)",
            "std::_Vector_base<int, std::allocator<int> >::_M_allocate(unsigned long)",
            "std::__detail::_Hash_node<int>* std::__detail::_Hashtable_alloc<std::allocator<int> >::_M_allocate_node<int const&>(int const&)",
            "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::_M_create(unsigned long&, unsigned long)",
            "__rust_alloc",
            "__rustc::__rust_alloc",
            "std::alloc::__default_lib_allocator::__rdl_alloc",
            "alloc::alloc::alloc",
            "<alloc::alloc::Global as core::alloc::Allocator>::allocate",
            "alloc::raw_vec::RawVec<T,A>::grow_one",
            "<alloc::raw_vec::RawVec<u8>>::grow_one",
            "alloc::raw_vec::RawVecInner<A>::try_allocate_in",
            "std::sys::alloc::unix::<impl core::alloc::global::GlobalAlloc for std::alloc::System>::alloc",
            "PyObject_Malloc",
            "_PyMem_RawMalloc",
        ] {
            assert!(is_allocation_function(name), "{name}");
        }
        for name in [
            "main",
            "mallocator",
            "my_malloc_test(int)",
            "std::vector<int, std::allocator<int> >::push_back(int const&)",
            "alloc::vec::Vec<T,A>::push",
            "<alloc::vec::Vec<u8> as core::clone::Clone>::clone",
            "list_append",
            "app::alloc::alloc::load",
            "pool::allocate(int)",
            "foo(std::allocator<int>::pointer)",
            "<unclosed",
            "",
        ] {
            assert!(!is_allocation_function(name), "{name}");
        }
    }
}
