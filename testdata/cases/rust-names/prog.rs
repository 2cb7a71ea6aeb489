//! Names that Rust mangles: a method of a generic type, a trait's method, a
//! closure behind a pointer, a boxed value and a growing vector.
use std::alloc::{Layout, alloc};
use std::hint::black_box;

#[inline(never)]
fn take(bytes: usize) {
    // SAFETY: the layout has a size above 0; the block is never freed.
    black_box(unsafe { alloc(Layout::from_size_align(bytes, 1).unwrap()) }); // @take
}

trait Taking {
    fn take_some(&self);
}

struct Crate<T>(T);

impl<T: Into<u64> + Copy> Taking for Crate<T> {
    #[inline(never)]
    fn take_some(&self) {
        take(black_box(8500 + self.0.into() as usize)); // @trait
        black_box(());
    }
}

#[inline(never)]
fn by_closure() {
    let taking: &dyn Fn(usize) = &|bytes| {
        take(black_box(bytes)); // @closure
        black_box(());
    };
    black_box(taking)(8502); // @calls-closure
    black_box(());
}

#[inline(never)]
fn by_vector() {
    black_box(Vec::<u8>::with_capacity(black_box(8503))); // @vector
}

fn main() {
    Crate(1u32).take_some(); // @m1
    by_closure(); // @m2
    by_vector(); // @m3
    black_box(());
}
