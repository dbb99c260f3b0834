// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the results of waits mean, and the calls that need nothing else: sleep, timeout, shield.

use fiberrt_sys as sys;
use libc::c_int;
use std::any::Any;
use std::fmt;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::time::Duration;

/// The payload with which a cancelled fiber unwinds. Only code that catches panics sees it.
pub struct Cancelled(());

/// The time of a [`timeout()`] has passed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Elapsed(());

impl Cancelled {
    pub(crate) fn new() -> Cancelled {
        Cancelled(())
    }
}

impl fmt::Debug for Cancelled {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Cancelled")
    }
}

impl fmt::Debug for Elapsed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Elapsed")
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the time has passed")
    }
}

impl std::error::Error for Elapsed {}

/// Returns the duration in nanoseconds. A duration that is too long is forever.
pub(crate) fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(sys::FIBER_FOREVER)
}

/// Returns the text of an error of the library.
pub(crate) fn text(error: c_int) -> String {
    std::io::Error::from_raw_os_error(error).to_string()
}

/// Tells whether the thread unwinds: then no fiber may wait.
pub(crate) fn unwinding() -> bool {
    std::thread::panicking()
}

/// Panics, in a Drop that runs because of a panic. This ends the process.
pub(crate) fn refuse(call: &str) -> ! {
    panic!("fiberrt: {} would have to wait while its thread unwinds", call)
}

/// Unwinds the calling fiber, which was cancelled.
pub(crate) fn unwind_cancelled() -> ! {
    leave(Box::new(Cancelled::new()))
}

fn leave(payload: Box<dyn Any + Send>) -> ! {
    if cfg!(panic = "abort") {
        eprintln!("fiberrt: a cancel or a timeout needs panic = \"unwind\"");
        std::process::abort();
    }
    resume_unwind(payload)
}

/// Returns the result of a call that waits, or its positive error. Unwinds if the caller was cancelled, or if the
/// deadline of a `timeout` around the call has passed.
pub(crate) fn check(result: i64) -> Result<i64, c_int> {
    if result >= 0 {
        return Ok(result);
    }
    let error = -result as c_int;
    match error {
        libc::ECANCELED => unwind_cancelled(),
        libc::ETIMEDOUT if deadline_has_passed() => leave(Box::new(Elapsed(()))),
        // The caller is in a no-switch section, for example in the Drop of a closure that never ran.
        libc::EPERM if unsafe { sys::fiber_here() } == 0 => {
            panic!("fiberrt: a wait where the library allows none")
        }
        _ => Err(error),
    }
}

/// Makes a call that waits until it is not interrupted. The errors left over are mistakes, so they panic, except those
/// in `expected`.
pub(crate) fn wait(call: &str, expected: &[c_int], mut attempt: impl FnMut() -> c_int) -> Result<(), c_int> {
    loop {
        match check(attempt().into()) {
            Ok(_) => return Ok(()),
            Err(libc::EINTR) => continue,
            Err(error) if expected.contains(&error) => return Err(error),
            Err(libc::EDEADLK) => panic!("fiberrt: {}: a deadlock: nothing can end this wait", call),
            Err(error) => panic!("fiberrt: {}: {}", call, text(error)),
        }
    }
}

/// Tells whether -ETIMEDOUT came from a deadline of the caller: then every later wait returns it, too.
fn deadline_has_passed() -> bool {
    match unsafe { sys::fiber_reschedule() } {
        error if error == -libc::ECANCELED => unwind_cancelled(),
        error => error == -libc::ETIMEDOUT,
    }
}

/// For a call whose own time is over: unwinds if the deadline of a `timeout` around the call has passed, too.
pub(crate) fn own_time_is_over() {
    if unsafe { sys::fiber_here() } == 1 && deadline_has_passed() {
        leave(Box::new(Elapsed(())))
    }
}

