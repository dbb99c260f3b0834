// SPDX-License-Identifier: MIT OR Apache-2.0
// Helpers for tests of cords: cords from lambdas, a cord that runs the functions sent to it, waits that do not depend
// on speed.
#ifndef FIBERRT_TESTS_CORD_SUPPORT_H
#define FIBERRT_TESTS_CORD_SUPPORT_H

#include "support.h"

#include <atomic>
#include <chrono>
#include <dirent.h>
#include <functional>
#include <memory>
#include <sched.h>
#include <vector>

namespace support {

// Waits in a fiber until condition() is true, and returns true. After 60 s it reports a failure and returns false.
template <class Condition>
bool await(Condition condition) {
    for (int64_t end = fiber_now() + FIBER_SEC(60); fiber_now() < end;) {
        if (condition()) return true;
        fiber_sleep(FIBER_USEC(100));
    }
    ADD_FAILURE() << "waited for in vain";
    return false;
}

// As await(), for a thread that must not get a cord, or a fiber that must keep its thread: nothing is switched or
// polled.
template <class Condition>
bool await_holding_the_thread(Condition condition) {
    for (int64_t end = fiber_now() + FIBER_SEC(60); fiber_now() < end;) {
        if (condition()) return true;
        if (!simulated()) sched_yield(); // in a simulation fiber_now() lets other cords go on
    }
    ADD_FAILURE() << "waited for in vain";
    return false;
}

// A thread that runs a lambda, without a cord if the lambda needs none; in a simulation a cord. A lambda that waits for
// a flag in a loop must use is_set(), because cords share one thread there.
class Thread {
public:
    template <class Body>
    explicit Thread(Body body) : body_(std::make_unique<std::function<void()>>(body)) {
        if (simulated()) {
            cord_ = start_cord();
        } else {
            thread_ = std::thread(*body_);
        }
    }
    void join() {
        if (thread_.joinable()) return thread_.join();
        expect_joined(fiber_cord_join(cord_, nullptr));
    }

private:
    fiber_cord_t start_cord() const {
        fiber_cord_t cord{};
        EXPECT_EQ(fiber_cord_start(&cord, nullptr, entry<std::function<void()>>, body_.get()), 0);
        return cord;
    }
    std::unique_ptr<std::function<void()>> body_;
    std::thread thread_;
    fiber_cord_t cord_{};
};

// Reads a flag that another thread sets. In a simulation it also lets other cords go on.
inline bool is_set(const std::atomic<bool> &flag) {
    if (simulated()) fiber_now();
    return flag;
}

// A cord whose main flow runs a lambda, which must outlive it.
template <class Body>
fiber_cord_t start_cord(Body &body, const fiber_cord_attr_t *attr = nullptr) {
    fiber_cord_t cord{};
    EXPECT_EQ(fiber_cord_start(&cord, attr, entry<Body>, &body), 0);
    return cord;
}

inline void *join_cord(fiber_cord_t cord) {
    void *result = nullptr;
    expect_joined(fiber_cord_join(cord, &result));
    return result;
}

inline fiber_cord_t this_cord_handle() {
    fiber_cord_t cord{};
    EXPECT_EQ(fiber_cord_self(&cord), 0);
    return cord;
}

// Attributes of fibers that are made on a cord.
class On {
public:
    explicit On(fiber_cord_t cord) {
        EXPECT_EQ(fiber_attr_create(&attr_), 0);
        EXPECT_EQ(fiber_attr_set_cord(attr_, cord), 0);
    }
    ~On() { fiber_attr_destroy(attr_); }
    On(const On &) = delete;
    On &operator=(const On &) = delete;
    On &daemon() { return with(fiber_attr_set_daemon(attr_, 1)); }
    On &detached() { return with(fiber_attr_set_detached(attr_, 1)); }
    On &name(const char *name) { return with(fiber_attr_set_name(attr_, name)); }
    operator const fiber_attr_t *() const { return attr_; }

private:
    On &with(int error) {
        EXPECT_EQ(error, 0);
        return *this;
    }
    fiber_attr_t *attr_ = nullptr;
};

template <class Body>
fiber_t create_on(fiber_cord_t cord, Body &body) {
    return create(body, On(cord));
}

template <class Body>
fiber_t spawn_on(fiber_cord_t cord, Body &body) {
    fiber_t fiber = create_on(cord, body);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    return fiber;
}

// Runs a lambda on a cord, to its end.
template <class Body>
void *run_on(fiber_cord_t cord, Body &&body) {
    return join(spawn_on(cord, body));
}

// A cord that runs the functions sent to it, until the end of the scope.
class Worker {
public:
    Worker() {
        cord = start_cord(body_);
        await_holding_the_thread([&] { return ready_.load(); });
    }
    ~Worker() { end(); }
    Worker(const Worker &) = delete;
    Worker &operator=(const Worker &) = delete;

    // Its main flow's function returns; the fibers left on it must end by themselves.
    void end() {
        if (!cord.id) return;
        stop_ = true;
        EXPECT_EQ(fiber_wakeup(main), 0);
        expect_joined(fiber_cord_join(cord, nullptr));
        cord = {};
    }
    operator fiber_cord_t() const { return cord; }

