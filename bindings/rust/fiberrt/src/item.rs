// SPDX-License-Identifier: MIT OR Apache-2.0
//! How values of any type pass through a channel of the library, which copies bytes. Nothing here calls the library, so
//! miri runs its tests.

use libc::{c_int, c_void};
use std::mem::{size_of, ManuallyDrop, MaybeUninit};

/// Larger values travel in boxes, so that a channel's memory stays small.
const LARGEST: usize = 256;

const fn is_boxed<T>() -> bool {
    size_of::<T>() > LARGEST
}

/// The size of the items of a channel for `T`; at least 1.
pub(crate) const fn item_size<T>() -> usize {
    if is_boxed::<T>() {
        size_of::<*mut T>()
    } else if size_of::<T>() == 0 {
        1
    } else {
        size_of::<T>()
    }
}

/// Moves a value into a channel. `copy` copies `item_size` bytes and returns 0, or a negative error. Returns the error
/// with the value.
pub(crate) fn send_item<T>(value: T, copy: impl FnOnce(*const c_void) -> c_int) -> Result<(), (c_int, T)> {
    if is_boxed::<T>() {
        let boxed = Box::into_raw(Box::new(value));
        let result = copy((&boxed as *const *mut T).cast());
        if result < 0 {
            return Err((result, *unsafe { Box::from_raw(boxed) }));
        }
    } else if size_of::<T>() == 0 {
        let result = copy((&0u8 as *const u8).cast());
        if result < 0 {
            return Err((result, value));
        }
        std::mem::forget(value);
    } else {
        let value = ManuallyDrop::new(value);
        let result = copy((&*value as *const T).cast());
        if result < 0 {
            return Err((result, ManuallyDrop::into_inner(value)));
        }
    }
    Ok(())
}

/// Moves a value out of a channel for `T`. `copy` copies `item_size` bytes and returns 0, or a negative error.
///
/// # Safety
///
/// The bytes must come from `send_item::<T>`, and be received once.
pub(crate) unsafe fn receive_item<T>(copy: impl FnOnce(*mut c_void) -> c_int) -> Result<T, c_int> {
    if is_boxed::<T>() {
        let mut boxed: *mut T = std::ptr::null_mut();
        match copy((&mut boxed as *mut *mut T).cast()) {
            0 => Ok(*Box::from_raw(boxed)),
            error => Err(error),
        }
    } else if size_of::<T>() == 0 {
        match copy((&mut 0u8 as *mut u8).cast()) {
            0 => Ok(std::ptr::NonNull::<T>::dangling().as_ptr().read()),
            error => Err(error),
        }
    } else {
        let mut value = MaybeUninit::<T>::uninit();
        match copy(value.as_mut_ptr().cast()) {
            0 => Ok(value.assume_init()),
            error => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// A channel of one item: like the library, it copies bytes, also those of padding.
    struct Bytes(RefCell<Option<Vec<MaybeUninit<u8>>>>);

    impl Bytes {
        fn send<T>(&self, value: T) -> Result<(), (c_int, T)> {
            send_item(value, |from| {
                if self.0.borrow().is_some() {
                    return -libc::EPIPE;
                }
                let mut bytes = vec![MaybeUninit::uninit(); item_size::<T>()];
                unsafe { std::ptr::copy_nonoverlapping(from.cast(), bytes.as_mut_ptr(), bytes.len()) };
                *self.0.borrow_mut() = Some(bytes);
                0
            })
        }

        fn receive<T>(&self) -> Result<T, c_int> {
            unsafe {
                receive_item(|to| match self.0.borrow_mut().take() {
                    Some(bytes) => {
                        std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), bytes.len());
                        0
                    }
                    None => -libc::EAGAIN,
                })
            }
        }
    }

    struct Counted(Rc<()>);
    #[derive(Debug, PartialEq)]
    struct Padded(u8, u64, u16);
    struct Large(Rc<()>, [u64; 100]);
    struct Nothing;

    thread_local! {
        static DROPPED: RefCell<u32> = const { RefCell::new(0) };
    }
    impl Drop for Nothing {
        fn drop(&mut self) {
            DROPPED.with(|count| *count.borrow_mut() += 1);
        }
    }

    #[test]
    fn values_pass_and_are_dropped_once() {
        let channel = Bytes(RefCell::new(None));
        assert!(channel.send(Padded(1, 2, 3)).is_ok());
        assert_eq!(channel.receive::<Padded>(), Ok(Padded(1, 2, 3)));
        assert_eq!(channel.receive::<Padded>(), Err(-libc::EAGAIN));

        let counter = Rc::new(());
        assert!(channel.send(Counted(counter.clone())).is_ok());
        let refused = channel.send(Counted(counter.clone())).err().unwrap();
        assert_eq!((refused.0, Rc::strong_count(&counter)), (-libc::EPIPE, 3));
        drop(refused);
        assert!(Rc::ptr_eq(&channel.receive::<Counted>().unwrap().0, &counter));
        assert_eq!(Rc::strong_count(&counter), 1);
    }

    #[test]
    fn large_values_travel_in_boxes() {
        assert_eq!((item_size::<Large>(), item_size::<[u8; 256]>()), (size_of::<usize>(), 256));
        let (channel, counter) = (Bytes(RefCell::new(None)), Rc::new(()));
        assert!(channel.send(Large(counter.clone(), [7; 100])).is_ok());
        assert!(channel.send(Large(counter.clone(), [8; 100])).is_err());
        assert_eq!(Rc::strong_count(&counter), 2);
        let large = channel.receive::<Large>().unwrap();
        assert!(Rc::ptr_eq(&large.0, &counter) && large.1 == [7; 100]);
        drop(large);
        assert_eq!(Rc::strong_count(&counter), 1);
    }

    #[test]
    fn values_without_bytes_pass_too() {
        let channel = Bytes(RefCell::new(None));
        assert_eq!(item_size::<Nothing>(), 1);
        assert!(channel.send(Nothing).is_ok());
        assert!(channel.send(Nothing).is_err());
        assert_eq!(DROPPED.with(|count| *count.borrow()), 1); // the refused one
        drop(channel.receive::<Nothing>());
        assert_eq!(DROPPED.with(|count| *count.borrow()), 2);
    }
}
