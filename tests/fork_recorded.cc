// SPDX-License-Identifier: MIT OR Apache-2.0
// A thread forks while another one makes more records of the recorder's usable: the child can make more, too. This program
// has its own mprotect, in which the other thread waits for the fork: until it is over, or waits for a lock.
#include <fiberrt.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <semaphore.h>
#include <string>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

constexpr size_t step = size_t(1) << 20; // bytes of records that become usable at once (record/records.cc)
constexpr int fibers_most = 8192 + 300;  // more than have records in one step

std::atomic<bool> watches{false};
std::atomic<char *> first{nullptr}; // the first records that became usable
std::atomic<int> met{0};            // not a bool: RISC-V would need libatomic for its exchange
std::atomic<pid_t> forker{0};
std::atomic<bool> forked{false};
sem_t may_fork;

// Whether the thread that forks waits for a lock. It waits for nothing else.
bool forker_waits() {
    std::ifstream file("/proc/self/task/" + std::to_string(forker) + "/stat");
    std::string line;
    std::getline(file, line);
    const size_t end = line.rfind(')');
    return end != std::string::npos && line.compare(end, 3, ") S") == 0;
}

void check(bool holds, const char *what) {
    if (holds) return;
    std::fprintf(stderr, "fork_recorded: not so: %s\n", what);
    std::_Exit(1);
}

void *nothing(void *) { return nullptr; }

// Makes more fibers than have records, and lets them run.
void run_many() {
    for (int i = 0; i < fibers_most; i++) check(fiber_spawn(nullptr, nothing, nullptr) == 0, "there is a fiber");
    check(fiber_reschedule() == 0, "they run");
}

} // namespace

extern "C" int mprotect(void *address, size_t bytes, int access) noexcept {
    auto *at = static_cast<char *>(address);
    if (watches && bytes == step) {
        if (!first) {
            first = at;
        } else if (at == first + step && met.exchange(1) == 0) {
            sem_post(&may_fork);
            while (!forked && !(forker && forker_waits())) continue;
        }
    }
    return int(syscall(SYS_mprotect, address, bytes, access));
}

int main() {
    sem_init(&may_fork, 0, 0);
    std::atomic<int> status{-1};
    std::thread forks([&] {
        while (sem_wait(&may_fork) != 0) continue;
        forker = pid_t(syscall(SYS_gettid));
        const pid_t child = fork();
        if (child == 0) {
            alarm(60);
            run_many();
            _exit(42);
        }
        forked = true;
        int result = 0;
        if (child > 0 && waitpid(child, &result, 0) == child) status = result;
    });
    watches = true;
    check(fiber_accounting_start() == 0, "accounting begins");
    check(fiber_reschedule() == 0, "there is a cord");
    check(first, "there are records");
    run_many();
    check(met, "there are more records");
    forks.join();
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 42) {
        std::fprintf(stderr, "fork_recorded: the child's status is %d\n", status.load());
        return 1;
    }
    return 0;
}
