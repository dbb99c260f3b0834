// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocking code on other threads.

use crate::wait::{refuse, unwinding, wait};
use fiberrt_sys as sys;
use libc::c_void;
use std::any::Any;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::ptr::null_mut;

struct Call<F, T> {
    f: Option<F>,
    result: Option<Result<T, Box<dyn Any + Send>>>,
}

/// Calls a closure on another thread, and waits for its result while other fibers run: for code that blocks its thread.
///
/// The closure may borrow, because the call waits for it. A cancel or a timeout ends the call only before the closure
/// has begun. A panic of the closure goes on in the caller. At most 64 closures run at once.
///
/// ```
/// let text = String::from("Cargo.toml");
/// let exists = fiberrt::offload(|| std::path::Path::new(&text).exists());
/// assert!(exists);
/// ```
///
/// # Panics
///
/// If the closure panics, no thread could be made, or the thread unwinds.
pub fn offload<F, T>(f: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    if unwinding() {
        refuse("offload");
    }
    let mut call = Call { f: Some(f), result: None };
    let arg: *mut c_void = (&mut call as *mut Call<F, T>).cast();
    let _ = wait("offload", &[], || unsafe { sys::fiber_offload(Some(run::<F, T>), arg, null_mut()) });
    match call.result.expect("fiberrt: an offloaded function has returned") {
        Ok(value) => value,
        Err(payload) => resume_unwind(payload),
    }
}

unsafe extern "C" fn run<F: FnOnce() -> T, T>(arg: *mut c_void) -> i64 {
    let call = &mut *arg.cast::<Call<F, T>>();
    if let Some(f) = call.f.take() {
        call.result = Some(catch_unwind(AssertUnwindSafe(f)));
    }
    0
}
