// SPDX-License-Identifier: MIT OR Apache-2.0
//! A mutex whose lock lets other fibers run while it waits.

use crate::wait::{nanoseconds, own_time_is_over, refuse, text, unwinding, wait};
use fiberrt_sys as sys;
use libc::c_int;
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::zeroed;
use std::ops::{Deref, DerefMut};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

/// Protects a value that fibers and threads share.
///
/// A fiber may wait while it holds the lock. A panic or a cancel unlocks the mutex and does not poison it. Cancels and
/// timeouts do not end the wait of [`lock`](Mutex::lock).
///
/// ```
/// use fiberrt::Mutex;
/// static COUNT: Mutex<u32> = Mutex::new(0);
///
/// fiberrt::scope(|s| {
///     for _ in 0..10 {
///         s.spawn(|| {
///             let mut count = COUNT.lock();
///             let before = *count;
///             fiberrt::yield_now();
///             *count = before + 1;
///         });
///     }
/// });
/// assert_eq!(*COUNT.lock(), 10);
/// ```
///
/// The guard stays on its thread:
///
/// ```compile_fail
/// let mutex = fiberrt::Mutex::new(1);
/// let guard = mutex.lock();
/// std::thread::scope(|s| {
///     s.spawn(move || drop(guard));
/// });
/// ```
pub struct Mutex<T: ?Sized> {
    // In separate memory, made by the first lock: a held mutex of the library is in a list, so it must neither move nor
    // go if a guard is forgotten.
    raw: AtomicPtr<sys::fiber_mutex_t>,
    value: UnsafeCell<T>,
}

unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    /// Makes an unlocked mutex.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex { raw: AtomicPtr::new(null_mut()), value: UnsafeCell::new(value) }
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.release();
        let this = std::mem::ManuallyDrop::new(self);
        unsafe { this.value.get().read() }
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks the mutex; waits while another fiber or thread holds it.
    ///
    /// # Panics
    ///
    /// If the caller holds it already; if a fiber that held it has ended with the guard forgotten; and if it would have
    /// to wait while the thread unwinds.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let raw = self.raw();
        if unwinding() {
            return self.try_lock().unwrap_or_else(|| refuse("a mutex's lock"));
        }
        match wait("a mutex's lock", &[libc::EOWNERDEAD], || unsafe { sys::fiber_mutex_lock(raw) }) {
            Ok(()) => self.guard(),
            Err(_) => self.forgotten(),
        }
    }

    /// Locks the mutex if it is not held.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match unsafe { sys::fiber_mutex_trylock(self.raw()) } {
            0 => Some(self.guard()),
            error if error == -libc::EBUSY => None,
            error if error == -libc::EOWNERDEAD => self.forgotten(),
            error => panic!("fiberrt: a mutex's lock: {}", text(-error)),
        }
    }

    /// Locks the mutex; waits at most for this time. Here a cancel ends the wait.
    ///
    /// # Panics
    ///
    /// As [`lock`](Mutex::lock).
    pub fn lock_timeout(&self, timeout: Duration) -> Option<MutexGuard<'_, T>> {
        let (raw, timeout_ns) = (self.raw(), nanoseconds(timeout));
        if unwinding() {
            return self.try_lock();
        }
        let mut timed_out = false;
        let locked = wait("a mutex's lock", &[libc::EOWNERDEAD], || {
            let result: c_int = unsafe { sys::fiber_mutex_lock_timeout(raw, timeout_ns) };
            timed_out = result == -libc::ETIMEDOUT;
            if timed_out {
                0
            } else {
                result
            }
        });
        match locked {
            Ok(()) if timed_out => {
                own_time_is_over();
                None
            }
            Ok(()) => Some(self.guard()),
            Err(_) => self.forgotten(),
        }
    }

    /// Returns the value, which no other fiber or thread can reach.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    fn guard(&self) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self, of_thread: PhantomData }
    }

    /// The holder has ended, but its guard may still be reachable, so the mutex stays locked for good.
    fn forgotten(&self) -> ! {
        panic!("fiberrt: a fiber has ended that had locked a mutex and forgotten the guard")
    }

    fn raw(&self) -> *mut sys::fiber_mutex_t {
        let known = self.raw.load(Ordering::Acquire);
        if !known.is_null() {
            return known;
        }
        let made = Box::into_raw(Box::new(unsafe { zeroed::<sys::fiber_mutex_t>() })); // a fresh mutex
        match self.raw.compare_exchange(null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => made,
            Err(other) => {
                drop(unsafe { Box::from_raw(made) });
                other
            }
        }
    }

    /// Frees the library's mutex, unless a forgotten guard holds it.
    fn release(&self) {
        let raw = self.raw.swap(null_mut(), Ordering::AcqRel);
        if !raw.is_null() && unsafe { sys::fiber_mutex_destroy(raw) } == 0 {
            drop(unsafe { Box::from_raw(raw) });
        }
    }
}

impl<T: ?Sized> Drop for Mutex<T> {
    fn drop(&mut self) {
        self.release();
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
    }
}

impl<T: ?Sized> fmt::Debug for Mutex<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Mutex(..)")
    }
}

/// The right to the value of a [`Mutex`], which is unlocked when the guard is dropped. The fiber that has locked the
/// mutex drops the guard.
#[must_use = "the mutex is unlocked at once"]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    of_thread: PhantomData<*mut ()>,
}

unsafe impl<T: ?Sized + Sync> Sync for MutexGuard<'_, T> {}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        let result = unsafe { sys::fiber_mutex_unlock(self.mutex.raw()) };
        if result != 0 && !unwinding() {
            panic!("fiberrt: a fiber dropped the guard of a mutex that another fiber has locked");
        }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(out)
    }
}
