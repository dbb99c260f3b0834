// SPDX-License-Identifier: MIT OR Apache-2.0
// The coroutines of fiberrt.hpp: that they are fibers like the others, and that each frame is destroyed exactly once.
#include "hpp_support.h"

#if !defined(__cpp_impl_coroutine)

TEST(Coroutine, IsUnavailableWithThisCompiler) { GTEST_SKIP() << "this compiler has no coroutines of C++20"; }

#else

#include <array>
#include <memory>
#include <poll.h>
#include <stdexcept>
#include <sys/socket.h>
#include <thread>
#include <vector>

namespace co = fiberrt::co;
using f::task;

namespace {

// An object in a frame: counts the live ones.
class FrameToken {
public:
    explicit FrameToken(int& alive) : alive_(&alive) { ++alive; }
    FrameToken(const FrameToken& other) : alive_(other.alive_) { ++*alive_; }
    FrameToken(FrameToken&& other) noexcept : alive_(std::exchange(other.alive_, nullptr)) {}
    FrameToken& operator=(FrameToken) = delete;
    ~FrameToken() {
        if (alive_) --*alive_;
    }

private:
    int* alive_;
};

task<int> twice(int n) {
    co_await co::reschedule();
    co_return 2 * n;
}

task<int> sum_of_twice(int a, int b) { co_return co_await twice(a) + co_await twice(b); }

task<int> throws(std::string text) {
    co_await co::reschedule();
    throw std::out_of_range(text);
}

task<> sleeps(int& alive) {
    FrameToken token(alive);
    co_await co::sleep_for(hang);
}

// The code of the error that it throws; 0: none.
template <class F>
int error_of(F function) {
    try {
        function();
    } catch (const f::error& e) {
        return e.code().value();
    }
    return 0;
}

} // namespace

TEST(Coroutine, ReturnsValuesThroughOthers) {
    EXPECT_EQ(f::spawn(twice(21)).join(), 42);
    EXPECT_EQ(f::spawn(sum_of_twice(3, 4)).join(), 14);
    EXPECT_EQ(*f::spawn([]() -> task<std::unique_ptr<int>> { co_return std::make_unique<int>(3); }).join(), 3);
    int n = 0;
    f::spawn([&]() -> task<> {
        n = co_await twice(1);
        n += co_await sum_of_twice(n, 1);
    }).join();
    EXPECT_EQ(n, 8);
}

TEST(Coroutine, CarriesExceptionsThroughOthersToJoin) {
    int alive = 0;
    auto thrower = f::spawn([](int& count) -> task<int> {
        FrameToken token(count);
        co_return co_await throws("far away");
    }(alive));
    try {
        thrower.join();
        FAIL();
    } catch (const std::out_of_range& e) {
        EXPECT_STREQ(e.what(), "far away");
    }
    EXPECT_EQ(alive, 0);
    bool caught = false;
    f::spawn([&]() -> task<> {
        try {
            co_await throws("nearer");
        } catch (const std::out_of_range&) {
            caught = true;
        }
        co_await co::reschedule();
    }).join();
    EXPECT_TRUE(caught);
}

// Each way to leave a turn after each other, from the outer frame and from an inner one.
TEST(Coroutine, EndsEachTurnInItsOwnWay) {
    constexpr int ways = 3;
    int left = 0;
    auto leave = [&](int way) -> task<> {
        left++;
        if (way == 0) co_await co::reschedule();
        if (way == 1) {
            EXPECT_EQ(fiber_wakeup(f::this_fiber::self()), 0);
            co_await co::park();
        }
        if (way == 2) co_await co::sleep_for(1us);
    };
    auto leaves = [&]() -> task<> {
        for (int first = 0; first < ways; first++) {
            for (int second = 0; second < ways; second++) {
                co_await leave(first);
                co_await leave(second);
                co_await co::reschedule();
                co_await leave(first);
                co_await co::sleep_for(1us);
                co_await co::reschedule();
                co_await co::reschedule();
            }
        }
    };
    auto one = f::spawn(leaves);
    auto other = f::spawn(leaves);
    one.join();
    other.join();
    EXPECT_EQ(left, 2 * ways * ways * 3);
}

