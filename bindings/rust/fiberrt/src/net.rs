// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP connections whose calls let other fibers run while they wait.
//!
//! ```
//! use fiberrt::net::{TcpListener, TcpStream};
//! use std::io::{Read, Write};
//!
//! fiberrt::scope(|s| {
//!     let listener = TcpListener::bind("127.0.0.1:0").unwrap();
//!     let address = listener.local_addr().unwrap();
//!     s.spawn(move || {
//!         let (mut stream, _) = listener.accept().unwrap();
//!         stream.write_all(b"hello").unwrap();
//!     });
//!     let mut text = String::new();
//!     TcpStream::connect(address).unwrap().read_to_string(&mut text).unwrap();
//!     assert_eq!(text, "hello");
//! });
//! ```
//!
//! A type here contains one of `std::net`, and converts from and into it ([`TcpStream::as_std`] has the settings). While
//! the thread unwinds, calls that may wait return an error.

use crate::wait::{check, limited, nanoseconds, unwinding};
use fiberrt_sys as sys;
use libc::{c_int, sockaddr_in, sockaddr_in6, sockaddr_storage, socklen_t, SOCK_CLOEXEC};
use std::ffi::CString;
use std::io::{self, Read, Write};
use std::mem::{size_of, zeroed};
use std::net::{self, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4, SocketAddrV6, ToSocketAddrs};
use std::os::unix::io::{AsFd, AsRawFd, BorrowedFd, FromRawFd, RawFd};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// Makes a call that may wait, at most for `timeout_ns`.
fn io(timeout_ns: i64, call: impl FnOnce() -> i64) -> io::Result<usize> {
    if unwinding() {
        return Err(io::Error::new(io::ErrorKind::Other, "no fiber waits while its thread unwinds"));
    }
    match limited(timeout_ns, call) {
        (_, true) => Err(io::ErrorKind::TimedOut.into()),
        (result, false) if no_wait_is_allowed(result) => {
            Err(io::Error::new(io::ErrorKind::Other, "no fiber waits where the library allows none"))
        }
        (result, false) => match check(result) {
            Ok(count) => Ok(count as usize),
            Err(error) => Err(io::Error::from_raw_os_error(error)),
        },
    }
}

/// Tells whether a call failed because the caller is in a no-switch section. A buffered writer that is dropped there
/// writes, and must not panic.
fn no_wait_is_allowed(result: i64) -> bool {
    result == -i64::from(libc::EPERM) && unsafe { sys::fiber_here() } == 0
}

/// A limit of time as `std::net` has it: None is forever, and 0 is an error.
fn limit(timeout: Option<Duration>) -> io::Result<i64> {
    match timeout {
        None => Ok(sys::FIBER_FOREVER),
        Some(duration) if duration == Duration::from_secs(0) => Err(io::ErrorKind::InvalidInput.into()),
        Some(duration) => Ok(nanoseconds(duration)),
    }
}

/// A TCP connection.
#[derive(Debug)]
pub struct TcpStream {
    inner: net::TcpStream,
    read_timeout: AtomicI64,
    write_timeout: AtomicI64,
}

impl TcpStream {
    /// Connects to an address: a [`SocketAddr`], or a text of the form `host:port` or `[host]:port`. The host may be a
    /// name; its addresses are tried as RFC 8305 says. [`timeout()`](crate::timeout()) limits the attempt.
    ///
    /// # Errors
    ///
    /// The text is no address, the name has no address, or the connection failed.
    pub fn connect(address: impl ToString) -> io::Result<TcpStream> {
        let address = address.to_string();
        if address.starts_with("unix:") {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let address = CString::new(address)?;
        let fd = io(sys::FIBER_FOREVER, || unsafe { sys::fiber_dial(address.as_ptr(), SOCK_CLOEXEC) }.into())?;
        Ok(unsafe { net::TcpStream::from_raw_fd(fd as RawFd) }.into())
    }

    /// Sets how long a read may take; None, the default, is forever. A read that took longer returns
    /// [`io::ErrorKind::TimedOut`].
    ///
    /// # Errors
    ///
    /// The time is 0.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.read_timeout.store(limit(timeout)?, Ordering::Relaxed);
        Ok(())
    }

    /// Sets how long a write may take; None, the default, is forever. A write that took longer returns
    /// [`io::ErrorKind::TimedOut`].
    ///
    /// # Errors
    ///
    /// The time is 0.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.write_timeout.store(limit(timeout)?, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the connection as `std::net` has it, for settings such as `set_nodelay`. Its reads and writes block the
    /// thread.
    pub fn as_std(&self) -> &net::TcpStream {
        &self.inner
    }

