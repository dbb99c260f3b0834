// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the result of a fiber reaches its joiner: a packet that both own.

use crate::wait::{refuse, unwinding, wait, Cancelled};
use fiberrt_sys as sys;
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::marker::PhantomData;
use std::mem::zeroed;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

/// Why a fiber has no result.
#[non_exhaustive]
pub enum JoinError {
    /// It was cancelled.
    Cancelled,
    /// It panicked, with this payload.
    Panicked(Box<dyn Any + Send + 'static>),
    /// It never ran, because the system gave it no stack.
    NoStack,
}

impl JoinError {
    /// Tells whether the fiber was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, JoinError::Cancelled)
    }

    /// Returns the payload of the panic, for [`std::panic::resume_unwind`].
    pub fn into_panic(self) -> Option<Box<dyn Any + Send + 'static>> {
        match self {
            JoinError::Panicked(payload) => Some(payload),
            _ => None,
        }
    }

    fn of(payload: Box<dyn Any + Send>) -> JoinError {
        if payload.is::<Cancelled>() {
            JoinError::Cancelled
        } else {
            JoinError::Panicked(payload)
        }
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "JoinError({})", self)
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let payload = match self {
            JoinError::Cancelled => return out.write_str("the fiber was cancelled"),
            JoinError::NoStack => return out.write_str("the fiber had no stack"),
            JoinError::Panicked(payload) => payload,
        };
        let message = payload.downcast_ref::<&str>().copied();
        match message.or_else(|| payload.downcast_ref::<String>().map(|text| text.as_str())) {
            Some(message) => write!(out, "the fiber panicked: {}", message),
            None => out.write_str("the fiber panicked"),
        }
    }
}

impl std::error::Error for JoinError {}

/// How fibers of a scope have ended.
#[derive(Default)]
pub(crate) struct Ends {
    pub(crate) unjoined_panic: Cell<Option<Box<dyn Any + Send>>>, // of the first that panicked and was not joined
    pub(crate) some_cancelled: Cell<bool>,
}

/// The result of a fiber on its way. The fiber writes the result before it sets `done`; the joiner takes it after.
pub(crate) struct Packet<T> {
    // Set right after `done`. It must not move while a joiner waits, so the packet lies in an Arc.
    event: UnsafeCell<sys::fiber_event_t>,
    done: AtomicBool,
    result: UnsafeCell<Option<Result<T, JoinError>>>,
    fiber: AtomicU64,       // its handle; 0 until spawn has returned
    ends: Option<Rc<Ends>>, // of a fiber of a scope, which runs on the scope's thread
}

impl<T> Packet<T> {
    pub(crate) fn new(ends: Option<Rc<Ends>>) -> Arc<Packet<T>> {
        Arc::new(Packet {
            event: UnsafeCell::new(unsafe { zeroed() }), // a fresh event
            done: AtomicBool::new(false),
            result: UnsafeCell::new(None),
            fiber: AtomicU64::new(0),
            ends,
        })
    }

    pub(crate) fn set_fiber(&self, fiber: sys::fiber_t) {
        self.fiber.store(fiber.id, Ordering::Relaxed);
    }

    fn fiber(&self) -> sys::fiber_t {
        sys::fiber_t { id: self.fiber.load(Ordering::Relaxed) }
    }