TEST(Coroutine, MayAwaitForeignAwaitables) {
    struct goes_on {
        int number;
        bool await_ready() const noexcept { return false; }
        bool await_suspend(std::coroutine_handle<>) const noexcept { return false; }
        int await_resume() const noexcept { return number; }
    };
    struct through_operator { // no aggregate: gcc 12 would destroy it twice, whatever the promise is
        std::unique_ptr<int> number;
        explicit through_operator(int of) : number(std::make_unique<int>(of)) {}
        goes_on operator co_await() const noexcept { return {*number}; }
    };
    EXPECT_EQ(f::spawn([]() -> task<int> {
                  int sum = co_await goes_on{1};
                  co_await co::reschedule();
                  co_await std::suspend_never();
                  goes_on lvalue{2};
                  sum += co_await lvalue;
                  sum += co_await twice(10);
                  sum += co_await through_operator(100);
                  co_await co::sleep_for(1us);
                  co_return sum;
              }).join(),
              123);
}

// No coroutine could resume it: it has no value, and the result says so.
TEST(Coroutine, EndsWhenAForeignExceptionLeavesIt) {
    int alive = 0;
    bool resumed = false;
    auto inner = [&](FrameToken) -> task<> {
        co_await co::reschedule();
        co_await std::suspend_always();
        resumed = true;
    };
    auto outer = [&](FrameToken) -> task<> {
        co_await co::reschedule();
        co_await twice(1);
        co_await inner(FrameToken(alive));
        resumed = true;
    };
    EXPECT_EQ(error_of([&] { f::spawn(outer(FrameToken(alive))).join(); }), EINVAL);
    auto at_once = [&](FrameToken) -> task<std::string> {
        co_await twice(1);
        co_await std::suspend_always();
        resumed = true;
        co_return "whole";
    };
    EXPECT_EQ(error_of([&] { f::spawn(at_once(FrameToken(alive))).join(); }), EINVAL);
    EXPECT_FALSE(resumed);
    EXPECT_EQ(alive, 0);
}

TEST(Coroutine, DoesNotRunUnlessItIsSpawnedOrAwaited) {
    int alive = 0;
    bool ran = false;
    auto body = [&ran](FrameToken) -> task<> {
        ran = true;
        co_return;
    };
    {
        task<> never = body(FrameToken(alive));
        EXPECT_EQ(alive, 1);
        task<> moved = std::move(never);
        moved = body(FrameToken(alive));
        EXPECT_EQ(alive, 1);
    }
    EXPECT_EQ(alive, 0);
    EXPECT_FALSE(ran);
}

TEST(Coroutine, ThatWasMovedAwayIsAnError) {
    auto nothing = []() -> task<> { co_return; };
    task<> there = nothing(), taken = std::move(there);
    try {
        spawn(std::move(there)).join(); // NOLINT: moved from
        ADD_FAILURE() << "it was spawned";
    } catch (const fiberrt::error& e) {
        EXPECT_EQ(e.code().value(), EINVAL);
    }
    auto awaits = [&]() -> task<int> {
        try {
            co_await std::move(there);
        } catch (const fiberrt::error& e) {
            co_return e.code().value();
        }
        co_return 0;
    };
    EXPECT_EQ(spawn(awaits()).join(), EINVAL);
    spawn(std::move(taken)).join();
}