    fiber_cord_t cord{};
    fiber_t main{};

private:
    struct Main {
        Worker *worker;
        void operator()() const {
            fiber_scope_t shield{}; // a shutdown of the cord does not end it
            EXPECT_EQ(fiber_scope_open(&shield, FIBER_FOREVER, FIBER_SCOPE_SHIELD), 0);
            worker->main = self();
            worker->ready_ = true;
            while (!worker->stop_) EXPECT_EQ(fiber_yield(), 0);
        }
    };
    Main body_{this};
    std::atomic<bool> ready_{false};
    std::atomic<bool> stop_{false};
};

// Keeps a cord's thread inside one fiber, which neither switches nor polls, until the end of the scope: messages sent
// to the cord meanwhile stay on their way.
class Busy {
public:
    explicit Busy(fiber_cord_t cord) {
        fiber_ = spawn_on(cord, body_);
        await_holding_the_thread([&] { return holds_.load(); });
    }
    ~Busy() { end(); }
    Busy(const Busy &) = delete;
    Busy &operator=(const Busy &) = delete;
    void end() {
        if (!fiber_.id) return;
        release_ = true;
        join(fiber_);
        fiber_ = {};
    }

private:
    struct Hold {
        Busy *busy;
        void operator()() const {
            busy->holds_ = true;
            await_holding_the_thread([&] { return busy->release_.load(); });
        }
    };
    Hold body_{this};
    fiber_t fiber_{};
    std::atomic<bool> holds_{false};
    std::atomic<bool> release_{false};
};

// Two fibers, each on its cord, wake each other in turns, so many times each.
inline void ping_pong(fiber_cord_t first, fiber_cord_t second, int rounds) {
    fiber_t ping{}, pong{};
    auto pings = [&] {
        for (int i = 0; i < rounds; i++) {
            EXPECT_EQ(fiber_wakeup(pong), 0);
            EXPECT_EQ(fiber_yield(), 0);
        }
    };
    auto pongs = [&] {
        for (int i = 0; i < rounds; i++) {
            EXPECT_EQ(fiber_yield(), 0);
            EXPECT_EQ(fiber_wakeup(ping), 0);
        }
    };
    pong = create_on(second, pongs);
    ping = create_on(first, pings);
    EXPECT_EQ(fiber_start(pong), 0);
    await([&] { return fiber_state(pong) == FIBER_WAITING; });
    EXPECT_EQ(fiber_start(ping), 0);
    join(ping);
    join(pong);
}

// The processors that the calling thread may run on.
inline std::vector<int> allowed_cpus() {
    cpu_set_t set;
    EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    std::vector<int> cpus;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
    return cpus;
}

// Entries of a folder of /proc: threads in /proc/self/task, descriptors in /proc/self/fd.
inline int entry_count(const char *folder) {
    DIR *dir = ::opendir(folder);
    EXPECT_NE(dir, nullptr) << folder;
    int count = 0;
    while (dir && ::readdir(dir)) count++;
    if (dir) ::closedir(dir);
    return count;
}

// Ends the program if it makes no progress while this object lives: if progress() returns the same number for 60 s, it
// prints the text of tell() and ends the program, because a hanging test would not end by itself, and a kill from
// outside prints nothing. Both functions are called on a separate thread. Seconds are counted in sleeps, which do not
// pass while the process is stopped.
class Watch {
public:
    Watch(std::function<uint64_t()> progress, std::function<std::string()> tell)
        : progress_(std::move(progress)), tell_(std::move(tell)), thread_([this] { watch(); }) {}
    ~Watch() {
        over_ = true;
        thread_.join();
    }
    Watch(const Watch &) = delete;
    Watch &operator=(const Watch &) = delete;

private:
    void watch() {
        uint64_t before = 0;
        for (int same = 0; !over_; same++) {
            uint64_t now = progress_();
            if (now != before) same = 0;
            if (same == 12000) fail();
            before = now;
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
    }
    static void copy_to_stderr(const std::string &path) {
        std::ifstream file(path);
        for (std::string line; std::getline(file, line);) fprintf(stderr, "%s: %s\n", path.c_str(), line.c_str());
    }
    void fail() {
        fprintf(stderr, "nothing has moved for 60 s: %s\n", tell_().c_str());
        for (int descriptor = 0; descriptor < 64; descriptor++)
            copy_to_stderr("/proc/self/fdinfo/" + std::to_string(descriptor));
        DIR *tasks = ::opendir("/proc/self/task");
        while (const dirent *entry = tasks ? ::readdir(tasks) : nullptr) {
            if (entry->d_name[0] == '.') continue;
            for (const char *file : {"/stat", "/syscall", "/wchan"})
                copy_to_stderr(std::string("/proc/self/task/") + entry->d_name + file);
        }
        fiber_dump(STDERR_FILENO); // which may be long
        abort();
    }

    std::function<uint64_t()> progress_;
    std::function<std::string()> tell_;
    std::atomic<bool> over_{false};
    std::thread thread_;
};

} // namespace support

#endif