    /// Returns the address of the other side.
    ///
    /// # Errors
    ///
    /// As [`std::net::TcpStream::peer_addr`].
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.inner.peer_addr()
    }

    /// Returns the address of this side.
    ///
    /// # Errors
    ///
    /// As [`std::net::TcpStream::local_addr`].
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    /// Shuts down a direction. Waiting reads and writes end.
    ///
    /// # Errors
    ///
    /// As [`std::net::TcpStream::shutdown`].
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.inner.shutdown(how)
    }

    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let (fd, to, size) = (self.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len());
        io(self.read_timeout.load(Ordering::Relaxed), || unsafe { sys::fiber_recv(fd, to, size, 0) })
    }

    fn send(&self, buffer: &[u8]) -> io::Result<usize> {
        let (fd, from, size) = (self.as_raw_fd(), buffer.as_ptr().cast(), buffer.len());
        io(self.write_timeout.load(Ordering::Relaxed), || unsafe { sys::fiber_send(fd, from, size, 0) })
    }
}

impl From<net::TcpStream> for TcpStream {
    fn from(inner: net::TcpStream) -> TcpStream {
        let forever = || AtomicI64::new(sys::FIBER_FOREVER);
        TcpStream { inner, read_timeout: forever(), write_timeout: forever() }
    }
}

impl From<TcpStream> for net::TcpStream {
    fn from(stream: TcpStream) -> net::TcpStream {
        stream.inner
    }
}

impl AsRawFd for TcpStream {
    fn as_raw_fd(&self) -> RawFd {
        self.inner.as_raw_fd()
    }
}

impl AsFd for TcpStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

impl Read for TcpStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.recv(buffer)
    }
}

impl Write for TcpStream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.send(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for &TcpStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.recv(buffer)
    }
}

impl Write for &TcpStream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.send(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A socket that accepts TCP connections.
#[derive(Debug)]
pub struct TcpListener {
    inner: net::TcpListener,
}

impl TcpListener {
    /// Listens at an address. A name as the address is looked up by a call that blocks the thread.
    ///
    /// # Errors
    ///
    /// As [`std::net::TcpListener::bind`].
    pub fn bind(address: impl ToSocketAddrs) -> io::Result<TcpListener> {
        Ok(net::TcpListener::bind(address)?.into())
    }

    /// Waits for a connection, and returns it with the address of the other side.
    ///
    /// # Errors
    ///
    /// Those of accept(2): no descriptor is free, for example.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let mut storage: sockaddr_storage = unsafe { zeroed() };
        let mut length = size_of::<sockaddr_storage>() as socklen_t;
        let at = (&mut storage as *mut sockaddr_storage).cast();
        let fd = io(sys::FIBER_FOREVER, || {
            unsafe { sys::fiber_accept4(self.as_raw_fd(), at, &mut length, SOCK_CLOEXEC) }.into()
        })?;
        let stream = unsafe { net::TcpStream::from_raw_fd(fd as RawFd) };
        Ok((stream.into(), address_of(&storage)?))
    }

    /// Iterates over the connections accepted, without end.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// Returns the address at which it listens.
    ///
    /// # Errors
    ///
    /// As [`std::net::TcpListener::local_addr`].
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    /// Returns the socket as `std::net` has it.
    pub fn as_std(&self) -> &net::TcpListener {
        &self.inner
    }
}

/// Converts the address that the kernel has filled in.
fn address_of(storage: &sockaddr_storage) -> io::Result<SocketAddr> {
    let at = storage as *const sockaddr_storage;
    match c_int::from(storage.ss_family) {
        libc::AF_INET => {
            let v4 = unsafe { &*at.cast::<sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Ok(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 => {
            let v6 = unsafe { &*at.cast::<sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            Ok(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
        }
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

impl From<net::TcpListener> for TcpListener {
    fn from(inner: net::TcpListener) -> TcpListener {
        TcpListener { inner }
    }
}

impl From<TcpListener> for net::TcpListener {
    fn from(listener: TcpListener) -> net::TcpListener {
        listener.inner
    }
}

impl AsRawFd for TcpListener {
    fn as_raw_fd(&self) -> RawFd {
        self.inner.as_raw_fd()
    }
}

impl AsFd for TcpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

/// The iterator of [`TcpListener::incoming`].
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a TcpListener,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<io::Result<TcpStream>> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_addresses_are_converted() {
        let mut storage: sockaddr_storage = unsafe { zeroed() };
        let at = &mut storage as *mut sockaddr_storage;
        unsafe {
            let v4 = &mut *at.cast::<sockaddr_in>();
            v4.sin_family = libc::AF_INET as libc::sa_family_t;
            v4.sin_port = 80u16.to_be();
            v4.sin_addr.s_addr = 0x7f00_0001u32.to_be();
        }
        assert_eq!(address_of(&storage).unwrap(), "127.0.0.1:80".parse().unwrap());
        unsafe {
            *at = zeroed();
            let v6 = &mut *at.cast::<sockaddr_in6>();
            v6.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            v6.sin6_port = 81u16.to_be();
            v6.sin6_addr.s6_addr = Ipv6Addr::LOCALHOST.octets();
        }
        assert_eq!(address_of(&storage).unwrap(), "[::1]:81".parse().unwrap());
        storage.ss_family = libc::AF_UNIX as libc::sa_family_t;
        assert!(address_of(&storage).is_err());
    }
}
