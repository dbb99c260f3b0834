// SPDX-License-Identifier: MIT OR Apache-2.0
//! Channels between fibers and threads, with any number of senders and receivers.
//!
//! ```
//! let (sender, receiver) = fiberrt::channel::bounded(2);
//! fiberrt::scope(|s| {
//!     s.spawn(move || {
//!         for i in 1..=5 {
//!             sender.send(i).unwrap();
//!         }
//!     });
//!     assert_eq!(receiver.iter().sum::<i32>(), 15);
//! });
//! ```
//!
//! The ends change their thread if the items may:
//!
//! ```compile_fail
//! let (sender, _receiver) = fiberrt::channel::bounded::<std::rc::Rc<i32>>(1);
//! std::thread::spawn(move || drop(sender));
//! ```

use crate::item::{item_size, receive_item, send_item};
use crate::wait::{check, nanoseconds, own_time_is_over, refuse, text, unwinding};
use fiberrt_sys as sys;
use libc::c_int;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// The receivers are gone; the value comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(pub T);

/// Why a value was not sent; it comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// There was no room, in the time given.
    Full(T),
    /// The receivers are gone.
    Disconnected(T),
}

/// The senders are gone, and the channel is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvError;

/// Why nothing was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    /// There was no item, in the time given.
    Empty,
    /// The senders are gone, and the channel is empty.
    Disconnected,
}

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SendError(..)")
    }
}

impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            TrySendError::Full(_) => "Full(..)",
            TrySendError::Disconnected(_) => "Disconnected(..)",
        })
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the receivers of the channel are gone")
    }
}

impl<T> fmt::Display for TrySendError<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            TrySendError::Full(_) => "the channel is full",
            TrySendError::Disconnected(_) => "the receivers of the channel are gone",
        })
    }
}

impl fmt::Display for RecvError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the senders of the channel are gone")
    }
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            TryRecvError::Empty => "the channel is empty",
            TryRecvError::Disconnected => "the senders of the channel are gone",
        })
    }
}

impl<T> std::error::Error for SendError<T> {}
impl<T> std::error::Error for TrySendError<T> {}
impl std::error::Error for RecvError {}
impl std::error::Error for TryRecvError {}

/// A channel of the library, which has the bytes of the items; dropped with the last end.
struct Channel<T> {
    handle: sys::fiber_chan_t,
    senders: AtomicUsize,
    receivers: AtomicUsize,
    items: PhantomData<*mut T>,
}

unsafe impl<T: Send> Send for Channel<T> {}
unsafe impl<T: Send> Sync for Channel<T> {}

impl<T> Channel<T> {
    fn try_receive(&self) -> Result<T, c_int> {
        unsafe { receive_item(|to| sys::fiber_chan_try_recv(self.handle, to)) }
    }

    fn close(&self) {
        unsafe { sys::fiber_chan_close(self.handle) }; // an error says that the other side has closed it
    }

    /// Drops the items left. The channel is closed, and no receiver is left.
    fn drop_items(&self) {
        while let Ok(item) = self.try_receive() {
            drop(item);
        }
    }
}

impl<T> Drop for Channel<T> {
    fn drop(&mut self) {
        self.drop_items(); // those left if the drop of an item has unwound the receiver's drop
        unsafe { sys::fiber_chan_destroy(self.handle) };
    }
}

/// Makes a channel for `capacity` items. With 0, a send waits until a receiver has the item.
///
/// # Panics
///
/// If there is no memory, or there are 1,048,576 channels.
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let mut handle = sys::fiber_chan_t::default();
    let result = unsafe { sys::fiber_chan_create(&mut handle, item_size::<T>(), capacity) };
    assert!(result == 0, "fiberrt: no channel: {}", text(-result));
    let (senders, receivers) = (AtomicUsize::new(1), AtomicUsize::new(1));
    let channel = Arc::new(Channel { handle, senders, receivers, items: PhantomData });
    (Sender { channel: channel.clone() }, Receiver { channel })
}

/// Returns 0, -EPIPE, -EAGAIN or -EINTR. Unwinds if the calling fiber was cancelled or timed out; panics on every other
/// error. `limited`: the call has a time of its own, and -EAGAIN tells its end.
fn handled(result: c_int, limited: bool) -> c_int {
    if limited && result == -libc::ETIMEDOUT {
        own_time_is_over();
        return -libc::EAGAIN;
    }
    match check(result.into()) {
        Ok(_) => 0,
        Err(error @ (libc::EPIPE | libc::EAGAIN | libc::EINTR)) => -error,
        Err(libc::EDEADLK) => panic!("fiberrt: a channel: a deadlock: nothing can end this wait"),
        Err(error) => panic!("fiberrt: a channel: {}", text(error)),
    }
}

/// An end of a channel for sending. When the last one is dropped, receivers get the items left, and then an error.
pub struct Sender<T> {
    channel: Arc<Channel<T>>,
}

