// SPDX-License-Identifier: MIT OR Apache-2.0
// Scopes with children from lambdas. As with fibers, a lambda must outlive its child.
#ifndef FIBERRT_TESTS_FAMILY_H
#define FIBERRT_TESTS_FAMILY_H

#include "conformance.h"

namespace support {

constexpr int64_t HOUR = FIBER_SEC(3600);

template <class Body>
void *pass(Body &body) {
    return const_cast<std::remove_const_t<Body> *>(&body);
}
template <class Body>
int64_t child_entry(void *body) {
    return (*static_cast<Body *>(body))();
}

// A scope of the calling fiber; the test closes it by close().
struct Family {
    explicit Family(int64_t timeout_ns = FIBER_FOREVER, unsigned flags = 0) {
        EXPECT_EQ(fiber_scope_open(&scope, timeout_ns, flags), 0);
    }
    Family(const Family &) = delete;
    Family &operator=(const Family &) = delete;

    template <class Body>
    fiber_t spawn(Body &body, const fiber_attr_t *attr = nullptr) const {
        fiber_t child{};
        EXPECT_EQ(fiber_scope_spawn_attr(scope, &child, attr, child_entry<Body>, pass(body)), 0);
        return child;
    }
    // Waits for the next child to end and returns its result; 1 if none is left.
    int64_t next(fiber_t *child = nullptr) const {
        int64_t result = 77;
        const int told = fiber_scope_next(scope, child, &result);
        EXPECT_TRUE(told == 0 || told == 1) << told;
        return told == 1 ? result : 1;
    }
    // The deadline comes after the children's first turn, however long that takes to come.
    void limit(int64_t timeout_ns) const {
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(fiber_scope_set_timeout(scope, timeout_ns), 0);
    }
    int close() { return fiber_scope_close(scope, &failure); }

    fiber_scope_t scope{};
    int64_t failure = 77;
};

// Children that wait until they are cancelled; counts how many have been, and how many have run.
struct Patient {
    int64_t operator()() {
        ran++;
        const int result = fiber_sleep(HOUR);
        EXPECT_EQ(result, -ECANCELED);
        if (result == -ECANCELED) cancelled++;
        EXPECT_EQ(fiber_cancelled(&reason), 1);
        return result;
    }
    int ran = 0, cancelled = 0;
    void *reason = nullptr;
};

inline bool is_gone(fiber_t fiber) { return fiber_state(fiber) == -ESRCH; }

} // namespace support

#endif