TEST(Coroutine, ThatIsAwaitedAgainIsAnError) {
    task<int> ended = twice(2);
    auto awaits = [](task<int>& of) -> task<int> { co_return co_await std::move(of); };
    EXPECT_EQ(spawn(awaits(ended)).join(), 4);
    EXPECT_EQ(error_of([&] { spawn(awaits(ended)).join(); }), EINVAL);
    EXPECT_EQ(error_of([&] { spawn(std::move(ended)).join(); }), EINVAL);
    task<int> suspended = twice(3);
    auto first = spawn(awaits(suspended)), second = spawn(awaits(suspended));
    EXPECT_EQ(error_of([&] { second.join(); }), EINVAL);
    EXPECT_EQ(first.join(), 6);
}

TEST(Coroutine, LambdaLivesAsLongAsItsCoroutine) {
    int alive = 0;
    auto fiber = f::spawn([token = FrameToken(alive), text = std::string(1000, 'x')]() -> task<std::size_t> {
        co_await co::sleep_for(1ms);
        co_return text.size();
    });
    EXPECT_EQ(alive, 1);
    EXPECT_EQ(fiber.join(), 1000u);
    EXPECT_EQ(alive, 0);
}

TEST(Coroutine, IsAFiber) {
    f::event go;
    fiber_t inside{};
    auto fiber = f::spawn(f::attributes().name("stackless"), [&]() -> task<> {
        inside = f::this_fiber::self();
        EXPECT_EQ(code_of([] { f::sleep_for(1ms); }), EPERM) << "it has no stack to wait on";
        static f::fiber_local<int> local;
        *local = 5;
        co_await co::wait(go);
        EXPECT_EQ(*local, 5);
    });
    f::this_fiber::reschedule();
    EXPECT_EQ(inside.id, fiber.handle().id);
    fiber_info_t info;
    ASSERT_EQ(fiber_info(inside, &info, sizeof info), 0);
    EXPECT_STREQ(info.name, "stackless");
    EXPECT_EQ(info.stack_size, 0u);
    EXPECT_EQ(info.state, FIBER_WAITING);
    EXPECT_FALSE(fiber.wait_for(1ms));
    go.set();
    fiber.join();
    EXPECT_EQ(fiber_state(inside), -ESRCH);
}

TEST(Coroutine, TalksToAFiberWithAStackOverOneChannel) {
    for (std::size_t capacity : {0u, 1u, 5u}) {
        f::channel<std::string> there(capacity), back(capacity);
        auto coroutine = f::spawn([there, back]() -> task<int> {
            int n = 0;
            while (auto word = co_await co::recv(there)) {
                co_await co::send(back, *word + "!");
                n++;
            }
            back.close();
            co_return n;
        });
        auto stackful = f::spawn([there] {
            for (int i = 0; i < 100; i++) there.send(std::to_string(i));
            there.close();
        });
        int next = 0;
        for (std::string& word : back) EXPECT_EQ(word, std::to_string(next++) + "!");
        EXPECT_EQ(next, 100);
        EXPECT_EQ(coroutine.join(), 100);
        stackful.join();
    }
    f::channel<int> numbers; // the other way round: the coroutine sends
    auto sender = f::spawn([numbers]() -> task<> {
        for (int i = 1; i <= 10; i++) co_await co::send(numbers, i);
        numbers.close();
        EXPECT_EQ(0, 0);
    });
    int sum = 0;
    for (int number : numbers) sum += number;
    EXPECT_EQ(sum, 55);
    sender.join();
}

TEST(Coroutine, LosesAndDoublesNoItem) {
    int alive = 0;
    {
        f::channel<FrameToken> tokens(1);
        auto sender = f::spawn([&]() -> task<> {
            co_await co::send(tokens, FrameToken(alive));
            co_await co::send(tokens, FrameToken(alive)); // no room
        });
        f::this_fiber::reschedule();
        f::this_fiber::reschedule();
        EXPECT_EQ(alive, 2);
        sender.cancel();
        EXPECT_THROW(sender.join(), f::cancelled);
        EXPECT_EQ(alive, 1);
        auto receiver = f::spawn([&]() -> task<> {
            { auto token = co_await co::recv(tokens); }
            EXPECT_EQ(alive, 0);
            co_await co::recv(tokens); // no further token comes
        });
        f::this_fiber::reschedule();
        f::this_fiber::reschedule();
        tokens.send(FrameToken(alive));
        receiver.join();
        EXPECT_EQ(alive, 0);
        tokens.close();
        auto send = [&]() -> task<> { co_await co::send(tokens, FrameToken(alive)); };
        EXPECT_EQ(code_of([&] { f::spawn(send).join(); }), EPIPE);
        EXPECT_EQ(f::spawn([&]() -> task<bool> { co_return (co_await co::recv(tokens)).has_value(); }).join(), false);
    }
    EXPECT_EQ(alive, 0);
}

