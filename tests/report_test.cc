// SPDX-License-Identifier: MIT OR Apache-2.0
// Unasked messages for people (base/report.h) neither end nor hold up the thread that prints them.
#include "base/report.h"

#include <gtest/gtest.h>

#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/time.h>
#include <thread>
#include <unistd.h>

using fiberrt::Report;

namespace {

TEST(Report, AFrameIsNoCancellationPoint) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    int error = 1;
    std::thread thread([&] {
        void *frames[4];
        const int count = ::backtrace(frames, 4);
        ::pthread_cancel(::pthread_self());
        Report r(ends[1], Report::unasked_ns);
        r.frames(frames, count);
        error = r.end();
        int unused;
        ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &unused);
    });
    thread.join();
    EXPECT_EQ(error, 0);
    char text[4096];
    EXPECT_GT(::read(ends[0], text, sizeof text), 0);
    ::close(ends[0]);
    ::close(ends[1]);
}

// Where system calls do not report how long they have waited, signals must not prolong the wait.
TEST(ReportDeathTest, SignalsDoNotProlongItsTimeout) {
    auto child = [] {
        if (::personality(STICKY_TIMEOUTS) < 0) ::_exit(8);
        int ends[2];
        if (::pipe2(ends, O_NONBLOCK) != 0) ::_exit(9);
        while (::write(ends[1], "x", 1) == 1) {}
        struct sigaction quiet = {};
        quiet.sa_handler = [](int) {};
        const itimerval often = {{0, 50'000}, {0, 50'000}};
        if (::sigaction(SIGALRM, &quiet, nullptr) != 0 || ::setitimer(ITIMER_REAL, &often, nullptr) != 0) ::_exit(10);
        Report r(ends[1], Report::unasked_ns / 5);
        r.put("unheard\n");
        ::_exit(r.end() == -ETIMEDOUT ? 7 : 1);
    };
    EXPECT_EXIT(child(), testing::ExitedWithCode(7), "");
}

} // namespace
