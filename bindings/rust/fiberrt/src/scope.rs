// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fibers that borrow: a scope waits for its fibers before it returns.

use crate::fiber::{fatal, Builder};
use crate::join::{new_task, Ends, JoinError, JoinHandle, Packet};
use crate::wait::{refuse, text, unwinding, yield_now};
use fiberrt_sys as sys;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::ptr::null_mut;
use std::rc::Rc;

/// A scope of the library, with child fibers. The caller must call end(): the children may borrow from its stack.
pub(crate) struct Children {
    pub(crate) scope: sys::fiber_scope_t,
}

impl Children {
    pub(crate) fn open() -> Children {
        let mut scope = sys::fiber_scope_t::default();
        let result = unsafe { sys::fiber_scope_open(&mut scope, sys::FIBER_FOREVER, sys::FIBER_SCOPE_COLLECT) };
        assert!(result == 0, "fiberrt: no scope: {}", text(-result));
        if unsafe { sys::fiber_here() } == 0 {
            unsafe { sys::fiber_scope_close(scope, null_mut()) };
            panic!("fiberrt: a wait where the library allows none");
        }
        Children { scope }
    }

    /// Waits until the children have ended. They are cancelled first if `cancel` says so, or if they can never end.
    pub(crate) fn end(self, cancel: bool) {
        if cancel {
            unsafe { sys::fiber_scope_cancel(self.scope, null_mut()) };
        }
        if self.close() != -libc::EDEADLK {
            return;
        }
        unsafe { sys::fiber_scope_cancel(self.scope, null_mut()) };
        let result = self.close();
        if result == -libc::EDEADLK {
            // The fibers may borrow values that the caller would drop next.
            fatal("the fibers of a scope wait for locks for ever", libc::EDEADLK);
        }
        panic!("fiberrt: a deadlock: nothing could end the waits of the fibers left, and they were cancelled");
    }

    fn close(&self) -> libc::c_int {
        let result = unsafe { sys::fiber_scope_close(self.scope, null_mut()) };
        if ![0, -libc::ECANCELED, -libc::ETIMEDOUT, -libc::EDEADLK].contains(&result) {
            fatal("the fibers of a scope cannot be waited for", -result);
        }
        result
    }
}

/// A scope for fibers that borrow: see [`scope()`].
pub struct Scope<'scope, 'env: 'scope> {
    children: sys::fiber_scope_t,
    ends: Rc<Ends>, // makes it !Send and !Sync
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Makes a scope whose fibers may borrow what lives longer than the call, and waits for these fibers before it returns.
///
/// The fibers run on the calling thread, so they need no lock for the data that they borrow, and nothing must be [`Send`].
///
/// If the closure panics or is cancelled, the fibers are cancelled. If a fiber panics, the others go on; the panic goes
/// on in the caller, when all have ended, unless the fiber was joined.
///
/// ```
/// use std::cell::Cell;
///
/// let total = Cell::new(0);
/// fiberrt::scope(|s| {
///     for i in 1..=4 {
///         let total = &total;
///         s.spawn(move || total.set(total.get() + i));
///     }
/// });
/// assert_eq!(total.get(), 10);
/// ```
///
/// A fiber cannot borrow what lives in the closure only:
///
/// ```compile_fail
/// fiberrt::scope(|s| {
///     let local = 1;
///     s.spawn(|| println!("{}", local));
/// });
/// ```
///
/// # Panics
///
/// If the closure or a fiber that is not joined panics, or the fibers of a main flow's scope can never end.
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    if unwinding() {
        refuse("scope");
    }
    let children = Children::open();
    let scope = Scope { children: children.scope, ends: Rc::default(), scope: PhantomData, env: PhantomData };
    let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
    children.end(result.is_err());
    if result.is_ok() && scope.ends.some_cancelled.get() {
        yield_now(); // unwinds if they were cancelled because the caller was, or its time has passed
    }
    match (result, scope.ends.unjoined_panic.take()) {
        (Ok(value), None) => value,
        (Err(payload), _) | (Ok(_), Some(payload)) => resume_unwind(payload),
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Makes a fiber of the scope that runs a closure. Fibers of the scope may spawn more.
    ///
    /// # Panics
    ///
    /// If the system has no memory, or there are 16,777,216 fibers.
    pub fn spawn<F, T>(&'scope self, f: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + 'scope,
        T: 'scope,
    {
        self.spawn_with(&Builder::new(), f).unwrap_or_else(|error| panic!("fiberrt: spawn: {}", error))
    }

    /// Makes a fiber of the scope with the name and stack size of a builder.
    ///
    /// # Errors
    ///
    /// As [`Builder::spawn`].
    pub fn spawn_with<F, T>(&'scope self, builder: &Builder, f: F) -> io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + 'scope,
        T: 'scope,
    {
        let packet = Packet::new(Some(self.ends.clone()));
        let task = new_task(f, packet.clone());
        packet.set_fiber(unsafe { builder.start(Some(self.children), None, task) }?);
        Ok(ScopedJoinHandle { handle: JoinHandle::new(packet), scope: PhantomData })
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Scope({:#018x})", self.children.id)
    }
}

/// The right to join a fiber of a [`Scope`].
pub struct ScopedJoinHandle<'scope, T> {
    handle: JoinHandle<T>,
    scope: PhantomData<&'scope ()>,
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits until the fiber has ended, and returns its result, as [`JoinHandle::join`].
    ///
    /// # Errors
    ///
    /// As [`JoinHandle::join`].
    pub fn join(self) -> Result<T, JoinError> {
        self.handle.join()
    }

    /// Tells whether the fiber has ended.
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// Cancels the fiber, as [`JoinHandle::cancel`].
    pub fn cancel(&self) {
        self.handle.cancel();
    }
}

impl<T> fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Scoped{:?}", self.handle)
    }
}
