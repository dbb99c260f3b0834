// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cords, and fibers that meet other threads.

use fiberrt::channel::bounded;
use fiberrt::{run, scope, sleep, spawn, Cord, Mutex};
use std::collections::BTreeSet;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(2);

#[test]
fn a_cord_runs_fibers_and_ends_after_them() {
    let done = Arc::new(AtomicUsize::new(0));
    let inner = done.clone();
    let cord = Cord::start(move || {
        let local = std::rc::Rc::new(inner); // need not be Send
        for _ in 0..3 {
            let local = local.clone();
            spawn(move || {
                sleep(SHORT);
                local.fetch_add(1, Ordering::Relaxed);
            });
        }
        "result"
    })
    .unwrap();
    let remote = cord.remote();
    assert_eq!(cord.join().unwrap(), "result");
    assert_eq!(done.load(Ordering::Relaxed), 3);
    let owned = Arc::new(());
    let inner = owned.clone();
    assert!(remote.spawn(move || drop(inner)).is_err());
    assert_eq!(Arc::strong_count(&owned), 1);
}

#[test]
fn results_panics_and_cancels_cross_threads() {
    let (stop, stopped) = bounded::<()>(0);
    let cord = Cord::start(move || stopped.recv().is_err()).unwrap();
    let remote = cord.remote();
    assert_eq!(remote.spawn(|| 7).unwrap().join().unwrap(), 7);
    let error = remote.spawn(|| panic!("there")).unwrap().join().unwrap_err();
    assert_eq!(error.to_string(), "the fiber panicked: there");
    let waiting = remote.spawn(|| sleep(LONG)).unwrap();
    waiting.cancel();
    assert!(waiting.join().unwrap_err().is_cancelled());
    // A handle may be joined on any thread; the fiber's thread serves others meanwhile.
    let handle = remote.spawn(|| {
        sleep(SHORT);
        9
    });
    let joined = std::thread::spawn(move || handle.unwrap().join().unwrap()).join().unwrap();
    assert_eq!(joined, 9);
    drop(stop);
    assert!(cord.join().unwrap());
    let cord = Cord::start(|| panic!("the main flow")).unwrap();
    assert_eq!(cord.join().unwrap_err().to_string(), "the fiber panicked: the main flow");
}

#[test]
fn many_threads_share_a_channel_and_a_mutex() {
    const EACH: usize = 500;
    let (sender, receiver) = bounded(3);
    let total = Arc::new(Mutex::new(0));
    let mut cords = Vec::new();
    for _ in 0..2 {
        let (sender, total) = (sender.clone(), total.clone());
        cords.push(Cord::start(move || {
            scope(|s| {
                for _ in 0..4 {
                    s.spawn(|| {
                        for i in 0..EACH {
                            sender.send(Box::new(i)).unwrap();
                            *total.lock() += 1;
                        }
                    });
                }
            });
        }));
    }
    // A thread without fibers sends, too, and blocks.
    let (plain_sender, plain_total) = (sender.clone(), total.clone());
    let plain = std::thread::spawn(move || {
        for i in 0..EACH {
            plain_sender.send(Box::new(i)).unwrap();
            *plain_total.lock() += 1;
        }
    });
    drop(sender);
    let sum = run(move || spawn(move || receiver.iter().map(|item| *item).sum::<usize>()).join().unwrap());
    plain.join().unwrap();
    for cord in cords {
        cord.unwrap().join().unwrap();
    }
    assert_eq!(sum, 9 * EACH * (EACH - 1) / 2);
    assert_eq!(*total.lock(), 9 * EACH);
}

#[test]
fn a_cord_that_is_not_joined_goes_on() {
    let (sender, receiver) = bounded(1);
    drop(Cord::start(move || {
        spawn(move || {
            sleep(SHORT);
            sender.send(5).unwrap();
        });
    }));
    assert_eq!(receiver.recv(), Ok(5));
}

#[test]
fn dropped_cords_do_not_use_up_the_cords() {
    const COUNT: usize = 50;
    let mut slots = BTreeSet::new();
    for i in 0..COUNT {
        let (running, until_stopped) = bounded::<()>(0);
        let cord = Cord::start(move || until_stopped.recv().is_err()).unwrap();
        let handle = format!("{:?}", cord.remote()); // Remote(0x02, 6 digits of the slot, 8 of the use)
        slots.insert(handle["Remote(0x02".len()..][..6].to_string());
        if i % 2 == 0 {
            drop(cord);
        } else {
            assert!(fiberrt::timeout(SHORT / 2, || cord.join()).is_err()); // a join that unwinds drops it
        }
        drop(running);
        sleep(SHORT);
    }
    assert!(slots.len() < COUNT * 3 / 4, "{:?}", slots);
}

#[test]
fn a_destructor_of_a_cords_thread_cannot_spawn() {
    static SPAWNED: AtomicUsize = AtomicUsize::new(9);
    struct AtTheEnd;
    impl Drop for AtTheEnd {
        fn drop(&mut self) {
            SPAWNED.store(catch_unwind(|| spawn(|| ())).is_ok().into(), Ordering::Release);
        }
    }
    thread_local! {
        static VALUE: AtTheEnd = const { AtTheEnd };
    }
    Cord::start(|| VALUE.with(|_| spawn(|| ()).join().unwrap())).unwrap().join().unwrap();
    while SPAWNED.load(Ordering::Acquire) == 9 {
        sleep(SHORT); // the join may return before the destructors
    }
    assert_eq!(SPAWNED.load(Ordering::Acquire), 0);
}

#[test]
fn a_remote_fiber_spawns_after_the_cords_closure_has_returned() {
    let (sender, receiver) = bounded(1);
    let (begun, ready) = bounded(1);
    let cord = Cord::start(move || {
        spawn(move || {
            begun.send(()).unwrap();
            sleep(SHORT);
            spawn(move || sender.send(6).unwrap());
        });
    })
    .unwrap();
    ready.recv().unwrap();
    cord.join().unwrap();
    assert_eq!(receiver.try_recv(), Ok(6));
}
