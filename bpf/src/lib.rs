//! The bpf room.
