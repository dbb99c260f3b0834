// SPDX-License-Identifier: MIT OR Apache-2.0
// A mutex that a thread without a cord has locked is all that the program has begun of the library when another thread
// forks: the child's lock says that its holder is no more.
#include <fiberrt.h>

#include <cerrno>
#include <cstdio>
#include <semaphore.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

int main() {
    static fiber_mutex_t mutex = FIBER_MUTEX_INITIALIZER;
    sem_t locked, over;
    sem_init(&locked, 0, 0);
    sem_init(&over, 0, 0);
    int error = 0;
    std::thread holder([&] {
        error = fiber_mutex_lock(&mutex);
        sem_post(&locked);
        while (sem_wait(&over) != 0) continue;
        if (!error) error = fiber_mutex_unlock(&mutex);
    });
    while (sem_wait(&locked) != 0) continue;
    const pid_t child = fork();
    if (child == 0) {
        alarm(60);
        _exit(fiber_mutex_lock(&mutex) == -EOWNERDEAD ? 42 : 43);
    }
    int status = 0;
    const bool ended = child > 0 && waitpid(child, &status, 0) == child;
    sem_post(&over);
    holder.join();
    if (error || !ended || !WIFEXITED(status) || WEXITSTATUS(status) != 42) {
        std::fprintf(stderr, "fork_first: %d, and the child's status is %d\n", error, status);
        return 1;
    }
    return 0;
}