impl<T> Sender<T> {
    /// Sends a value; waits for room. A sender that was cancelled or timed out has not sent it.
    ///
    /// # Errors
    ///
    /// The receivers are gone.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        match self.send_by(value, false, |handle, item| unsafe { sys::fiber_chan_send(handle, item) }) {
            Ok(()) => Ok(()),
            Err(TrySendError::Disconnected(value)) => Err(SendError(value)),
            Err(TrySendError::Full(_)) => refuse("a channel's send"),
        }
    }

    /// Sends a value; waits for room, at most for this time.
    ///
    /// # Errors
    ///
    /// There was no room in time, or the receivers are gone.
    pub fn send_timeout(&self, value: T, timeout: Duration) -> Result<(), TrySendError<T>> {
        let timeout_ns = nanoseconds(timeout);
        self.send_by(value, true, |handle, item| unsafe { sys::fiber_chan_send_timeout(handle, item, timeout_ns) })
    }

    /// Sends a value if that needs no wait.
    ///
    /// # Errors
    ///
    /// There is no room, or the receivers are gone.
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        self.send_by(value, false, |handle, item| unsafe { sys::fiber_chan_try_send(handle, item) })
    }

    /// Sends by a call of the library; while the thread unwinds, by one that does not wait.
    fn send_by(
        &self,
        mut value: T,
        limited: bool,
        call: impl Fn(sys::fiber_chan_t, *const libc::c_void) -> c_int,
    ) -> Result<(), TrySendError<T>> {
        loop {
            let sent = send_item(value, |item| match unwinding() {
                true => unsafe { sys::fiber_chan_try_send(self.channel.handle, item) },
                false => call(self.channel.handle, item),
            });
            value = match sent {
                Ok(()) => return Ok(()),
                Err((error, value)) => match handled(error, limited) {
                    e if e == -libc::EPIPE => return Err(TrySendError::Disconnected(value)),
                    e if e == -libc::EAGAIN => return Err(TrySendError::Full(value)),
                    _ => value, // interrupted
                },
            }
        }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.channel.senders.fetch_add(1, Ordering::Relaxed);
        Sender { channel: self.channel.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.channel.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.channel.close();
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Sender({:#018x})", self.channel.handle.id)
    }
}

/// An end of a channel for receiving. When the last one is dropped, sends fail, and the items left are dropped.
pub struct Receiver<T> {
    channel: Arc<Channel<T>>,
}

impl<T> Receiver<T> {
    /// Receives the oldest item; waits for one. A receiver that was cancelled or timed out has taken none.
    ///
    /// # Errors
    ///
    /// The senders are gone, and the channel is empty.
    pub fn recv(&self) -> Result<T, RecvError> {
        match self.receive_by(false, |handle, item| unsafe { sys::fiber_chan_recv(handle, item) }) {
            Ok(value) => Ok(value),
            Err(TryRecvError::Disconnected) => Err(RecvError),
            Err(TryRecvError::Empty) => refuse("a channel's recv"),
        }
    }

    /// Receives the oldest item; waits for one, at most for this time.
    ///
    /// # Errors
    ///
    /// There was no item in time, or the senders are gone and the channel is empty.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, TryRecvError> {
        let timeout_ns = nanoseconds(timeout);
        self.receive_by(true, |handle, item| unsafe { sys::fiber_chan_recv_timeout(handle, item, timeout_ns) })
    }

    /// Receives the oldest item if there is one, or a sender waits.
    ///
    /// # Errors
    ///
    /// There is none, or the senders are gone and the channel is empty.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.receive_by(false, |handle, item| unsafe { sys::fiber_chan_try_recv(handle, item) })
    }

    /// Iterates over the items received; ends when the senders are gone and the channel is empty.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { receiver: self }
    }

    fn receive_by(
        &self,
        limited: bool,
        call: impl Fn(sys::fiber_chan_t, *mut libc::c_void) -> c_int,
    ) -> Result<T, TryRecvError> {
        loop {
            let received = match unwinding() {
                true => self.channel.try_receive(),
                false => unsafe { receive_item(|item| call(self.channel.handle, item)) },
            };
            match received.map_err(|error| handled(error, limited)) {
                Ok(value) => return Ok(value),
                Err(e) if e == -libc::EPIPE => return Err(TryRecvError::Disconnected),
                Err(e) if e == -libc::EAGAIN => return Err(TryRecvError::Empty),
                Err(_) => {} // interrupted
            }
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Receiver<T> {
        self.channel.receivers.fetch_add(1, Ordering::Relaxed);
        Receiver { channel: self.channel.clone() }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        if self.channel.receivers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.channel.close();
            self.channel.drop_items();
        }
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Receiver({:#018x})", self.channel.handle.id)
    }
}

/// The iterator of [`Receiver::iter`].
#[derive(Debug)]
pub struct Iter<'a, T> {
    receiver: &'a Receiver<T>,
}

impl<T> Iterator for Iter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}
