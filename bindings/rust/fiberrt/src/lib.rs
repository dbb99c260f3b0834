// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fibers: functions on their own stacks that wait without blocking their thread, on Linux.
//!
//! While a fiber waits - for time, a channel, a lock, a connection or another fiber - its thread runs the next fiber.
//! Code stays sequential, without `async`.
//!
//! ```
//! use std::time::Duration;
//!
//! let greeting = fiberrt::run(|| {
//!     let one = fiberrt::spawn(|| {
//!         fiberrt::sleep(Duration::from_millis(10)); // this fiber waits; its thread runs the others
//!         "hello"
//!     });
//!     let two = fiberrt::spawn(|| "fibers");
//!     format!("{}, {}", one.join().unwrap(), two.join().unwrap())
//! });
//! assert_eq!(greeting, "hello, fibers");
//! ```
//!
//! # Where fibers run
//!
//! A fiber never changes its thread, so its data need not be [`Send`]. [`scope()`] waits for its fibers before it
//! returns, so these may borrow. [`spawn()`] makes fibers that own their data; they need a surrounding [`run()`],
//! which waits for them, or a [`Cord`]: another thread with fibers, to which closures go only if they are `Send`.
//!
//! ```compile_fail
//! let shared = std::rc::Rc::new(1);
//! let cord = fiberrt::Cord::start(|| ()).unwrap();
//! let _ = cord.remote().spawn(move || *shared); // the Rc would change its thread
//! ```
//!
//! The main flow of a thread, the code outside of all fibers, may make every call of this crate. When it waits, the
//! fibers of the thread run.
//!
//! # Cancelling
//!
//! A fiber that was cancelled ([`JoinHandle::cancel`]) unwinds at its present wait or its next one, as by a panic without
//! a message: its values are dropped, and a joiner gets [`JoinError::Cancelled`]. [`timeout()`] ends its closure in the
//! same way. [`shield()`] holds both back. A `catch_unwind` sees the payload [`Cancelled`]; if it goes on, the next wait
//! unwinds again. The crate needs `panic = "unwind"`: with `panic = "abort"` a cancel or a timeout ends the process.
//!
//! # Unwinding
//!
//! Rust counts panics for each thread, not for each fiber. So no fiber waits while its thread unwinds: in a `Drop`
//! during a panic or a cancel, calls on connections return an error. Other calls try once, and if they would have to
//! wait, they panic, which ends the process with a message. No `Drop` of this crate waits. [`shield()`] changes nothing
//! of this: cleanup that waits comes after a `catch_unwind`, and not in a `Drop`.
//!
//! ```
//! use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
//!
//! fn then_clean_up<T>(work: impl FnOnce() -> T, clean_up: impl FnOnce()) -> T {
//!     let result = catch_unwind(AssertUnwindSafe(work)); // ends the unwinding
//!     fiberrt::shield(clean_up); // may wait, also in a fiber that was cancelled
//!     result.unwrap_or_else(|payload| resume_unwind(payload))
//! }
//! # fiberrt::run(|| {
//! #     let cleaned = std::rc::Rc::new(std::cell::Cell::new(false));
//! #     let inner = cleaned.clone();
//! #     let clean_up = move || {
//! #         fiberrt::sleep(std::time::Duration::from_millis(1));
//! #         inner.set(true);
//! #     };
//! #     let work = || fiberrt::sleep(std::time::Duration::from_secs(60));
//! #     let fiber = fiberrt::spawn(move || then_clean_up(work, clean_up));
//! #     fiberrt::yield_now();
//! #     fiber.cancel();
//! #     assert!(fiber.join().unwrap_err().is_cancelled() && cleaned.get());
//! # });
//! ```
//!
//! # What fibers share
//!
//! The fibers of a thread share its `thread_local!` variables, and a [`std::sync::Mutex`] blocks the whole thread: never
//! hold its guard over a wait, and use [`Mutex`] instead. Code that stores a pointer to its own stack in a thread-local
//! variable while it calls a closure, as the crate `scoped-tls` and the context of async runtimes do, relies on the
//! calls of a thread ending in reverse order. Fibers do not end in reverse order, so do not wait in such a closure.
//!
//! Do not wait while a `thread_local!` variable is initialized or its value is dropped: another fiber could
//! keep a reference to a value that the thread drops. The compiler cannot check this. An initializer of a `OnceLock` or
//! `LazyLock` that waits can block the thread for ever.
//!
//! All other blocking calls block the thread, too: [`offload()`] runs them on another thread.
#![warn(missing_docs, missing_debug_implementations)]

pub mod channel;
mod cord;
mod fiber;
mod item;
mod join;
mod mutex;
pub mod net;
mod offload;
mod scope;
mod wait;

pub use cord::{Cord, Remote, RemoteJoinHandle};
pub use fiber::{run, spawn, Builder};
pub use fiberrt_sys as sys;
pub use join::{JoinError, JoinHandle};
pub use mutex::{Mutex, MutexGuard};
pub use offload::offload;
pub use scope::{scope, Scope, ScopedJoinHandle};
pub use wait::{is_cancelled, shield, sleep, timeout, yield_now, Cancelled, Elapsed};

// The README's programs compile and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
