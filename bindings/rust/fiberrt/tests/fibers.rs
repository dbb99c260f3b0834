// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fibers, scopes, cancels and timeouts. Each test runs on any backend.

mod harness;

use fiberrt::{channel, run, scope, sleep, spawn, timeout, yield_now, Builder, Cancelled, Elapsed, JoinError};
use std::cell::{Cell, RefCell};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::rc::Rc;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(2);

/// Sets a flag when it is dropped.
struct OnDrop<'a>(&'a Cell<bool>);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

/// Returns the message of the panic of a closure.
fn message_of<T>(f: impl FnOnce() -> T) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).err().expect("it panics");
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload.downcast_ref::<&str>().expect("a text").to_string(),
    }
}

fn fibers_take_turns_and_return_results() {
    let order = Rc::new(RefCell::new(Vec::new()));
    let seen = order.clone();
    let sum = run(move || {
        let fibers: Vec<_> = (0..3)
            .map(|i| {
                let order = order.clone();
                spawn(move || {
                    order.borrow_mut().push(i);
                    sleep(SHORT);
                    i
                })
            })
            .collect();
        fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum::<i32>()
    });
    assert_eq!(sum, 3);
    let mut begun = seen.borrow().clone();
    begun.sort_unstable();
    assert_eq!(begun, [0, 1, 2]);
}

fn run_waits_for_fibers_that_are_not_joined() {
    let done = Rc::new(Cell::new(0));
    let seen = done.clone();
    run(move || {
        spawn(move || {
            sleep(SHORT);
            let inner = done.clone();
            spawn(move || inner.set(inner.get() + 1));
            done.set(done.get() + 1);
        });
    });
    assert_eq!(seen.get(), 2);
}

fn a_panic_of_run_cancels_its_fibers() {
    let dropped = Rc::new(Cell::new(false));
    let seen = dropped.clone();
    let message = message_of(|| {
        run(move || {
            spawn(move || {
                let _guard = OnDrop(&dropped);
                sleep(LONG);
            });
            yield_now();
            sleep(SHORT);
            panic!("the main flow");
        })
    });
    assert_eq!(message, "the main flow");
    assert!(seen.get());
    assert_eq!(run(|| spawn(|| 1).join().unwrap()), 1); // the thread can do it again
}

fn spawn_needs_a_run() {
    let dropped = Rc::new(());
    let owned = dropped.clone();
    assert!(message_of(|| spawn(move || drop(owned))).contains("outside of fiberrt::run"));
    assert_eq!(Rc::strong_count(&dropped), 1);
    assert!(message_of(|| run(|| run(|| ()))).contains("run inside of a run"));
}

fn a_join_carries_the_panic() {
    run(|| {
        let error = spawn(|| resume_unwind(Box::new(42))).join().unwrap_err();
        assert!(!error.is_cancelled());
        assert_eq!(error.to_string(), "the fiber panicked");
        assert_eq!(*error.into_panic().unwrap().downcast::<i32>().unwrap(), 42);
        let error = spawn(|| resume_unwind(Box::new("text".to_string()))).join().unwrap_err();
        assert_eq!(format!("{:?}", error), "JoinError(the fiber panicked: text)");
        assert_eq!(spawn(|| 1).join().unwrap(), 1);
    });
}

fn panics_of_several_fibers_do_not_meet() {
    run(|| {
        let fibers: Vec<_> = (0..10)
            .map(|i| {
                spawn(move || {
                    let caught = catch_unwind(|| {
                        sleep(SHORT);
                        resume_unwind(Box::new(i));
                    });
                    sleep(SHORT); // while the others panic
                    assert!(!std::thread::panicking());
                    *caught.unwrap_err().downcast::<i32>().unwrap()
                })
            })
            .collect();
        for (i, fiber) in fibers.into_iter().enumerate() {
            assert_eq!(fiber.join().unwrap(), i as i32);
        }
    });
}

fn a_cancel_unwinds_at_the_wait() {
    run(|| {
        let dropped = Rc::new(Cell::new(false));
        let after = Rc::new(Cell::new(false));
        let (inner_dropped, inner_after) = (dropped.clone(), after.clone());
        let fiber = spawn(move || {
            let _guard = OnDrop(&inner_dropped);
            sleep(LONG);
            inner_after.set(true);
        });
        yield_now();
        sleep(SHORT);
        assert!(!fiber.is_finished());
        fiber.cancel();
        let error = fiber.join().unwrap_err();
        assert!(error.is_cancelled() && error.into_panic().is_none());
        assert!(dropped.get() && !after.get());
    });
}

