// SPDX-License-Identifier: MIT OR Apache-2.0
// The program looks like Python's interpreter: it defines PyEval_SaveThread. Adopted with the whole process, its locks
// stay the C library's, since the interpreter's own lock is made of them; adopted by name, they are replaced too.
#include "support.h"

#include <pthread.h>
#include <string>

extern "C" [[gnu::visibility("default")]] void *PyEval_SaveThread() { return nullptr; }

namespace {

// How many functions with this prefix the program calls through the library.
int replaced(const std::string &prefix) {
    struct Count {
        const std::string &prefix;
        int count;
    } count = {prefix, 0};
    fiber_posix_each(
        [](const char *library, const char *function, void *arg) {
            auto &count = *static_cast<Count *>(arg);
            if (strstr(library, "posix_interpreter_test") &&
                !strncmp(function, count.prefix.c_str(), count.prefix.size()))
                count.count++;
            return 0;
        },
        &count);
    return count.count;
}

TEST(Interpreter, KeepsItsLocks) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    EXPECT_EQ(pthread_mutex_lock(&mutex), 0);
    EXPECT_EQ(pthread_mutex_unlock(&mutex), 0);
    EXPECT_GT(fiber_posix_adopt(nullptr, 0), 0);
    EXPECT_GT(replaced("close"), 0); // of support.h
    EXPECT_EQ(replaced("pthread_"), 0);
    EXPECT_GT(fiber_posix_release(nullptr), 0);
}

} // namespace
