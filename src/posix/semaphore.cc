// SPDX-License-Identifier: MIT OR Apache-2.0
// Semaphores. sem_post may be called in a signal handler, which must not call fiberrt.h. So it rings a bell: it sends a
// datagram to a socket, which one fiber that waits for the semaphore, the leader, waits for. The other fibers wait in
// the parking lot until the leader leaves, and one of them follows it.
//
// The program may close the socket by its number (closefrom), and open another file under that number. The child of a
// fork shares the parent's sockets. So the library uses a bell's number only while it belongs to the socket that this
// process made; an eventfd could not be told from another one.
#include "base/spin_lock.h"
#include "posix/holders.h"
#include "posix/locks.h"
#include "posix/parking.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace fiberrt::posix {

namespace {

// Never freed, since a signal handler may be looking at it.
struct Bell {
    std::atomic<Bell*> next;
    std::atomic<const sem_t*> semaphore;
    std::atomic<uint64_t> leader; // the fiber; 0: the bell is free
    std::atomic<int> fd;          // a socket that is connected to itself. It stays open when the bell becomes free
    std::atomic<uint64_t> inode;  // of the socket
    std::atomic<pid_t> process;   // that made the socket; 0: there is none
    std::atomic<uint32_t> rung;   // not 0: a datagram is under way, and the leader has yet to try

