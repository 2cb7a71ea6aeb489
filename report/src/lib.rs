//! The report room.

pub mod html;