fn a_cancel_before_the_first_turn_drops_the_closure() {
    run(|| {
        let owned = Rc::new(());
        let inner = owned.clone();
        let fiber = spawn(move || drop(inner));
        fiber.cancel();
        assert!(matches!(fiber.join(), Err(JoinError::Cancelled)));
        assert_eq!(Rc::strong_count(&owned), 1);
    });
}

fn a_drop_that_panics_in_a_closure_that_never_runs_is_the_result() {
    struct Bomb(fn());
    impl Drop for Bomb {
        fn drop(&mut self) {
            (self.0)(); // not allowed here
        }
    }
    let waits: [fn(); 2] = [|| sleep(SHORT), || drop(scope(|s| s.spawn(|| ()).join()))];
    run(|| {
        for wait in waits {
            let bomb = Bomb(wait);
            let fiber = spawn(move || {
                let _bomb = bomb;
            });
            fiber.cancel();
            let error = fiber.join().unwrap_err();
            assert!(error.to_string().contains("where the library allows none"), "{}", error);
        }
    });
}

fn a_result_that_waits_in_its_drop_may_belong_to_a_cancelled_fiber() {
    struct Waits(Rc<Cell<u32>>);
    impl Drop for Waits {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
            sleep(SHORT); // unwinds
            self.0.set(self.0.get() + 10);
        }
    }
    fn returns_late(drops: Rc<Cell<u32>>) -> Waits {
        fiberrt::shield(|| {
            sleep(SHORT);
            Waits(drops)
        })
    }
    let drops = Rc::new(Cell::new(0));
    run(|| {
        let result = drops.clone();
        let fiber = spawn(move || returns_late(result));
        yield_now();
        fiber.cancel();
        drop(fiber);
    });
    assert!(drops.replace(0) <= 1); // 0 in a simulation, if the fiber was cancelled before it ran
    let _ = timeout(SHORT / 2, || scope(|s| drop(s.spawn(|| returns_late(drops.clone())))));
    assert_eq!(drops.get(), 1);
}

fn every_later_wait_of_a_cancelled_fiber_unwinds() {
    run(|| {
        let fiber = spawn(|| {
            let first = catch_unwind(|| sleep(LONG)).unwrap_err();
            assert!(first.is::<Cancelled>() && fiberrt::is_cancelled());
            let second = catch_unwind(|| sleep(LONG)).unwrap_err();
            assert!(second.is::<Cancelled>());
            fiberrt::shield(|| {
                sleep(SHORT); // here it may wait
                7
            })
        });
        yield_now();
        fiber.cancel();
        assert!(matches!(fiber.join(), Ok(7) | Err(JoinError::Cancelled))); // it may have been cancelled before it ran
        assert!(!fiberrt::is_cancelled());
    });
}

fn a_timeout_ends_its_closure_and_no_more() {
    run(|| {
        let dropped = Cell::new(false);
        let late = timeout(SHORT, || {
            let _guard = OnDrop(&dropped);
            sleep(LONG);
        });
        assert_eq!(late.map_err(|error: Elapsed| error.to_string()), Err("the time has passed".to_string()));
        assert!(dropped.get());
        sleep(SHORT);
        assert_eq!(timeout(LONG, || 5), Ok(5));
    });
}

fn the_outer_timeout_ends_the_inner_one() {
    run(|| {
        let inner_returned = Cell::new(false);
        let outer = timeout(SHORT, || {
            let inner = timeout(LONG, || sleep(LONG));
            inner_returned.set(true);
            inner
        });
        assert!(outer.is_err() && !inner_returned.get());
        let outer = timeout(LONG, || timeout(SHORT, || sleep(LONG)).is_err());
        assert_eq!(outer, Ok(true));
    });
}

fn a_panic_passes_through_timeout_and_shield() {
    assert_eq!(message_of(|| timeout(LONG, || panic!("inside"))), "inside");
    assert_eq!(message_of(|| fiberrt::shield(|| panic!("within"))), "within");
    sleep(SHORT); // both scopes are closed
}

fn a_scope_lends_and_waits() {
    let mut values = vec![1, 2, 3];
    let total = Cell::new(0);
    scope(|s| {
        for value in &mut values {
            let total = &total;
            s.spawn(move || {
                sleep(SHORT);
                *value *= 10;
                total.set(total.get() + *value);
            });
        }
    });
    assert_eq!((values, total.get()), (vec![10, 20, 30], 60));
}