/// Waits for at least this time.
///
/// ```
/// fiberrt::sleep(std::time::Duration::from_millis(1));
/// ```
///
/// # Panics
///
/// If the thread unwinds.
pub fn sleep(duration: Duration) {
    if unwinding() {
        refuse("sleep");
    }
    let end = unsafe { sys::fiber_now() }.saturating_add(nanoseconds(duration));
    let mut left = nanoseconds(duration);
    let slept = wait("sleep", &[], || {
        let result = unsafe { sys::fiber_sleep(left) };
        left = end.saturating_sub(unsafe { sys::fiber_now() }).max(0); // after an interrupt
        result
    });
    debug_assert!(slept.is_ok());
}

/// Lets every other runnable fiber of the thread run once. Does nothing while the thread unwinds.
pub fn yield_now() {
    if !unwinding() {
        let _ = wait("yield_now", &[], || unsafe { sys::fiber_reschedule() });
    }
}

/// Tells whether the calling fiber was cancelled, for code that computes without waits.
pub fn is_cancelled() -> bool {
    unsafe { sys::fiber_cancelled(std::ptr::null_mut()) == 1 }
}

/// A scope of the library without children.
struct Limit(sys::fiber_scope_t);

impl Limit {
    fn open(timeout_ns: i64, flags: libc::c_uint) -> Limit {
        let mut scope = sys::fiber_scope_t::default();
        let result = unsafe { sys::fiber_scope_open(&mut scope, timeout_ns, flags) };
        assert!(result == 0, "fiberrt: no scope: {}", text(-result));
        Limit(scope)
    }

    /// Closes it, and tells whether its time has passed.
    fn close(self) -> bool {
        unsafe { sys::fiber_scope_close(self.0, std::ptr::null_mut()) == -libc::ETIMEDOUT }
    }
}

/// Calls a closure, and ends it at its present or next wait when the time has passed: the closure unwinds.
///
/// Timeouts nest, and the earliest counts. A closure that returns although its time has passed succeeds.
///
/// ```
/// use std::time::Duration;
///
/// let late = fiberrt::timeout(Duration::from_millis(1), || fiberrt::sleep(Duration::from_secs(60)));
/// assert!(late.is_err());
/// ```
///
/// # Errors
///
/// [`Elapsed`] if a wait ended because the time has passed.
pub fn timeout<T>(duration: Duration, f: impl FnOnce() -> T) -> Result<T, Elapsed> {
    let limit = Limit::open(nanoseconds(duration), 0);
    let result = catch_unwind(AssertUnwindSafe(f));
    let passed = limit.close();
    match result {
        Ok(value) => Ok(value),
        Err(payload) if passed && payload.is::<Elapsed>() => Err(Elapsed(())),
        Err(payload) => resume_unwind(payload), // also the end of an outer timeout
    }
}

/// Makes one call of the library with a limit. Returns its result, and whether the limit ended it.
pub(crate) fn limited(timeout_ns: i64, call: impl FnOnce() -> i64) -> (i64, bool) {
    if timeout_ns == sys::FIBER_FOREVER {
        return (call(), false);
    }
    let limit = Limit::open(timeout_ns, 0);
    let result = call();
    let passed = limit.close();
    (result, passed && result == -i64::from(libc::ETIMEDOUT))
}

/// Calls a closure, and holds back cancels and the ends of outer timeouts until it has returned: for code that must not
/// stop halfway.
///
/// ```
/// # fn save() {}
/// let saved = fiberrt::shield(|| {
///     save(); // may wait, also in a fiber that was cancelled
///     true
/// });
/// assert!(saved);
/// ```
///
/// No call waits while the thread unwinds, also not in a shield. [The crate](crate#unwinding) shows cleanup that waits.
pub fn shield<T>(f: impl FnOnce() -> T) -> T {
    let limit = Limit::open(sys::FIBER_FOREVER, sys::FIBER_SCOPE_SHIELD);
    let result = catch_unwind(AssertUnwindSafe(f));
    limit.close();
    result.unwrap_or_else(|payload| resume_unwind(payload))
}
