// SPDX-License-Identifier: MIT OR Apache-2.0
//! Channels and mutexes. Each test runs on any backend.

mod harness;

use fiberrt::channel::{bounded, RecvError, TryRecvError, TrySendError};
use fiberrt::{run, scope, sleep, spawn, yield_now, Mutex};
use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::rc::Rc;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(2);

fn items_come_in_order_and_the_end_is_told() {
    for capacity in [0, 1, 3] {
        let (sender, receiver) = bounded(capacity);
        let received = scope(|s| {
            s.spawn(move || {
                for i in 0..10 {
                    sender.send(i.to_string()).unwrap();
                }
            });
            let received: Vec<String> = receiver.iter().collect();
            assert_eq!(receiver.recv(), Err(RecvError));
            received
        });
        assert_eq!(received, (0..10).map(|i| i.to_string()).collect::<Vec<_>>());
    }
}

fn sends_fail_without_receivers_and_return_the_value() {
    let (sender, receiver) = bounded(1);
    let second = receiver.clone();
    drop(receiver);
    sender.send(Box::new(1)).unwrap();
    assert!(matches!(sender.try_send(Box::new(2)), Err(TrySendError::Full(two)) if *two == 2));
    assert!(matches!(sender.send_timeout(Box::new(3), SHORT), Err(TrySendError::Full(three)) if *three == 3));
    drop(second);
    assert!(matches!(sender.try_send(Box::new(4)), Err(TrySendError::Disconnected(four)) if *four == 4));
    let error = sender.clone().send(Box::new(5)).unwrap_err();
    assert_eq!((*error.0, error.to_string()), (5, "the receivers of the channel are gone".to_string()));
}

fn receives_without_an_item() {
    let (sender, receiver) = bounded::<u8>(1);
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    assert_eq!(receiver.recv_timeout(SHORT), Err(TryRecvError::Empty));
    sender.send(1).unwrap();
    drop(sender);
    assert_eq!(receiver.recv_timeout(SHORT), Ok(1));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
}

fn items_left_in_a_channel_are_dropped() {
    let item = Rc::new([0u8; 300]);
    let (sender, receiver) = bounded(4);
    for _ in 0..4 {
        sender.send(item.clone()).unwrap();
    }
    assert_eq!(Rc::strong_count(&item), 5);
    drop(receiver);
    assert_eq!(Rc::strong_count(&item), 1);
    assert!(sender.send(item.clone()).is_err());
    assert_eq!(Rc::strong_count(&item), 1);

    let (sender, receiver) = bounded(4);
    sender.send((item.clone(), [1u64; 200])).unwrap(); // in a box
    drop(sender);
    drop(receiver);
    assert_eq!(Rc::strong_count(&item), 1);
}

fn a_cancelled_sender_keeps_nothing_and_a_cancelled_receiver_takes_nothing() {
    run(|| {
        let item = Rc::new(());
        let (sender, receiver) = bounded(0);
        let (sent, full) = (item.clone(), sender.clone());
        let sending = spawn(move || full.send(sent).is_ok());
        sleep(SHORT);
        sending.cancel();
        assert!(sending.join().unwrap_err().is_cancelled());
        assert_eq!(Rc::strong_count(&item), 1);

        let other = receiver.clone();
        let receiving = spawn(move || other.recv().is_ok());
        sleep(SHORT);
        receiving.cancel();
        assert!(receiving.join().unwrap_err().is_cancelled());
        let last = spawn(move || receiver.recv().is_ok());
        sender.send(item.clone()).unwrap();
        assert!(last.join().unwrap());
        assert_eq!(Rc::strong_count(&item), 1);
    });
}

fn a_timeout_ends_a_receive() {
    let (_sender, receiver) = bounded::<i32>(1);
    assert!(fiberrt::timeout(SHORT, || receiver.recv()).is_err());
    let (sender, receiver) = bounded::<Rc<()>>(0);
    let item = Rc::new(());
    assert!(fiberrt::timeout(SHORT, || sender.send(item.clone()).is_ok()).is_err());
    assert_eq!(Rc::strong_count(&item), 1);
    drop(receiver);
}

