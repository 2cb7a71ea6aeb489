//! The layouts on disk, one module per format version. A released version is
//! frozen: a change is a new module, and the reader converts the old one.

pub(crate) mod v1;
