// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fibers that own their data, and `run`, which waits for them.

use crate::join::{discard_task, new_task, run_task, Header, JoinHandle, Packet};
use crate::scope::Children;
use crate::wait::{refuse, text, unwinding};
use fiberrt_sys as sys;
use libc::{c_int, c_void};
use std::cell::RefCell;
use std::ffi::CString;
use std::io;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Says what waits for the fibers that spawn() makes. They must end before their thread: when a thread ends, the
/// library frees its fibers' stacks without dropping the values on them.
#[derive(Clone, Copy)]
pub(crate) enum Keeper {
    Run(sys::fiber_scope_t),
    Cord, // the library itself
}

thread_local! {
    // Of each cord of the thread. In a simulation there are several at a time. In the destructors of a thread there may
    // be a new cord, and the keeper of the old one does not count there.
    static KEEPERS: RefCell<Vec<(sys::fiber_cord_t, Keeper)>> = const { RefCell::new(Vec::new()) };
}

fn this_cord() -> Option<sys::fiber_cord_t> {
    let mut cord = sys::fiber_cord_t::default();
    match unsafe { sys::fiber_cord_self(&mut cord) } {
        0 => Some(cord),
        _ => None,
    }
}

fn is_joined(cord: sys::fiber_cord_t) -> bool {
    let mut name = 0;
    unsafe { sys::fiber_cord_name(cord, &mut name, 1) == -libc::ESRCH }
}

/// Returns the keeper of the calling thread's cord.
fn keeper() -> Option<Keeper> {
    let this = this_cord()?;
    let find = |keepers: &RefCell<Vec<(sys::fiber_cord_t, Keeper)>>| {
        keepers.borrow().iter().find(|(cord, _)| *cord == this).map(|(_, keeper)| *keeper)
    };
    KEEPERS.try_with(find).ok().flatten() // an error: the thread ends
}

/// Sets the keeper of the calling thread's cord, or removes it.
pub(crate) fn set_keeper(keeper: Option<Keeper>) {
    if let Some(this) = this_cord() {
        KEEPERS.with(|keepers| {
            let mut keepers = keepers.borrow_mut();
            keepers.retain(|(cord, _)| *cord != this && !is_joined(*cord));
            keepers.extend(keeper.map(|keeper| (this, keeper)));
        });
    }
}

/// Calls a closure, and waits for all fibers that it and its fibers have spawned.
///
/// If the closure panics, the fibers are cancelled. A panic of a fiber that is not joined goes no further than its
/// message.
///
/// ```
/// let sum = fiberrt::run(|| {
///     let fibers: Vec<_> = (1..=4).map(|i| fiberrt::spawn(move || i * i)).collect();
///     fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum::<i32>()
/// });
/// assert_eq!(sum, 30);
/// ```
///
/// # Panics
///
/// Inside of another `run` of the thread or in a [`Cord`](crate::Cord); if the fibers that are left can never end; and
/// if the closure panics.
pub fn run<T>(f: impl FnOnce() -> T) -> T {
    if unwinding() {
        refuse("run");
    }
    assert!(keeper().is_none(), "fiberrt: run inside of a run, or in a cord");
    let children = Children::open();
    set_keeper(Some(Keeper::Run(children.scope)));
    let _reset = Reset;
    let result = catch_unwind(AssertUnwindSafe(f));
    children.end(result.is_err());
    result.unwrap_or_else(|payload| resume_unwind(payload))
}

/// Ends a run when it is dropped.
struct Reset;

impl Drop for Reset {
    fn drop(&mut self) {
        set_keeper(None);
    }
}

/// Makes a fiber on the calling thread that runs a closure. The closure need not be [`Send`].
///
/// ```
/// let shared = std::rc::Rc::new(5);
/// fiberrt::run(move || assert_eq!(fiberrt::spawn(move || *shared).join().unwrap(), 5));
/// ```
///
/// It must own its data; [`scope()`](crate::scope()) lets fibers borrow:
///
/// ```compile_fail
/// fiberrt::run(|| {
///     let local = 5;
///     fiberrt::spawn(|| println!("{}", local));
/// });
/// ```
///
/// # Panics
///
/// Outside of [`run()`] and of cords; or if the system has no memory, or there are 16,777,216 fibers.
pub fn spawn<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + 'static,
    T: 'static,
{
    Builder::new().spawn(f).unwrap_or_else(|error| panic!("fiberrt: spawn: {}", error))
}

/// Makes fibers with a name, or a stack of another size than 256 KiB.
///
/// ```
/// fiberrt::run(|| {
///     let fiber = fiberrt::Builder::new().name("parser").stack_size(1 << 20).spawn(|| 7).unwrap();
///     assert_eq!(fiber.join().unwrap(), 7);
/// });
/// ```
#[derive(Clone, Debug, Default)]
pub struct Builder {
    name: Option<String>,
    stack_size: Option<usize>,
}