fn an_outer_timeout_ends_calls_with_a_time_of_their_own() {
    let (sender, receiver) = bounded::<i32>(0);
    let mutex = Mutex::new(0);
    let held = mutex.lock();
    let received = fiberrt::timeout(SHORT, || receiver.recv_timeout(LONG));
    let sent = fiberrt::timeout(SHORT, || sender.send_timeout(1, LONG).is_ok());
    let locked = scope(|s| s.spawn(|| fiberrt::timeout(SHORT, || mutex.lock_timeout(LONG).is_some())).join().unwrap());
    assert!(received.is_err() && sent.is_err() && locked.is_err(), "{:?} {:?} {:?}", received, sent, locked);
    drop(held);
    assert_eq!(fiberrt::timeout(LONG, || receiver.recv_timeout(SHORT)), Ok(Err(TryRecvError::Empty)));
}

fn items_left_are_dropped_though_the_drop_of_one_panics() {
    struct Item<'a>(&'a Cell<u32>);
    impl Drop for Item<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
            if self.0.get() == 1 {
                panic!("the first item");
            }
        }
    }
    let drops = Cell::new(0);
    let (sender, receiver) = bounded(3);
    for _ in 0..3 {
        assert!(sender.send(Item(&drops)).is_ok());
    }
    assert!(catch_unwind(AssertUnwindSafe(|| drop(receiver))).is_err());
    drop(sender);
    assert_eq!(drops.get(), 3);
}

/// Calls a closure in a fiber that unwinds because it was cancelled.
fn while_a_fiber_unwinds(f: impl Fn()) {
    struct AtTheEnd<'a>(&'a dyn Fn());
    impl Drop for AtTheEnd<'_> {
        fn drop(&mut self) {
            assert!(std::thread::panicking());
            (self.0)();
        }
    }
    run(|| {
        scope(|s| {
            let fiber = s.spawn(|| {
                let _end = AtTheEnd(&f);
                sleep(LONG);
            });
            sleep(SHORT);
            fiber.cancel();
            assert!(fiber.join().unwrap_err().is_cancelled());
        });
    });
}

fn while_the_thread_unwinds_channels_and_locks_do_not_wait() {
    let (sender, receiver) = bounded(1);
    let mutex = Mutex::new(0);
    while_a_fiber_unwinds(|| {
        sender.send(1).unwrap();
        assert!(matches!(sender.send_timeout(2, LONG), Err(TrySendError::Full(2))));
        *mutex.lock() += receiver.recv().unwrap();
        assert_eq!(receiver.recv_timeout(LONG), Err(TryRecvError::Empty));
        yield_now(); // does nothing
        let _held = mutex.lock();
        assert!(mutex.lock_timeout(LONG).is_none());
    });
    assert_eq!(*mutex.lock(), 1);
}

fn waits_while_the_thread_unwinds_end_the_process() {
    const CALLS: [&str; 8] = ["sleep", "recv", "send", "lock", "join", "run", "scope", "offload"];
    let call = match std::env::var("REFUSED") {
        Ok(call) => call,
        Err(_) => {
            for call in CALLS {
                let said = harness::abort_of("waits_while_the_thread_unwinds", call);
                assert!(said.contains(call) && said.contains("would have to wait while"), "{}: {}", call, said);
            }
            return;
        }
    };
    let (sender, receiver) = bounded(0);
    let mutex = Mutex::new(0);
    let _held = mutex.lock();
    while_a_fiber_unwinds(|| match call.as_str() {
        "sleep" => sleep(SHORT),
        "recv" => drop(receiver.recv()),
        "send" => drop(sender.send(1)),
        "lock" => drop(mutex.lock()),
        "join" => drop(spawn(|| 1).join()),
        "run" => run(|| ()),
        "scope" => scope(|_| ()),
        _ => fiberrt::offload(|| ()),
    });
}