fn fibers_of_a_scope_spawn_more() {
    let count = Cell::new(0);
    let count = &count;
    let result = scope(|s| {
        s.spawn(move || {
            s.spawn(move || {
                sleep(SHORT);
                count.set(count.get() + 1);
            });
            count.set(count.get() + 1);
        });
        s.spawn_with(&Builder::new().name("named").stack_size(1 << 20), || 5).unwrap().join().unwrap()
    });
    assert_eq!((count.get(), result), (2, 5));
}

fn a_panic_of_a_scopes_closure_cancels_the_fibers() {
    let dropped = Cell::new(false);
    let message = message_of(|| {
        scope(|s| {
            s.spawn(|| {
                let _guard = OnDrop(&dropped);
                sleep(LONG);
            });
            sleep(SHORT);
            panic!("the closure");
        })
    });
    assert_eq!(message, "the closure");
    assert!(dropped.get());
}

fn a_panic_of_a_scopes_fiber_goes_on_in_the_caller() {
    let finished = Cell::new(false);
    let message = message_of(|| {
        scope(|s| {
            s.spawn(|| panic!("of the fiber"));
            s.spawn(|| {
                sleep(SHORT);
                finished.set(true);
            });
        })
    });
    assert_eq!(message, "of the fiber");
    assert!(finished.get());
    // not if it was joined
    assert!(scope(|s| s.spawn(|| panic!("of the fiber")).join().is_err()));
}

fn a_cancel_reaches_the_fibers_of_a_scope() {
    run(|| {
        let ended = Rc::new(Cell::new(0));
        let inner = ended.clone();
        let fiber = spawn(move || {
            scope(|s| {
                for _ in 0..3 {
                    s.spawn(|| {
                        struct Count<'a>(&'a Cell<i32>);
                        impl Drop for Count<'_> {
                            fn drop(&mut self) {
                                self.0.set(self.0.get() + 1);
                            }
                        }
                        let _count = Count(&inner);
                        sleep(LONG);
                    });
                }
            });
        });
        sleep(SHORT);
        fiber.cancel();
        assert!(fiber.join().unwrap_err().is_cancelled());
        assert_eq!(ended.get(), 3);
    });
}

fn a_fiber_of_a_scope_can_be_cancelled() {
    let result = scope(|s| {
        let fiber = s.spawn(|| sleep(LONG));
        sleep(SHORT);
        fiber.cancel();
        fiber.join()
    });
    assert!(result.unwrap_err().is_cancelled());
}

fn a_main_flow_is_told_of_a_deadlock_of_its_fibers() {
    let (sender, receiver) = channel::bounded::<i32>(0);
    let dropped = Cell::new(false);
    let message = message_of(|| {
        scope(|s| {
            s.spawn(|| {
                let _guard = OnDrop(&dropped);
                let _ = receiver.recv();
            });
        })
    });
    assert!(message.contains("deadlock"), "{}", message);
    assert!(dropped.get());
    drop(sender);
}

fn builders_refuse_impossible_attributes() {
    run(|| {
        assert!(Builder::new().stack_size(1).spawn(|| ()).is_err());
        assert!(Builder::new().name("with\0zero").spawn(|| ()).is_err());
        let fiber = Builder::new().name("a name").stack_size(1 << 16).spawn(|| ()).unwrap();
        assert!(format!("{:?}", fiber).starts_with("JoinHandle(0x"));
        fiber.join().unwrap();
    });
}

fn a_fiber_without_a_stack_says_so() {
    run(|| {
        spawn(|| ()).join().unwrap(); // the thread has its cord
        let owned = Rc::new(());
        let inner = owned.clone();
        let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut before) }, 0);
        let fiber = Builder::new().stack_size(1 << 30).spawn(move || drop(inner)).unwrap();
        let short = libc::rlimit { rlim_cur: 900 << 20, ..before };
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &short) }, 0);
        let error = fiber.join().unwrap_err();
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &before) }, 0);
        assert!(matches!(error, JoinError::NoStack), "{}", error);
        assert_eq!(error.to_string(), "the fiber had no stack");
        assert_eq!(Rc::strong_count(&owned), 1);
    });
}

fn an_offloaded_closure_borrows_and_panics() {
    run(|| {
        let text = "borrowed".to_string();
        assert_eq!(fiberrt::offload(|| text.len()), 8);
        assert_eq!(message_of(|| fiberrt::offload(|| panic!("there"))), "there");
    });
}

