//! The capture room.