TEST(Coroutine, CancelIsAnExceptionAtTheAwait) {
    int alive = 0;
    auto sleeper = f::spawn([&]() -> task<> {
        FrameToken token(alive);
        co_await sleeps(alive);
    });
    f::this_fiber::reschedule();
    EXPECT_EQ(alive, 2);
    sleeper.cancel();
    EXPECT_THROW(sleeper.join(), f::cancelled);
    EXPECT_EQ(alive, 0);
    auto interrupted = f::spawn(sleeps(alive));
    f::this_fiber::reschedule();
    interrupted.interrupt();
    EXPECT_THROW(interrupted.join(), f::interrupted);
    auto busy = f::spawn([&]() -> task<> {
        for (;;) co_await co::reschedule();
    });
    f::this_fiber::reschedule();
    busy.cancel();
    EXPECT_THROW(busy.join(), f::cancelled);
    auto parked = f::spawn([&]() -> task<int> {
        co_await co::park();
        co_return 1;
    });
    f::this_fiber::reschedule();
    parked.wakeup();
    EXPECT_EQ(parked.join(), 1);
}

TEST(Coroutine, CancelledBeforeItsFirstTurnHasDestroyedItsFrame) {
    int alive = 0;
    bool ran = false;
    auto body = [&ran](FrameToken) -> task<int> {
        ran = true;
        co_return 1;
    };
    auto never = f::spawn(body(FrameToken(alive)));
    never.cancel();
    EXPECT_EQ(code_of([&] { never.join(); }), ECANCELED);
    EXPECT_FALSE(ran);
    EXPECT_EQ(alive, 0);
    f::spawn_detached([](FrameToken) -> task<> { co_return; }(FrameToken(alive)));
    auto detached = f::spawn(body(FrameToken(alive)));
    fiber_t handle = detached.handle();
    detached.detach();
    EXPECT_EQ(fiber_cancel(handle, nullptr), 0);
    f::this_fiber::reschedule();
    f::this_fiber::reschedule();
    EXPECT_FALSE(ran);
    EXPECT_EQ(alive, 0);
}

TEST(Coroutine, HandleThatIsDestroyedCancelsAndJoinsIt) {
    int alive = 0;
    {
        auto begun = f::spawn(sleeps(alive));
        f::this_fiber::reschedule();
        auto new_one = f::spawn(sleeps(alive));
        EXPECT_EQ(alive, 1);
    }
    EXPECT_EQ(alive, 0);
}

TEST(Coroutine, ThatIsDetachedMayBeCancelled) {
    int alive = 0;
    auto sleeper = f::spawn(sleeps(alive));
    fiber_t handle = sleeper.handle();
    f::this_fiber::reschedule();
    sleeper.detach();
    EXPECT_EQ(alive, 1);
    fiber_cancel(handle, nullptr);
    f::this_fiber::reschedule();
    f::this_fiber::reschedule();
    EXPECT_EQ(alive, 0);
}

