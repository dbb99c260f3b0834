// SPDX-License-Identifier: MIT OR Apache-2.0
// poll, select, epoll_wait and sleeps by a fiber, compared with the kernel's by a plain thread.
#include "posix/calls.h"

#include <climits>
#include <ctime>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>

namespace {

using namespace calls;

void note_events(Trial &trial, const std::vector<pollfd> &entries) {
    std::string events;
    for (const pollfd &entry : entries) events += std::to_string(entry.revents) + " ";
    trial.text("events", events);
}

TEST(Polls, WaitForTheirDescriptors) {
    compare([](Trial &trial) {
        Stream one = make_stream(Kind::tcp), two = make_stream(Kind::unix_stream), three = make_stream(Kind::pipe);
        std::vector<pollfd> entries = {
            {one.reader, POLLIN, 0}, {-1, POLLIN, 0}, {two.reader, POLLIN | POLLRDHUP, 0}, {three.reader, POLLIN, 0}};
        {
            Peer peer(trial, [&] { EXPECT_EQ(::write(two.writer, "x", 1), 1); });
            trial.note("poll", ::poll(entries.data(), entries.size(), -1));
            note_events(trial, entries);
        }
        trial.note("at once", ::poll(entries.data(), entries.size(), 10'000));
        trial.note("zero", ::poll(entries.data(), entries.size(), 0));
        trial.note("time limit", ::poll(entries.data(), 2, 5));
        trial.note("a negative time", ::poll(entries.data(), entries.size(), INT_MIN));
        trial.note("the longest time", ::poll(entries.data(), entries.size(), INT_MAX));
        {
            Peer peer(trial, [&] { three.writer.close(); });
            pollfd end = {three.reader, 0, 0};
            trial.note("end", ::poll(&end, 1, -1));
            trial.note("events", end.revents);
        }
        trial.note("none", ::poll(nullptr, 0, 1));
        if (!sanitized) trial.note("nowhere", ::poll(nowhere<pollfd>(), 1, 1));
        volatile nfds_t too_many = nfds_t(-1);
        if (!sanitized) trial.note("too many", ::poll(entries.data(), too_many, 1));
        // The kernel ignores the upper half of the count.
        volatile nfds_t none_and_more = nfds_t(1) << 40, one_and_more = (nfds_t(1) << 32) + 1;
        timespec short_time = {0, 1'000'000};
        if (!sanitized) {
            trial.note("none and more", ::poll(entries.data(), none_and_more, 1));
            trial.note("one and more", ::poll(&entries[1], one_and_more, 1));
            trial.note("one that is ready", ::poll(entries.data(), one_and_more, 1));
            trial.note("ppoll", ::ppoll(&entries[1], one_and_more, &short_time, nullptr));
        }
        std::vector<pollfd> closed = {{two.reader, POLLIN, 0}, {1'000'000, POLLIN, 0}};
        trial.note("closed", ::poll(closed.data(), closed.size(), -1));
        note_events(trial, closed);
        timespec time = {0, 1'000'000};
        trial.note("ppoll", ::ppoll(entries.data(), 1, &time, nullptr));
        time = {0, 1'000'000'000};
        trial.note("ppoll", ::ppoll(entries.data(), 1, &time, nullptr));
        time = {LONG_MAX, 999'999'999};
        trial.note("ppoll", ::ppoll(entries.data(), entries.size(), &time, nullptr));
        sigset_t mask;
        sigemptyset(&mask);
        time = {0, 1};
        // A simulation refuses it: it would block its only thread.
        if (!support::simulated()) trial.note("ppoll with a mask", ::ppoll(entries.data(), 1, &time, &mask));
    });
}

TEST(Polls, EveryBitOfEvents) {
    compare([](Trial &trial) {
        Stream stream = make_stream(Kind::tcp);
        Peer peer(trial, [&] { EXPECT_EQ(::write(stream.writer, "x", 1), 1); });
        pollfd entry = {stream.reader, short(~(POLLOUT | POLLWRNORM | POLLWRBAND)), 0};
        trial.note("poll", ::poll(&entry, 1, -1));
        trial.note("events", entry.revents);
    });
}

TEST(Polls, NothingIsAsked) {
    compare([](Trial &trial) {
        Stream stream = make_stream(Kind::tcp);
        support::Folder folder;
        Descriptor file(::open(folder.path("file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
        pollfd entries[] = {{stream.reader, 0, 0}, {file, 0, 0}};
        trial.note("file", ::poll(&entries[1], 1, 5));
        trial.note("both", ::poll(entries, 2, 5));
        entries[1].events = POLLIN;
        trial.note("ready", ::poll(entries, 2, -1));
    });
}

// Thousands of descriptors, copies of few open files, some of them twice, among files that are never asked for.
TEST(Polls, ThousandsOfDescriptors) {
    constexpr size_t many = 3000;
    rlimit before;
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    rlimit enough = before;
    enough.rlim_cur = many + 100;
    if (before.rlim_max < enough.rlim_cur) GTEST_SKIP() << "the system allows " << before.rlim_max << " descriptors";
    if (before.rlim_cur < enough.rlim_cur) {
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &enough), 0);
    }
    compare([&](Trial &trial) {
        Stream quiet = make_stream(Kind::unix_stream), last = make_stream(Kind::pipe);
        Descriptor file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
        std::vector<Descriptor> copies(many);
        std::vector<pollfd> entries;
        for (Descriptor &copy : copies) {
            copy = Descriptor(::fcntl(quiet.reader, F_DUPFD_CLOEXEC, 0));
            ASSERT_GE(copy, 0);
            entries.push_back({copy, POLLIN, 0});
            if (entries.size() % 10 == 0) entries.push_back({copy, POLLPRI, 0});
        }
        entries.push_back({file, 0, 0});
        entries.push_back({last.reader, 0, 0});
        entries.push_back({last.reader, POLLIN, 0});
        {
            Peer peer(trial, [&] { EXPECT_EQ(::write(last.writer, "x", 1), 1); });
            trial.note("poll", ::poll(entries.data(), entries.size(), -1));
            note_events(trial, entries);
        }
        char byte;
        EXPECT_EQ(::read(last.reader, &byte, 1), 1);
        trial.note("time limit", ::poll(entries.data(), entries.size(), 5));
        copies[7].close();
        trial.note("closed", ::poll(entries.data(), entries.size(), -1));
        note_events(trial, entries);

        // A set larger than fd_set.
        std::vector<unsigned long> set(many / 8 / sizeof(long) + 10);
        const int top = last.reader > copies.back() ? last.reader : copies.back();
        const auto add = [&](int fd) { set[size_t(fd) / 64] |= 1ul << (fd % 64); };
        const auto read_set = reinterpret_cast<fd_set *>(set.data());
        {
            add(copies.back());
            add(last.reader);
            Peer peer(trial, [&] { EXPECT_EQ(::write(last.writer, "x", 1), 1); });
            trial.note("select", ::select(top + 1, read_set, nullptr, nullptr, nullptr));
            peer.join();
            trial.note("is in", (set[size_t(last.reader) / 64] >> (last.reader % 64)) & 1);
            trial.note("is out", (set[size_t(copies.back()) / 64] >> (copies.back() % 64)) & 1);
        }
    });
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(Selects, WaitForTheirDescriptors) {
    compare([](Trial &trial) {
        Stream one = make_stream(Kind::tcp), two = make_stream(Kind::pipe);
        fd_set read, write, except;
        const auto clear = [&] {
            FD_ZERO(&read);
            FD_ZERO(&write);
            FD_ZERO(&except);
            FD_SET(one.reader, &read);
            FD_SET(one.reader, &except);
            FD_SET(two.reader, &read);
        };
        const auto note_sets = [&] {
            trial.note("sets", FD_ISSET(one.reader, &read) + 2 * FD_ISSET(two.reader, &read) +
                                   4 * FD_ISSET(one.reader, &except) + 8 * FD_ISSET(one.writer, &write));
        };
        const int count = std::max({int(one.reader), int(one.writer), int(two.reader)}) + 1;
        {
            clear();
            Peer peer(trial, [&] { EXPECT_EQ(::write(two.writer, "x", 1), 1); });
            trial.note("select", ::select(count, &read, &write, &except, nullptr));
            note_sets();
        }
        clear();
        FD_SET(one.writer, &write);
        timeval time = {100, 0};
        trial.note("at once", ::select(count, &read, &write, &except, &time));
        note_sets();
        trial.note("left", time.tv_sec >= 50 && time.tv_sec <= 100);
        clear();
        FD_CLR(two.reader, &read);
        time = {0, 5000};
        trial.note("time limit", ::select(count, &read, nullptr, &except, &time));
        note_sets();
        trial.note("left", time.tv_sec + time.tv_usec);
        time = {0, 0};
        clear();
        trial.note("zero", ::select(count, &read, nullptr, &except, &time));
        note_sets();
        FD_ZERO(&read);
        time = {0, 1500000};
        FD_SET(two.reader, &read);
        trial.note("many microseconds", ::select(count, &read, nullptr, nullptr, &time));
        time = {LONG_MAX, INT_MAX};
        trial.note("the longest time", ::select(count, &read, nullptr, nullptr, &time));
        time = {-1, 0};
        trial.note("negative", ::select(count, &read, nullptr, nullptr, &time));
        trial.note("-1", ::select(-1, &read, nullptr, nullptr, nullptr));
        if (!sanitized) trial.note("nowhere", ::select(count, nowhere<fd_set>(), nullptr, nullptr, nullptr));
        time = {0, 1000};
        trial.note("no descriptor", ::select(0, nullptr, nullptr, nullptr, &time));
        FD_ZERO(&read);
        FD_SET(two.reader, &read);
        fd_set *volatile same = &read;
        trial.note("the same set twice", ::select(count, same, same, nullptr, nullptr));
        clear();
        const int closed = ::fcntl(two.reader, F_DUPFD_CLOEXEC, 50);
        EXPECT_EQ(::close(closed), 0);
        FD_SET(closed, &read);
        trial.note("closed", ::select(closed + 1, &read, nullptr, nullptr, nullptr));
        note_sets();
        timespec nothing = {0, 1000};
        clear();
        FD_CLR(two.reader, &read);
        trial.note("pselect", ::pselect(count, &read, nullptr, &except, &nothing, nullptr));
        nothing = {0, -1};
        trial.note("pselect", ::pselect(count, &read, nullptr, &except, &nothing, nullptr));
    });
}

// The number of descriptors may be larger than the set: the kernel looks no further than the process has room for.
TEST(Selects, MoreDescriptorsThanTheSetHas) {
    NEEDS_THE_KERNELS_CHECKS();
    struct {
        fd_set set;
        unsigned long after[64];
    } memory;
    compare([&](Trial &trial) {
        memset(&memory, 0xff, sizeof memory);
        FD_ZERO(&memory.set);
        Stream stream = make_stream(Kind::pipe);
        FD_SET(stream.reader, &memory.set);
        Peer peer(trial, [&] { EXPECT_EQ(::write(stream.writer, "x", 1), 1); });
        trial.note("select", ::select(FD_SETSIZE + 1000, &memory.set, nullptr, nullptr, nullptr));
        trial.note("is in", FD_ISSET(stream.reader, &memory.set));
        trial.note("after it", memory.after[0] == ~0ul);
        trial.note("the largest", ::select(INT_MAX, &memory.set, nullptr, nullptr, nullptr));
    });
}

TEST(Epolls, WaitForTheirDescriptors) {
    compare([](Trial &trial) {
        Stream stream = make_stream(Kind::tcp);
        Descriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
        epoll_event event = {EPOLLIN, {}};
        event.data.u64 = 12;
        EXPECT_EQ(::epoll_ctl(epoll, EPOLL_CTL_ADD, stream.reader, &event), 0);
        epoll_event events[4] = {};
        {
            Peer peer(trial, [&] { EXPECT_EQ(::write(stream.writer, "x", 1), 1); });
            trial.note("epoll_wait", ::epoll_wait(epoll, events, 4, -1));
            trial.note("events", events[0].events);
            trial.note("data", events[0].data.u64);
        }
        trial.note("epoll_pwait", ::epoll_pwait(epoll, events, 4, 1000, nullptr));
        const timespec long_time = {LONG_MAX, 0}, bad_time = {0, -1};
        trial.note("epoll_pwait2", ::epoll_pwait2(epoll, events, 4, &long_time, nullptr));
        trial.note("bad time", ::epoll_pwait2(epoll, events, 4, &bad_time, nullptr));
        if (!sanitized) trial.note("time nowhere", ::epoll_pwait2(epoll, events, 4, nowhere<timespec>(), nullptr));
        trial.note("no events", ::epoll_wait(epoll, events, 0, -1));
        volatile int below = -1; // which the compiler would warn of
        if (!sanitized) trial.note("negative", ::epoll_wait(epoll, events, below, -1));
        if (!sanitized) trial.note("nowhere", ::epoll_wait(epoll, nowhere<epoll_event>(), 4, -1));
        trial.note("not one", ::epoll_wait(stream.reader, events, 4, -1));
        trial.note("closed", ::epoll_wait(-1, events, 4, -1));
        char byte;
        EXPECT_EQ(::read(stream.reader, &byte, 1), 1);
        trial.note("time limit", ::epoll_wait(epoll, events, 4, 5));
        const timespec short_time = {0, 1'000'000};
        trial.note("epoll_pwait2", ::epoll_pwait2(epoll, events, 4, &short_time, nullptr));
        sigset_t mask;
        sigemptyset(&mask);
        if (support::simulated()) return; // it refuses these
        trial.note("with a mask", ::epoll_pwait(epoll, events, 4, 1, &mask));
        trial.note("with a mask", ::epoll_pwait2(epoll, events, 4, &short_time, &mask));
    });
}

TEST(Sleeps, AreTheKernels) {
    compare([](Trial &trial) {
        timespec left = {7, 7};
        const timespec short_time = {0, 1'000'000}, zero = {0, 0}, negative = {-1, 0}, large = {0, 1'000'000'000};
        trial.note("nanosleep", ::nanosleep(&short_time, &left));
        trial.note("nanosleep", ::nanosleep(&zero, nullptr));
        trial.note("negative", ::nanosleep(&negative, &left));
        trial.note("large", ::nanosleep(&large, &left));
        trial.note("left", left.tv_sec);
        if (!sanitized) trial.note("nowhere", ::nanosleep(nowhere<timespec>(), nullptr));
        trial.note("nothing", ::nanosleep(nullptr, nullptr));
        trial.note("usleep", ::usleep(100));
        trial.note("sleep", ::sleep(0));
        for (clockid_t clock : {CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME}) {
            trial.note("for", ::clock_nanosleep(clock, 0, &short_time, &left));
            trial.note("until", ::clock_nanosleep(clock, TIMER_ABSTIME, &short_time, &left));
            trial.note("until zero", ::clock_nanosleep(clock, TIMER_ABSTIME, &zero, &left));
            trial.note("negative", ::clock_nanosleep(clock, TIMER_ABSTIME, &negative, &left));
            if (!sanitized) trial.note("nowhere", ::clock_nanosleep(clock, TIMER_ABSTIME, nowhere<timespec>(), &left));
            timespec soon;
            EXPECT_EQ(::clock_gettime(clock, &soon), 0);
            soon.tv_nsec += 2'000'000;
            if (soon.tv_nsec >= 1'000'000'000) soon = {soon.tv_sec + 1, soon.tv_nsec - 1'000'000'000};
            trial.note("until soon", ::clock_nanosleep(clock, TIMER_ABSTIME, &soon, nullptr));
            timespec now;
            EXPECT_EQ(::clock_gettime(clock, &now), 0);
            const bool late = now.tv_sec > soon.tv_sec || (now.tv_sec == soon.tv_sec && now.tv_nsec >= soon.tv_nsec);
            trial.note("not early", late || support::simulated());
        }
        trial.note("another clock", ::clock_nanosleep(CLOCK_TAI, 0, &short_time, &left));
        trial.note("a thread's clock", ::clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &short_time, &left));
        trial.note("no clock", ::clock_nanosleep(12345, 0, &short_time, &left));
    });
}

} // namespace