fn a_mutex_excludes_and_is_unlocked_by_a_panic() {
    let mutex = Mutex::new(Vec::new());
    scope(|s| {
        for i in 0..4 {
            let mutex = &mutex;
            s.spawn(move || {
                let mut list = mutex.lock();
                assert!(mutex.try_lock().is_none());
                list.push(i);
                sleep(SHORT);
                assert_eq!(list.last(), Some(&i));
            });
        }
    });
    assert_eq!(mutex.lock().len(), 4);
    assert!(catch_unwind(AssertUnwindSafe(|| {
        let _held = mutex.lock();
        panic!("while it is locked");
    }))
    .is_err());
    scope(|s| {
        let held = mutex.lock();
        let waiting = s.spawn(|| mutex.lock_timeout(SHORT).is_none());
        assert!(waiting.join().unwrap());
        drop(held);
        assert!(mutex.lock_timeout(SHORT).is_some());
    });
    let mut mutex = mutex;
    mutex.get_mut().clear();
    assert!(mutex.into_inner().is_empty());
}

fn a_mutex_whose_guard_was_forgotten_stays_locked() {
    let mutex = Mutex::new(1);
    scope(|s| {
        s.spawn(|| std::mem::forget(mutex.lock())).join().unwrap();
    });
    let moved = Box::new(mutex);
    for _ in 0..2 {
        assert!(catch_unwind(AssertUnwindSafe(|| *moved.lock())).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| moved.try_lock().is_some())).is_err() || moved.try_lock().is_none());
    }
    drop(moved);
    scope(|s| {
        s.spawn(|| {
            let short_lived = Mutex::new(2);
            std::mem::forget(short_lived.lock());
            assert!(catch_unwind(AssertUnwindSafe(|| *short_lived.lock())).is_err());
            // the caller holds it
        })
        .join()
        .unwrap();
    });
}

fn the_guard_belongs_to_its_fiber() {
    let mutex = Mutex::new(1);
    scope(|s| {
        let guard = mutex.lock();
        assert!(s.spawn(move || drop(guard)).join().is_err());
    });
}

fn main() {
    harness::run(&[
        ("items_come_in_order_and_the_end_is_told", items_come_in_order_and_the_end_is_told),
        ("sends_fail_without_receivers_and_return_the_value", sends_fail_without_receivers_and_return_the_value),
        ("receives_without_an_item", receives_without_an_item),
        ("items_left_in_a_channel_are_dropped", items_left_in_a_channel_are_dropped),
        (
            "a_cancelled_sender_keeps_nothing_and_a_cancelled_receiver_takes_nothing",
            a_cancelled_sender_keeps_nothing_and_a_cancelled_receiver_takes_nothing,
        ),
        ("a_timeout_ends_a_receive", a_timeout_ends_a_receive),
        ("an_outer_timeout_ends_calls_with_a_time_of_their_own", an_outer_timeout_ends_calls_with_a_time_of_their_own),
        ("items_left_are_dropped_though_the_drop_of_one_panics", items_left_are_dropped_though_the_drop_of_one_panics),
        (
            "while_the_thread_unwinds_channels_and_locks_do_not_wait",
            while_the_thread_unwinds_channels_and_locks_do_not_wait,
        ),
        ("waits_while_the_thread_unwinds_end_the_process", waits_while_the_thread_unwinds_end_the_process),
        ("a_mutex_excludes_and_is_unlocked_by_a_panic", a_mutex_excludes_and_is_unlocked_by_a_panic),
        ("a_mutex_whose_guard_was_forgotten_stays_locked", a_mutex_whose_guard_was_forgotten_stays_locked),
        ("the_guard_belongs_to_its_fiber", the_guard_belongs_to_its_fiber),
    ]);
}