impl Builder {
    /// Makes a builder of ordinary fibers.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Sets the name that dumps and traces show; the first 31 bytes count.
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.name = Some(name.into());
        self
    }

    /// Sets the size of the stack in bytes, from 16 KiB to 1 GiB.
    pub fn stack_size(mut self, bytes: usize) -> Builder {
        self.stack_size = Some(bytes);
        self
    }

    /// Makes a fiber, as [`spawn()`](crate::spawn()).
    ///
    /// # Errors
    ///
    /// The name or the size is not possible, there is no memory, or there are 16,777,216 fibers.
    ///
    /// # Panics
    ///
    /// Outside of [`run()`] and of cords.
    pub fn spawn<F, T>(&self, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + 'static,
        T: 'static,
    {
        let packet = Packet::new(None);
        let task = new_task(f, packet.clone());
        let fiber = match keeper() {
            Some(Keeper::Run(scope)) => unsafe { self.start(Some(scope), None, task) },
            Some(Keeper::Cord) => unsafe { self.start(None, None, task) },
            None => {
                unsafe { discard_task(task) };
                panic!("fiberrt: spawn outside of fiberrt::run and of cords")
            }
        }?;
        packet.set_fiber(fiber);
        Ok(JoinHandle::new(packet))
    }

    /// Makes a fiber that runs a task: a child of a scope, or one of a cord (None: the calling thread's). If there is
    /// an error, it frees the task.
    pub(crate) unsafe fn start(
        &self,
        scope: Option<sys::fiber_scope_t>,
        cord: Option<sys::fiber_cord_t>,
        task: *mut Header,
    ) -> io::Result<sys::fiber_t> {
        let mut fiber = sys::fiber_t::default();
        let started = self.with_attributes(cord, |attr| match scope {
            Some(scope) => sys::fiber_scope_spawn_attr(scope, &mut fiber, attr, Some(run_child), task.cast()),
            None => sys::fiber_spawn_attr(&mut fiber, attr, Some(run_fiber), task.cast()),
        });
        match started {
            Ok(()) => Ok(fiber),
            Err(error) => {
                discard_task(task);
                Err(error)
            }
        }
    }

    unsafe fn with_attributes(
        &self,
        cord: Option<sys::fiber_cord_t>,
        call: impl FnOnce(*const sys::fiber_attr_t) -> c_int,
    ) -> io::Result<()> {
        if self.name.is_none() && self.stack_size.is_none() && cord.is_none() {
            return checked(call(plain_attributes()?));
        }
        let attributes = Attributes::new()?;
        if let Some(name) = &self.name {
            let name = CString::new(name.as_str())?;
            checked(sys::fiber_attr_set_name(attributes.0, name.as_ptr()))?;
        }
        if let Some(bytes) = self.stack_size {
            checked(sys::fiber_attr_set_stack_size(attributes.0, bytes))?;
        }
        if let Some(cord) = cord {
            checked(sys::fiber_attr_set_cord(attributes.0, cord))?;
        }
        checked(call(attributes.0))
    }
}

pub(crate) fn checked(result: c_int) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result));
    }
    Ok(())
}

/// Attributes of detached fibers whose tasks are freed if they never run.
struct Attributes(*mut sys::fiber_attr_t);

impl Attributes {
    unsafe fn new() -> io::Result<Attributes> {
        let mut attr = null_mut();
        checked(sys::fiber_attr_create(&mut attr))?;
        let attributes = Attributes(attr);
        checked(sys::fiber_attr_set_detached(attr, 1))?;
        checked(sys::fiber_attr_set_free_arg(attr, Some(free_task)))?;
        Ok(attributes)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        unsafe { sys::fiber_attr_destroy(self.0) };
    }
}

/// The attributes of all ordinary fibers, made once.
fn plain_attributes() -> io::Result<*const sys::fiber_attr_t> {
    static PLAIN: AtomicPtr<sys::fiber_attr_t> = AtomicPtr::new(null_mut());
    let known = PLAIN.load(Ordering::Acquire);
    if !known.is_null() {
        return Ok(known);
    }
    let made = unsafe { Attributes::new() }?;
    match PLAIN.compare_exchange(null_mut(), made.0, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            let kept = made.0;
            std::mem::forget(made);
            Ok(kept)
        }
        Err(other) => Ok(other),
    }
}

unsafe extern "C" fn run_child(task: *mut c_void) -> i64 {
    run_task(task.cast());
    0
}

unsafe extern "C" fn run_fiber(task: *mut c_void) -> *mut c_void {
    run_task(task.cast());
    null_mut()
}

unsafe extern "C" fn free_task(task: *mut c_void) {
    discard_task(task.cast());
}

/// Ends the process: the program cannot go on safely.
pub(crate) fn fatal(what: &str, error: c_int) -> ! {
    eprintln!("fiberrt: {}: {}", what, text(error));
    std::process::abort()
}