    bool is_open() const { return process.load(std::memory_order_relaxed) == getpid() && has_its_number(); }
    // Whether the socket's number still names the socket.
    bool has_its_number() const {
        struct stat file;
        return fstat(fd.load(std::memory_order_relaxed), &file) == 0 && S_ISSOCK(file.st_mode) &&
               file.st_ino == inode.load(std::memory_order_relaxed);
    }
    bool open();
    void ring();
    void silence();
};

// Makes a socket that is connected to itself: then no other process can send to it.
int make_socket(struct stat* file) {
    int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    sockaddr_un name = {};
    name.sun_family = AF_UNIX;
    auto* address = reinterpret_cast<sockaddr*>(&name);
    socklen_t size = sizeof name;
    // A bind without a name: the kernel chooses one that is free.
    if (::bind(fd, address, sizeof name.sun_family) == 0 && getsockname(fd, address, &size) == 0 &&
        ::connect(fd, address, size) == 0 && fstat(fd, file) == 0)
        return fd;
    ::close(fd);
    return -1;
}

// Only the leader calls it. It must try the semaphore afterwards: a post may have found the bell without its socket.
bool Bell::open() {
    KeepErrno keep;
    bool is_inherited = process.load(std::memory_order_relaxed) && has_its_number();
    process.store(0, std::memory_order_relaxed);
    if (is_inherited) ::close(fd.load(std::memory_order_relaxed)); // in the child of a fork
    struct stat file;
    int made = make_socket(&file);
    if (made < 0) return false;
    fd.store(made, std::memory_order_relaxed);
    inode.store(file.st_ino, std::memory_order_relaxed);
    rung.store(0, std::memory_order_relaxed);
    // Sequentially consistent: before the leader's next try, as in Place::join.
    process.exchange(getpid(), std::memory_order_seq_cst);
    return true;
}

// Called in signal handlers.
void Bell::ring() {
    KeepErrno keep;
    if (!is_open()) return; // the leader looks for itself
    if (rung.exchange(1, std::memory_order_seq_cst)) return;
    constexpr char any = 0;
    if (::send(fd.load(std::memory_order_relaxed), &any, sizeof any, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        rung.store(0, std::memory_order_relaxed);
}

// Only the leader calls it, and then tries the semaphore. A post that finds `rung` set comes before that try.
void Bell::silence() {
    KeepErrno keep;
    char any;
    while (is_open() && ::recv(fd.load(std::memory_order_relaxed), &any, sizeof any, MSG_DONTWAIT) >= 0) continue;
    rung.exchange(0, std::memory_order_seq_cst);
}

// The bells of semaphores whose addresses have the same hash. New bells come in front; none leave.
struct BellList {
    StampedLock lock; // to take, make and free bells. sem_post does not lock it
    std::atomic<Bell*> first;
    std::atomic<uint32_t> leaders; // at least as many as there are
};
constinit BellList lists[bucket_count] = {};

class LockedList {
public:
    explicit LockedList(BellList& list) : list_(list) {
        // In the child of a fork the leaders are fibers of the parent: fibers that have ended.
        if (uint32_t before = list.lock.lock(); before != lock_word_free) (void)list.lock.await(before);
        hooks::tsan_acquire(&list_);
    }
    ~LockedList() {
        hooks::tsan_release(&list_);
        list_.lock.unlock();
    }
    LockedList(const LockedList&) = delete;
    LockedList& operator=(const LockedList&) = delete;

    template <class Accepts>
    Bell* find(Accepts accepts) {
        for (Bell* bell = list_.first.load(std::memory_order_relaxed); bell;
             bell = bell->next.load(std::memory_order_relaxed))
            if (accepts(bell->semaphore.load(std::memory_order_relaxed), bell->leader.load(std::memory_order_relaxed)))
                return bell;
        return nullptr;
    }
    void add(Bell* bell) {
        bell->next.store(list_.first.load(std::memory_order_relaxed), std::memory_order_relaxed);
        list_.first.store(bell, std::memory_order_release); // sem_post sees it as made
    }
    void give(Bell* bell, const sem_t* semaphore, uint64_t leader) {
        if (!bell->leader.load(std::memory_order_relaxed)) list_.leaders.fetch_add(1, std::memory_order_relaxed);
        bell->semaphore.store(semaphore, std::memory_order_relaxed);
        // Sequentially consistent: before the leader's next try of the semaphore, as in Place::join.
        bell->leader.exchange(leader, std::memory_order_seq_cst);
    }
    void take(Bell* bell) {
        bell->leader.exchange(0, std::memory_order_seq_cst);
        list_.leaders.fetch_sub(1, std::memory_order_relaxed);
    }

private:
    BellList& list_;
};

// The calling fiber as one that waits for a semaphore, and may lead those that do.
class Listener {
public:
    explicit Listener(const sem_t* semaphore) : list_(lists[bucket_of(semaphore)]), semaphore_(semaphore) {}
    ~Listener() {
        if (!bell_) return;
        LockedList(list_).take(bell_);
        barrier_after_atomic();
        if (any_parked(semaphore_)) wake_first(semaphore_);
    }
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

    // Whether the caller is the leader, or becomes it. Acts as a full barrier if it becomes it. Without memory there is
    // no leader.
    bool leads() {
        if (bell_) return true;
        Bell* made = nullptr;
        do {
            LockedList list(list_);
            Bell* bell = list.find([this](const sem_t* one, uint64_t leader) { return leader && one == semaphore_; });
            if (bell && !has_ended(bell->leader.load(std::memory_order_relaxed))) break;
            if (!bell) bell = list.find([](const sem_t*, uint64_t leader) { return !leader; });
            if (!bell) bell = list.find([](const sem_t*, uint64_t leader) { return has_ended(leader); });
            if (!bell && made) {
                list.add(bell = made);
                made = nullptr;
            }
            if (bell) list.give(bell_ = bell, semaphore_, this_fiber());
        } while (!bell_ && !made && (made = make()));
        free(made);
        barrier_after_atomic();
        return bell_;
    }

    // Waits as the leader until the bell rings, or the time is over. Looks for itself at times: posts by code that is
    // not adopted do not ring.
    Next wait(const Limit& limit) {
        if (!bell_->is_open() && bell_->open()) return Next::retry;
        constexpr int64_t slice = 20'000'000;
        int64_t left = limit.left();
        fiber_case_t ring = {};
        ring.kind = FIBER_CASE_FD;
        ring.fd = bell_->fd.load(std::memory_order_relaxed);
        ring.number = POLLIN;
        int result = bell_->process.load(std::memory_order_relaxed)
                         ? fiber_select(&ring, 1, left < slice ? left : slice)
                         : -EBADF;
        bell_->silence();
        if (result >= 0 && ring.result >= 0) return Next::retry;
        if (result == -ETIMEDOUT) return limit.left() ? Next::retry : Next::timed_out;
        // There is no socket, or the program has closed it, or a simulation does not know it.
        constexpr int64_t between_looks = 1'000'000;
        return fiber_sleep(between_looks) ? Next::block : limit.left() ? Next::retry : Next::timed_out;
    }

private:
    static bool has_ended(uint64_t leader) { return fiber_state({leader}) == -ESRCH; } // its thread ended in the wait

    static Bell* make() {
        KeepErrno keep;
        return static_cast<Bell*>(calloc(1, sizeof(Bell)));
    }

    BellList& list_;
    const sem_t* semaphore_;
    Bell* bell_ = nullptr; // null: the caller does not lead
};

// Takes a permit as a fiber. 0, or ETIMEDOUT, or EBUSY: the fiber cannot wait here.
int take(sem_t* semaphore, const Limit& limit) {
    Shielded shielded;
    if (!shielded) return EBUSY;
    Listener listener(semaphore);
    Place place(semaphore, Unlocks::here);
    for (;;) {
        bool leads = listener.leads();
        if (!leads) place.join();
        if (::sem_trywait(semaphore) == 0) {
            if (!leads) place.pass_on(); // a leader that left may have chosen this fiber
            return 0;
        }
        if (!leads && listener.leads()) { // the leader has left meanwhile; a post may have found no leader
            place.leave();
            continue;
        }
        Next next = leads ? listener.wait(limit) : place.wait(limit);
        if (next == Next::retry) continue;
        place.pass_on();
        return next == Next::timed_out ? ETIMEDOUT : EBUSY;
    }
}

int by_c_library(sem_t* semaphore, const Limit& limit) {
    if (!limit.time) return ::sem_wait(semaphore);
    // ThreadSanitizer does not know sem_clockwait.
    return limit.clock == CLOCK_REALTIME ? ::sem_timedwait(semaphore, limit.time)
                                         : ::sem_clockwait(semaphore, limit.clock, limit.time);
}

int wait_for_permit(sem_t* semaphore, const Limit& limit) {
    if (!may_wait()) return by_c_library(semaphore, limit);
    if (!limit.is_valid()) {
        errno = EINVAL;
        return -1;
    }
    int before = errno;
    if (::sem_trywait(semaphore) == 0) {
        done_at_once();
        return 0;
    }
    if (errno != EAGAIN) return -1;
    errno = before;
    int error = take(semaphore, limit);
    if (error == EBUSY) return by_c_library(semaphore, limit);
    if (error) errno = error;
    return error ? -1 : 0;
}

} // namespace

int sem_wait(sem_t* semaphore) { return wait_for_permit(semaphore, {}); }

int sem_timedwait(sem_t* semaphore, const timespec* time) { return wait_for_permit(semaphore, {time, CLOCK_REALTIME}); }

int sem_clockwait(sem_t* semaphore, clockid_t clock, const timespec* time) {
    Limit limit = {time, clock};
    if (limit.has_known_clock()) return wait_for_permit(semaphore, limit);
    errno = EINVAL;
    return -1;
}

int sem_trywait(sem_t* semaphore) noexcept {
    int result = ::sem_trywait(semaphore);
    if (result && errno == EAGAIN && may_wait()) done_at_once();
    return result;
}

// May be called in a signal handler: it takes no lock.
int sem_post(sem_t* semaphore) noexcept {
    int result = ::sem_post(semaphore);
    BellList& list = lists[bucket_of(semaphore)];
    barrier_after_atomic();
    if (result || !list.leaders.load(std::memory_order_acquire)) [[likely]]
        return result;
    for (Bell* bell = list.first.load(std::memory_order_acquire); bell;
         bell = bell->next.load(std::memory_order_relaxed)) {
        if (!bell->leader.load(std::memory_order_acquire)) continue;
        if (bell->semaphore.load(std::memory_order_relaxed) == semaphore) bell->ring();
    }
    return result;
}

} // namespace fiberrt::posix
