// SPDX-License-Identifier: MIT OR Apache-2.0
// lock, channel, scope, select.
#include "subject.h"

using namespace subject;

namespace {

struct Mutex {
    Mutex() { fiber_reschedule(); } // from here on the thread has a cord, and it is a fiber that locks
    void lock() { check(fiber_mutex_lock(&mutex), "fiber_mutex_lock"); }
    void unlock() { check(fiber_mutex_unlock(&mutex), "fiber_mutex_unlock"); }
    fiber_mutex_t mutex = {};
};

// channel: the other fiber sends the received item back.
class ChannelPair {
public:
    ChannelPair() {
        check(fiber_chan_create(&there_, sizeof(long), 0), "fiber_chan_create");
        check(fiber_chan_create(&back_, sizeof(long), 0), "fiber_chan_create");
        check(fiber_spawn(&other_, answer, this), "fiber_spawn");
    }

    ~ChannelPair() {
        fiber_chan_close(there_);
        check(fiber_join(other_, nullptr), "fiber_join");
        fiber_chan_destroy(there_);
        fiber_chan_destroy(back_);
    }

    BENCH_EXACT bool run(long rounds) {
        long item;
        for (; rounds > 0; rounds--) {
            if (fiber_chan_send(there_, &rounds) != 0 || fiber_chan_recv(back_, &item) != 0 || item != rounds) {
                return false;
            }
        }
        return true;
    }

private:
    static void *answer(void *self) {
        auto *pair = static_cast<ChannelPair *>(self);
        long item;
        while (fiber_chan_recv(pair->there_, &item) == 0) {
            check(fiber_chan_send(pair->back_, &item), "fiber_chan_send");
        }
        return nullptr;
    }

    fiber_chan_t there_;
    fiber_chan_t back_;
    fiber_t other_;
};

// scope: one with a deadline that does not fire, and one with a child that ends at once.
class Scoped {
public:
    explicit Scoped(bool child) : child_(child) {}

    BENCH_EXACT bool run(long rounds) {
        for (; rounds > 0; rounds--) {
            fiber_scope_t scope;
            if (fiber_scope_open(&scope, FIBER_SEC(10), 0) != 0 ||
                (child_ && fiber_scope_spawn(scope, nullptr, ended, nullptr) != 0) ||
                fiber_scope_close(scope, nullptr) != 0) {
                return false;
            }
        }
        return true;
    }

private:
    static int64_t ended(void *) { return 0; }
    bool child_;
};

// select: channels that always have an item; each received item is replaced. cases 0: by a plain receive.
class Selecting {
public:
    explicit Selecting(int cases) : cases_(cases) {
        for (int i = 0; i < 4; i++) {
            fiber_case_t &one = all_[i];
            one.kind = FIBER_CASE_RECV;
            one.item = &items_[i];
            check(fiber_chan_create(&one.chan, sizeof(long), 2), "fiber_chan_create");
            check(fiber_chan_send(one.chan, &items_[i]), "fiber_chan_send");
        }
    }

    ~Selecting() {
        for (const fiber_case_t &one : all_) {
            fiber_chan_destroy(one.chan);
        }
    }

    BENCH_EXACT bool run(long rounds) {
        for (; rounds > 0; rounds--) {
            int index = 0;
            if (cases_ == 0) {
                if (fiber_chan_recv(all_[0].chan, &items_[0]) != 0) {
                    return false;
                }
            } else {
                index = fiber_select(all_, cases_, FIBER_FOREVER);
                if (index < 0) {
                    return false;
                }
            }
            if (fiber_chan_try_send(all_[index].chan, &rounds) != 0) {
                return false;
            }
        }
        return true;
    }

private:
    int cases_;
    fiber_case_t all_[4] = {};
    long items_[4] = {};
};

} // namespace

void subject::add_primitives() {
    bench::add_lock<Mutex>();
    bench::add<ChannelPair>("channel/pair", 1);
    bench::add<Scoped>("scope/deadline", 1, false);
    bench::add<Scoped>("scope/child", 1, true);
    bench::add<Selecting>("select/receive", 1, 0);
    bench::add<Selecting>("select/four", 1, 4);
}