TEST(Coroutine, FramesAreDestroyedWhenTheThreadExits) {
    if (simulated()) GTEST_SKIP() << "a simulation has no threads without a cord";
    int alive = 0;
    f::fiber<> kept;
    f::channel<int> empty;
    std::thread([&] {
        f::spawn_detached(sleeps(alive));
        f::spawn_detached([](int& count) -> task<> {
            FrameToken token(count);
            co_await sleeps(count);
        }(alive));
        f::spawn_detached([](int& count, f::channel<int> from) -> task<> {
            FrameToken token(count);
            co_await co::recv(from);
        }(alive, empty));
        kept = f::spawn(sleeps(alive));
        auto joined = std::make_shared<f::fiber<>>(f::spawn(sleeps(alive)));
        for (int i = 0; i < 3; i++) { // they wait for one another, and are destroyed in some order
            f::spawn_detached([](int& count, std::shared_ptr<f::fiber<>> other) -> task<> {
                FrameToken token(count);
                co_await co::join(*other);
            }(alive, joined));
        }
        joined.reset();
        f::this_fiber::reschedule();
        f::this_fiber::reschedule();
        f::spawn_detached([](FrameToken) -> task<> { co_return; }(FrameToken(alive))); // never has its first turn
        EXPECT_GE(alive, 8);
    }).join();
    EXPECT_EQ(alive, 0);
    EXPECT_NE(code_of([&] { kept.join(); }), 0);
}

TEST(Coroutine, JoinsFibersOfBothKinds) {
    auto all = f::spawn([]() -> task<int> {
        int sum = co_await co::join(f::spawn([] {
            f::sleep_for(1ms);
            return 1;
        }));
        sum += co_await co::join(f::spawn(twice(5)));
        auto later = f::spawn(twice(7));
        sum += co_await co::join(later);
        try {
            co_await co::join(f::spawn([] { throw std::out_of_range("from a stack"); }));
        } catch (const std::out_of_range&) {
            sum += 100;
        }
        auto ended = f::spawn([] { return 1000; });
        co_await co::sleep_for(1ms);
        sum += co_await co::join(ended);
        co_return sum;
    });
    EXPECT_EQ(all.join(), 1 + 10 + 14 + 100 + 1000);
}

TEST(Coroutine, WaitsForEventsGroupsSemaphoresAndMutexes) {
    f::event go;
    f::wait_group group(1);
    f::semaphore permits;
    f::mutex mutex;
    int step = 0;
    mutex.lock();
    auto fiber = f::spawn([&]() -> task<> {
        co_await co::wait(go);
        step = 1;
        co_await co::wait(group);
        step = 2;
        co_await co::acquire(permits, 2);
        step = 3;
        {
            std::unique_lock<f::mutex> hold = co_await co::lock(mutex);
            step = 4;
            co_await co::sleep_for(1ms);
        }
        step = 5;
    });
    auto after = [&] {
        for (int i = 0; i < 3; i++) f::this_fiber::reschedule();
        return step;
    };
    EXPECT_EQ(after(), 0);
    go.set();
    EXPECT_EQ(after(), 1);
    group.done();
    EXPECT_EQ(after(), 2);
    permits.release(2);
    EXPECT_EQ(after(), 3);
    mutex.unlock();
    EXPECT_EQ(after(), 4);
    EXPECT_FALSE(mutex.try_lock());
    fiber.join();
    EXPECT_EQ(step, 5);
    EXPECT_TRUE(mutex.try_lock());
    mutex.unlock();
}

TEST(Coroutine, HasDeadlines) {
    auto fiber = f::spawn([]() -> task<int> {
        int n = 0;
        int ignored = 0;
        if (!co_await co::with_timeout(1ms, sleeps(ignored))) n += 1;
        if (co_await co::with_timeout(hang, twice(5)) == 10) n += 2;
        if (!co_await co::with_timeout(1ms, [](int& count) -> task<> {
                co_await co::with_timeout(hang, sleeps(count)); // the outer deadline passes through
                ADD_FAILURE();
            }(ignored)))
            n += 4;
        try {
            co_await co::with_timeout(hang, throws("inside"));
        } catch (const std::out_of_range&) {
            n += 8;
        }
        co_await co::sleep_until(f::clock::now() + 1ms); // no scope is left open
        co_return n + ignored;
    });
    EXPECT_EQ(fiber.join(), 15);
}

