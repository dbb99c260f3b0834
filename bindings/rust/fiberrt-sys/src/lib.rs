// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C functions of libfiberrt, as `fiberrt.h` declares them; its comments are the reference. Each name here is the
//! header's. Use the crate `fiberrt` unless it lacks something.
//!
//! The features and the build are in the crate's README. The build script gives dependents the folder of `fiberrt.h`
//! as `DEP_FIBERRT_INCLUDE`, for C code of their own.
//!
//! Rules for Rust, in addition to the header:
//!
//! - A panic must not leave a function that the library calls.
//! - The count of panics is the thread's, not the fiber's. So no fiber may wait while its thread unwinds, in a `Drop`
//!   for example: other fibers of the thread would see `std::thread::panicking()`.
//! - When a thread exits, the stacks of fibers left there are freed, and their values are not dropped.
//! - All zero bytes are a fresh primitive (`std::mem::zeroed`), except of `fiber_barrier_t`. It must not move while a
//!   caller holds it or waits for it.
#![allow(non_camel_case_types)]

#[allow(improper_ctypes)] // libc::open_how may get members; the header passes its size
mod bindings;

pub use bindings::*;