    /// Stores the result. Only the fiber calls it, once.
    pub(crate) fn finish(&self, result: Result<T, JoinError>) {
        if let (Err(JoinError::Cancelled), Some(ends)) = (&result, &self.ends) {
            ends.some_cancelled.set(true);
        }
        unsafe { *self.result.get() = Some(result) };
        self.done.store(true, Ordering::Release);
        if !cfg!(miri) {
            unsafe { sys::fiber_event_set(self.event.get()) }; // miri has no library: its tests only take results
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Takes the result. Only the joiner calls it, once, after the end.
    pub(crate) fn take(&self) -> Result<T, JoinError> {
        debug_assert!(self.is_finished());
        unsafe { (*self.result.get()).take() }.expect("fiberrt: a result is taken once")
    }

    pub(crate) fn join(&self) -> Result<T, JoinError> {
        while !self.is_finished() {
            if unwinding() {
                refuse("join");
            }
            let _ = wait("join", &[], || unsafe { sys::fiber_event_wait(self.event.get()) });
        }
        self.take()
    }

    pub(crate) fn cancel(&self) {
        // An error says that the fiber has ended.
        unsafe { sys::fiber_cancel(self.fiber(), std::ptr::null_mut()) };
    }
}

impl<T> Drop for Packet<T> {
    fn drop(&mut self) {
        if let (Some(Err(JoinError::Panicked(payload))), Some(ends)) = (self.result.get_mut().take(), &self.ends) {
            let earlier = ends.unjoined_panic.take();
            ends.unjoined_panic.set(earlier.or(Some(payload)));
        }
    }
}

/// What a fiber of any type begins with: the library passes a pointer to it.
#[repr(C)]
pub(crate) struct Header {
    run: unsafe fn(*mut Header),
    discard: unsafe fn(*mut Header),
}

/// A function that a fiber will run, and where its result goes.
#[repr(C)]
struct Task<F, T> {
    header: Header, // first, so that a pointer to it is one to the task
    f: F,
    packet: Arc<Packet<T>>,
}

/// Makes a task, which `run` or `discard` frees.
pub(crate) fn new_task<F: FnOnce() -> T, T>(f: F, packet: Arc<Packet<T>>) -> *mut Header {
    let header = Header { run: run::<F, T>, discard: discard::<F, T> };
    Box::into_raw(Box::new(Task { header, f, packet })).cast()
}

/// Runs a task and frees it. `task` comes from `new_task`.
pub(crate) unsafe fn run_task(task: *mut Header) {
    or_abort(|| ((*task).run)(task));
}

/// Frees a task that never runs. `task` comes from `new_task`.
pub(crate) unsafe fn discard_task(task: *mut Header) {
    or_abort(|| ((*task).discard)(task));
}

/// No panic may reach the library. Only the drop of a result that no joiner takes unwinds to here: it may wait, and the
/// fiber may be cancelled then.
fn or_abort(f: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        if payload.is::<Cancelled>() {
            return;
        }
        std::mem::forget(payload); // its drop could panic, too
        eprintln!("fiberrt: the drop of a fiber's result panicked");
        std::process::abort();
    }
}

unsafe fn run<F: FnOnce() -> T, T>(task: *mut Header) {
    let Task { f, packet, .. } = *Box::from_raw(task.cast::<Task<F, T>>());
    packet.finish(catch_unwind(AssertUnwindSafe(f)).map_err(JoinError::of));
}

unsafe fn discard<F: FnOnce() -> T, T>(task: *mut Header) {
    let Task { f, packet, .. } = *Box::from_raw(task.cast::<Task<F, T>>());
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(f)));
    packet.finish(Err(match dropped {
        Err(payload) => JoinError::Panicked(payload),
        Ok(()) if is_cancelled(packet.fiber()) => JoinError::Cancelled,
        Ok(()) => JoinError::NoStack,
    }));
}

/// Tells whether a fiber that never ran was cancelled. A fiber that is not known was cancelled by its cord's end. If
/// the handle is 0, spawn has not returned: the fiber is on another cord, and no caller has had a handle to cancel it.
unsafe fn is_cancelled(fiber: sys::fiber_t) -> bool {
    if fiber.id == 0 {
        return false;
    }
    if cfg!(miri) {
        return true;
    }
    let mut info: sys::fiber_info_t = zeroed();
    let size = std::mem::size_of_val(&info.id) + 8; // up to main_flow: cheap
    sys::fiber_info(fiber, &mut info, size) != 0 || info.cancelled != 0
}

/// The right to join a fiber of the same thread. Dropped, the fiber goes on by itself.
///
/// A handle stays on its thread:
///
/// ```compile_fail
/// fiberrt::run(|| {
///     let fiber = fiberrt::spawn(|| 1);
///     std::thread::spawn(move || fiber.join());
/// });
/// ```
pub struct JoinHandle<T> {
    pub(crate) packet: Arc<Packet<T>>,
    of_thread: PhantomData<*mut ()>,
}

