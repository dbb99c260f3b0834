// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads with fibers. What goes to another thread is Send.

use crate::fiber::{checked, set_keeper, Builder, Keeper};
use crate::join::{discard_task, new_task, run_task, JoinError, Packet};
use crate::wait::{refuse, unwinding, wait};
use fiberrt_sys as sys;
use libc::c_void;
use std::fmt;
use std::io;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A thread with a cord: it runs a closure, and the fibers that are spawned there.
///
/// It ends when it is joined or dropped, and its closure and all its fibers have ended. A drop does not wait for that.
///
/// ```
/// let cord = fiberrt::Cord::start(|| fiberrt::spawn(|| 20).join().unwrap() + 1).unwrap();
/// let there = cord.remote().spawn(|| 21).unwrap();
/// assert_eq!(there.join().unwrap() + cord.join().unwrap(), 42);
/// ```
pub struct Cord<T> {
    remote: Remote,
    packet: Arc<Packet<T>>,
    dropped: Arc<Packet<()>>, // finished when the cord shall end
    joined: bool,
}

/// The cords that were dropped without a join. The library keeps the record of a cord until its first join, and has
/// 65,536 of them.
static NOT_JOINED: Mutex<Vec<sys::fiber_cord_t>> = Mutex::new(Vec::new());

fn not_joined() -> MutexGuard<'static, Vec<sys::fiber_cord_t>> {
    NOT_JOINED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Frees the records of the dropped cords that have ended.
fn join_dropped() {
    if unwinding() {
        return;
    }
    let mut cords = std::mem::take(&mut *not_joined());
    cords.retain(|cord| {
        let result = unsafe { sys::fiber_cord_join_timeout(*cord, null_mut(), 0) };
        ![0, -libc::ESRCH].contains(&result)
    });
    not_joined().append(&mut cords);
}

unsafe impl<T: Send> Send for Cord<T> {}
unsafe impl<T: Send> Sync for Cord<T> {}

impl<T: Send + 'static> Cord<T> {
    /// Starts a thread whose main flow runs a closure. Other fibers may run during the call.
    ///
    /// # Errors
    ///
    /// There is no memory, no thread could be created, or there are 65,536 cords.
    pub fn start<F>(f: F) -> io::Result<Cord<T>>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        join_dropped();
        let (packet, dropped) = (Packet::new(None), Packet::new(None));
        let end = dropped.clone();
        let main_flow = move || {
            let result = catch_unwind(AssertUnwindSafe(f));
            let _ = end.join();
            result.unwrap_or_else(|payload| resume_unwind(payload))
        };
        let task = new_task(main_flow, packet.clone());
        let mut cord = sys::fiber_cord_t::default();
        let result = unsafe { sys::fiber_cord_start(&mut cord, std::ptr::null(), Some(run_main_flow), task.cast()) };
        if let Err(error) = checked(result) {
            unsafe { discard_task(task) };
            return Err(error);
        }
        Ok(Cord { remote: Remote { cord }, packet, dropped, joined: false })
    }

    /// Waits until the cord has ended, and returns the closure's result.
    ///
    /// # Errors
    ///
    /// The closure panicked.
    ///
    /// # Panics
    ///
    /// In a fiber of this cord.
    pub fn join(mut self) -> Result<T, JoinError> {
        if unwinding() {
            refuse("join");
        }
        self.end();
        let _ = wait("join", &[], || unsafe { sys::fiber_cord_join(self.remote.cord, null_mut()) });
        self.joined = true;
        self.packet.take()
    }
}

impl<T> Cord<T> {
    /// Returns what other threads need to spawn fibers on this cord.
    pub fn remote(&self) -> Remote {
        self.remote
    }

    fn end(&self) {
        if !self.dropped.is_finished() {
            self.dropped.finish(Ok(()));
        }
    }
}

impl<T> Drop for Cord<T> {
    fn drop(&mut self) {
        self.end();
        if !self.joined {
            not_joined().push(self.remote.cord);
        }
    }
}

impl<T> fmt::Debug for Cord<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Cord({:#018x})", self.remote.cord.id)
    }
}

unsafe extern "C" fn run_main_flow(task: *mut c_void) -> *mut c_void {
    set_keeper(Some(Keeper::Cord));
    run_task(task.cast());
    null_mut()
}

/// Makes fibers on a [`Cord`], from any thread.
#[derive(Clone, Copy)]
pub struct Remote {
    cord: sys::fiber_cord_t,
}

impl Remote {
    /// Makes a fiber on the cord that runs a closure.
    ///
    /// # Errors
    ///
    /// The cord has ended, there is no memory, or there are 16,777,216 fibers. The closure is dropped.
    pub fn spawn<F, T>(&self, f: F) -> io::Result<RemoteJoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let packet = Packet::new(None);
        let task = new_task(f, packet.clone());
        packet.set_fiber(unsafe { Builder::new().start(None, Some(self.cord), task) }?);
        Ok(RemoteJoinHandle { packet })
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Remote({:#018x})", self.cord.id)
    }
}

/// The right to join a fiber of another thread. Dropped, the fiber goes on by itself.
pub struct RemoteJoinHandle<T> {
    packet: Arc<Packet<T>>,
}

// The packet has no part that is of one thread: only scopes put one in.
unsafe impl<T: Send> Send for RemoteJoinHandle<T> {}
unsafe impl<T: Send> Sync for RemoteJoinHandle<T> {}

impl<T> RemoteJoinHandle<T> {
    /// Waits until the fiber has ended, and returns its result, as [`JoinHandle::join`](crate::JoinHandle::join).
    ///
    /// # Errors
    ///
    /// As [`JoinHandle::join`](crate::JoinHandle::join).
    pub fn join(self) -> Result<T, JoinError> {
        self.packet.join()
    }

    /// Tells whether the fiber has ended.
    pub fn is_finished(&self) -> bool {
        self.packet.is_finished()
    }

    /// Sends a cancel, which acts when the fiber's thread looks for messages.
    pub fn cancel(&self) {
        self.packet.cancel();
    }
}

impl<T> fmt::Debug for RemoteJoinHandle<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "RemoteJoinHandle(finished: {})", self.is_finished())
    }
}