/// In a simulation cords share the thread.
fn cords_and_a_run_do_not_mix() {
    run(|| {
        let (sender, receiver) = channel::bounded::<()>(0);
        let cord = |receiver: channel::Receiver<()>| {
            fiberrt::Cord::start(move || {
                assert!(receiver.recv().is_err());
                assert!(message_of(|| run(|| ())).contains("in a cord"));
                spawn(|| 1).join().unwrap()
            })
            .unwrap()
        };
        let (one, two) = (cord(receiver.clone()), cord(receiver));
        let done = Rc::new(Cell::new(0));
        let inner = done.clone();
        scope(|s| {
            s.spawn(|| spawn(move || inner.set(1)).join().unwrap());
        });
        drop(sender);
        assert_eq!((one.join().unwrap(), two.join().unwrap(), done.get()), (1, 1, 1));
    });
    let done = Rc::new(Cell::new(false));
    let inner = done.clone();
    run(move || {
        fiberrt::Cord::start(|| ()).unwrap().join().unwrap();
        spawn(move || {
            sleep(SHORT);
            inner.set(true);
        });
    });
    assert!(done.get()); // the run has waited for its fiber
}

fn many_fibers() {
    let count = Cell::new(0);
    scope(|s| {
        for _ in 0..5000 {
            s.spawn(|| {
                yield_now();
                count.set(count.get() + 1);
            });
        }
    });
    assert_eq!(count.get(), 5000);
}

fn main() {
    // The first one needs a process without other threads.
    harness::run(&[
        ("a_main_flow_is_told_of_a_deadlock_of_its_fibers", a_main_flow_is_told_of_a_deadlock_of_its_fibers),
        ("fibers_take_turns_and_return_results", fibers_take_turns_and_return_results),
        ("run_waits_for_fibers_that_are_not_joined", run_waits_for_fibers_that_are_not_joined),
        ("a_panic_of_run_cancels_its_fibers", a_panic_of_run_cancels_its_fibers),
        ("spawn_needs_a_run", spawn_needs_a_run),
        ("a_join_carries_the_panic", a_join_carries_the_panic),
        ("panics_of_several_fibers_do_not_meet", panics_of_several_fibers_do_not_meet),
        ("a_cancel_unwinds_at_the_wait", a_cancel_unwinds_at_the_wait),
        ("a_cancel_before_the_first_turn_drops_the_closure", a_cancel_before_the_first_turn_drops_the_closure),
        (
            "a_drop_that_panics_in_a_closure_that_never_runs_is_the_result",
            a_drop_that_panics_in_a_closure_that_never_runs_is_the_result,
        ),
        (
            "a_result_that_waits_in_its_drop_may_belong_to_a_cancelled_fiber",
            a_result_that_waits_in_its_drop_may_belong_to_a_cancelled_fiber,
        ),
        ("every_later_wait_of_a_cancelled_fiber_unwinds", every_later_wait_of_a_cancelled_fiber_unwinds),
        ("a_timeout_ends_its_closure_and_no_more", a_timeout_ends_its_closure_and_no_more),
        ("the_outer_timeout_ends_the_inner_one", the_outer_timeout_ends_the_inner_one),
        ("a_panic_passes_through_timeout_and_shield", a_panic_passes_through_timeout_and_shield),
        ("a_scope_lends_and_waits", a_scope_lends_and_waits),
        ("fibers_of_a_scope_spawn_more", fibers_of_a_scope_spawn_more),
        ("a_panic_of_a_scopes_closure_cancels_the_fibers", a_panic_of_a_scopes_closure_cancels_the_fibers),
        ("a_panic_of_a_scopes_fiber_goes_on_in_the_caller", a_panic_of_a_scopes_fiber_goes_on_in_the_caller),
        ("a_cancel_reaches_the_fibers_of_a_scope", a_cancel_reaches_the_fibers_of_a_scope),
        ("a_fiber_of_a_scope_can_be_cancelled", a_fiber_of_a_scope_can_be_cancelled),
        ("builders_refuse_impossible_attributes", builders_refuse_impossible_attributes),
        ("a_fiber_without_a_stack_says_so", a_fiber_without_a_stack_says_so),
        ("an_offloaded_closure_borrows_and_panics", an_offloaded_closure_borrows_and_panics),
        ("cords_and_a_run_do_not_mix", cords_and_a_run_do_not_mix),
        ("many_fibers", many_fibers),
    ]);
}