impl<T> JoinHandle<T> {
    pub(crate) fn new(packet: Arc<Packet<T>>) -> JoinHandle<T> {
        JoinHandle { packet, of_thread: PhantomData }
    }

    /// Waits until the fiber has ended, and returns its result.
    ///
    /// ```
    /// fiberrt::run(|| {
    ///     let fiber = fiberrt::spawn(|| panic!("no luck"));
    ///     let error = fiber.join().unwrap_err();
    ///     assert_eq!(error.to_string(), "the fiber panicked: no luck");
    /// });
    /// ```
    ///
    /// # Errors
    ///
    /// The fiber panicked or was cancelled, or there was no stack for it.
    ///
    /// # Panics
    ///
    /// If a main flow waits for a fiber that can never end.
    pub fn join(self) -> Result<T, JoinError> {
        self.packet.join()
    }

    /// Tells whether the fiber has ended.
    pub fn is_finished(&self) -> bool {
        self.packet.is_finished()
    }

    /// Cancels the fiber: it unwinds at its present wait or its next one. A fiber that has not begun never runs.
    ///
    /// ```
    /// fiberrt::run(|| {
    ///     let fiber = fiberrt::spawn(|| fiberrt::sleep(std::time::Duration::from_secs(60)));
    ///     fiberrt::yield_now();
    ///     fiber.cancel();
    ///     assert!(fiber.join().unwrap_err().is_cancelled());
    /// });
    /// ```
    pub fn cancel(&self) {
        self.packet.cancel();
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "JoinHandle({:#018x})", self.packet.fiber().id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Borrowed<'a>(&'a Cell<u32>);

    impl Drop for Borrowed<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[test]
    fn a_task_gives_its_result_once() {
        let drops = Cell::new(0);
        let packet = Packet::new(None);
        let owned = Borrowed(&drops);
        let task = new_task(move || (owned, 5u8), packet.clone());
        assert!(!packet.is_finished());
        unsafe { run_task(task) };
        let (owned, five) = packet.take().unwrap();
        assert_eq!((five, drops.get()), (5, 0));
        drop(owned);
        assert_eq!(drops.get(), 1);
        // not joined: the result is dropped with the packet
        let packet = Packet::new(None);
        let owned = Borrowed(&drops);
        let task = new_task(move || owned, packet.clone());
        drop(packet);
        unsafe { run_task(task) };
        assert_eq!(drops.get(), 2);
    }

    #[test]
    fn a_task_that_never_runs_drops_its_function() {
        let drops = Cell::new(0);
        let packet = Packet::new(None);
        let owned = Borrowed(&drops);
        let task = new_task(move || drop(owned), packet.clone());
        packet.set_fiber(sys::fiber_t { id: 1 }); // not known
        unsafe { discard_task(task) };
        assert_eq!(drops.get(), 1);
        assert!(packet.take().unwrap_err().is_cancelled());
        // spawn has not returned: no handle can have cancelled it
        let packet: Arc<Packet<()>> = Packet::new(None);
        unsafe { discard_task(new_task(|| (), packet.clone())) };
        assert!(matches!(packet.take(), Err(JoinError::NoStack)));
    }

    #[test]
    fn a_scope_learns_of_panics_that_are_not_joined() {
        let ends = Rc::new(Ends::default());
        for payload in [1, 2, 3] {
            let packet = Packet::new(Some(ends.clone()));
            let task = new_task(move || -> () { std::panic::resume_unwind(Box::new(payload)) }, packet.clone());
            unsafe { run_task(task) };
            if payload == 1 {
                let _: Result<(), _> = packet.take(); // joined
            }
        }
        let packet = Packet::new(Some(ends.clone()));
        let task = new_task(|| -> () { std::panic::resume_unwind(Box::new(Cancelled::new())) }, packet);
        assert!(!ends.some_cancelled.get());
        unsafe { run_task(task) };
        assert!(ends.some_cancelled.get());
        assert_eq!(*ends.unjoined_panic.take().unwrap().downcast::<i32>().unwrap(), 2);
        assert_eq!(Rc::strong_count(&ends), 1);
    }
}