TEST(Coroutine, MayCallAFunctionThatWaitsOnAStack) {
    int alive = 0;
    auto fiber = f::spawn([&]() -> task<int> {
        auto function = [token = FrameToken(alive)] {
            f::sleep_for(1ms);
            return f::spawn([] { return 5; }).join();
        };
        int n = co_await co::call(std::move(function));
        try {
            co_await co::call([] { throw std::out_of_range("on the stack"); });
        } catch (const std::out_of_range&) {
            n += 10;
        }
        co_return n;
    });
    EXPECT_EQ(fiber.join(), 15);
    EXPECT_EQ(alive, 0);
    bool unwound = false;
    auto cancelled = f::spawn([&]() -> task<> {
        co_await co::call([&] {
            try {
                f::sleep_for(hang);
            } catch (const f::cancelled&) {
                unwound = true;
                throw;
            }
        });
    });
    f::sleep_for(1ms);
    cancelled.cancel();
    EXPECT_THROW(cancelled.join(), f::cancelled);
    EXPECT_TRUE(unwound);
}

TEST(Coroutine, ReadsAndWrites) {
    if (!FIBERRT_TEST_IO) GTEST_SKIP() << "the library was built without I/O";
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    f::descriptor here(ends[0]), there(ends[1]);
    auto echo = f::spawn([&]() -> task<std::size_t> {
        std::array<char, 100> bytes;
        std::size_t total = 0;
        while (std::size_t n = co_await co::recv(there, bytes.data(), bytes.size())) {
            for (std::size_t sent = 0; sent < n;) sent += co_await co::send(there, bytes.data() + sent, n - sent);
            total += n;
        }
        co_return total;
    });
    std::string text(1000, 'x'), back;
    here.write_all(text.data(), text.size());
    std::array<char, 64> some;
    while (back.size() < text.size()) back.append(some.data(), here.read(some.data(), some.size()));
    EXPECT_EQ(back, text);
    auto poller = f::spawn([&]() -> task<int> { co_return co_await co::poll(here, POLLOUT); });
    EXPECT_EQ(poller.join() & POLLOUT, POLLOUT);
    auto reader = f::spawn([&]() -> task<> {
        char byte;
        co_await co::read(here, &byte, 1);
    });
    f::sleep_for(1ms);
    reader.cancel();
    EXPECT_THROW(reader.join(), f::cancelled);
    EXPECT_EQ(f::spawn([&]() -> task<std::size_t> { co_return co_await co::write(here, "y", 1); }).join(), 1u);
    EXPECT_EQ(here.read(some.data(), 1), 1u);
    here.close();
    EXPECT_EQ(echo.join(), 1001u);
    f::descriptor none;
    EXPECT_EQ(code_of([&] { f::spawn([&]() -> task<> { co_await co::accept(none); }).join(); }), EBADF);
}

TEST(Coroutine, ManyTakeTurns) {
    const int fibers = 1000, turns = 20;
    int left = fibers;
    std::vector<f::fiber<>> all;
    for (int i = 0; i < fibers; i++) {
        all.push_back(f::spawn([](int n, int& count) -> task<> {
            for (int turn = 0; turn < n; turn++) co_await co::reschedule();
            count--;
        }(turns, left)));
    }
    for (auto& fiber : all) fiber.join();
    EXPECT_EQ(left, 0);
}

TEST(CoroutineDeathTest, AnExceptionThatLeavesADetachedOneTerminates) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    if (simulated()) GTEST_SKIP() << "a simulation ends differently";
    EXPECT_DEATH(
        {
            f::spawn_detached(throws("nobody joins"));
            for (int i = 0; i < 5; i++) f::this_fiber::reschedule();
        },
        "an exception left the function of fiber");
}

#endif
