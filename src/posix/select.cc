// SPDX-License-Identifier: MIT OR Apache-2.0
// select and pselect. Before and after each wait, they make the kernel's own call on the caller's sets, without a wait.
#include "posix/calls.h"
#include "posix/poll.h"

#include <string.h>

namespace fiberrt::posix {

namespace {

using Word = unsigned long; // as the kernel reads sets
constexpr int bits = int(8 * sizeof(Word));
constexpr int words_of(int count) { return (count + bits - 1) / bits; }

// Whether the process has room for this descriptor now. The kernel's select reports a descriptor that is not open, but
// ignores one that is beyond the room.
bool has_room_for(int fd) {
    if (::fcntl(fd, F_GETFD) >= 0) return true;
    constexpr unsigned few = words_of(FD_SETSIZE + 1);
    Array<Word, few> set(words_of(fd + 1));
    if (!set) return false;
    set[unsigned(fd / bits)] = Word(1) << (fd % bits);
    timeval now = {};
    return ::select(fd + 1, reinterpret_cast<fd_set*>(set.data()), nullptr, nullptr, &now) < 0 && errno == EBADF;
}

// How many descriptors of the sets the kernel looks at: at most as many as the process has room for now, a power of two.
// A program may ask for more than its sets have (select(getdtablesize(), …)), so the library must not read further.
int looked_at(int count) {
    KeepErrno errno_kept;
    int room = FD_SETSIZE;
    while (room < count && has_room_for(room)) room = room > INT32_MAX / 2 ? INT32_MAX : room * 2;
    return count < room ? count : room;
}

// The sets of a call, and a copy of each: the kernel's select replaces the sets by its result.
class Sets {
public:
    Sets(int count, fd_set* read, fd_set* write, fd_set* except)
        : sets_{reinterpret_cast<Word*>(read), reinterpret_cast<Word*>(write), reinterpret_cast<Word*>(except)},
          words_(size_t(words_of(count))), copies_(kinds * words_) {}

    bool have_memory() const { return bool(copies_); }
    bool are_readable() const {
        for (const Word* set : sets_)
            if (set && !is_readable(set, words_ * sizeof *set)) return false;
        return true;
    }
    void save() {
        for (unsigned i = 0; i < kinds; i++)
            if (sets_[i]) memcpy(copy(i), sets_[i], words_ * sizeof(Word));
    }
    void restore() {
        for (unsigned i = 0; i < kinds; i++)
            if (sets_[i]) memcpy(sets_[i], copy(i), words_ * sizeof(Word));
    }

    // The descriptors of the saved sets, as poll takes them. entries null: only counts them.
    size_t entries(pollfd* entries, int count) {
        constexpr short events[kinds] = {POLLIN, POLLOUT, POLLPRI};
        size_t used = 0;
        for (size_t word = 0; word < words_; word++) {
            Word any = 0;
            for (unsigned i = 0; i < kinds; i++)
                if (sets_[i]) any |= copy(i)[word];
            for (; any; any &= any - 1) {
                int bit = __builtin_ctzl(any), fd = int(word) * bits + bit;
                if (fd >= count) break;
                if (entries) entries[used] = {fd, 0, 0};
                for (unsigned i = 0; entries && i < kinds; i++)
                    if (sets_[i] && (copy(i)[word] >> bit & 1)) entries[used].events |= events[i];
                used++;
            }
        }
        return used;
    }

private:
    static constexpr unsigned kinds = 3, few = kinds * words_of(FD_SETSIZE);
    Word* copy(unsigned kind) { return copies_.data() + kind * words_; }

    Word* sets_[kinds];
    size_t words_;
    Array<Word, few> copies_;
};

int select_for(int count, fd_set* read, fd_set* write, fd_set* except, int64_t ns) {
    count = looked_at(count);
    auto now = [&] {
        timeval none = {};
        return ::select(count, read, write, except, &none);
    };
    Sets sets(count, read, write, except);
    if (!ns || !sets.are_readable()) return at_once(now());
    if (!sets.have_memory()) {
        errno = ENOMEM;
        return -1;
    }
    sets.save();
    int ready = look_until_not_interrupted(now);
    if (ready) return at_once(ready);
    int64_t deadline = deadline_after(ns);
    constexpr unsigned few = 16;
    Array<pollfd, few> entries(sets.entries(nullptr, count));
    if (!entries) {
        sets.restore();
        errno = ENOMEM;
        return -1;
    }
    size_t used = sets.entries(entries.data(), count);
    auto again = [&] {
        sets.restore();
        return look_until_not_interrupted(now);
    };
    auto block = [&] {
        sets.restore();
        timespec left = timespec_of(left_until(deadline));
        return ::pselect(count, read, write, except, deadline == FIBER_FOREVER ? nullptr : &left, nullptr);
    };
    ready = until_ready(entries.data(), used, deadline, again, block, nullptr);
    if (ready < 0) sets.restore(); // the kernel leaves them if the call fails
    return ready;
}

} // namespace

// With a time or a number of descriptors below zero, the C library's call fails. (This function may read the time,
// because the C library's select reads it, too.)
int select(int count, fd_set* read, fd_set* write, fd_set* except, timeval* timeout) {
    bool valid = count >= 0 && (!timeout || (timeout->tv_sec >= 0 && timeout->tv_usec >= 0));
    if (!valid || !may_wait()) return ::select(count, read, write, except, timeout);
    int64_t ns = timeout ? nanoseconds(*timeout) : -1;
    int64_t deadline = deadline_after(ns);
    int result = select_for(count, read, write, except, ns);
    if (timeout) { // Linux stores the time left
        timespec left = timespec_of(left_until(deadline));
        *timeout = {left.tv_sec, left.tv_nsec / 1000};
    }
    return result;
}

// With a signal mask, which is the thread's, the call blocks the thread.
int pselect(int count, fd_set* read, fd_set* write, fd_set* except, const timespec* timeout, const sigset_t* mask) {
    bool valid =
        count >= 0 && (!timeout || (timeout->tv_sec >= 0 && timeout->tv_nsec >= 0 && timeout->tv_nsec < 1'000'000'000));
    if (mask || !valid || !may_wait()) return ::pselect(count, read, write, except, timeout, mask);
    return select_for(count, read, write, except, timeout ? nanoseconds(*timeout) : -1);
}

} // namespace fiberrt::posix
