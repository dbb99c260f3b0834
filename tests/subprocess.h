// SPDX-License-Identifier: MIT OR Apache-2.0
// subprocess.h - runs a program for a test: feeds its standard input, reads its output and awaits its end, all with a
// time limit.
#ifndef FIBERRT_TESTS_SUBPROCESS_H
#define FIBERRT_TESTS_SUBPROCESS_H

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <regex.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace fiberrt_test {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

inline int64_t MillisecondsSince(Clock::time_point start) {
    return std::chrono::duration_cast<milliseconds>(Clock::now() - start).count();
}

// Does the whole text match a POSIX extended regular expression? (std::regex draws warnings from gcc's sanitizers.)
inline bool Matches(const std::string& text, const std::string& pattern) {
    regex_t compiled;
    if (regcomp(&compiled, ("^(" + pattern + ")$").c_str(), REG_EXTENDED | REG_NOSUB) != 0) {
        return false;
    }
    bool matches = regexec(&compiled, text.c_str(), 0, nullptr, 0) == 0;
    regfree(&compiled);
    return matches;
}

// Makes a system call fail with an error, in this process and in the programs that it executes. For use between fork
// and exec.
inline void RefuseSystemCall(long number, int error) {
    sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    sock_fprog program = {sizeof code / sizeof code[0], code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        _exit(126);
    }
}

class Process {
public:
    // Starts a program; in_child runs between fork and exec.
    explicit Process(const std::vector<std::string>& command, const std::function<void()>& in_child = nullptr) {
        signal(SIGPIPE, SIG_IGN); // writing to a program that has ended is a failed write, not the end of the test
        int in[2], out[2], err[2];
        if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) {
            return;
        }
        std::vector<char*> arguments;
        for (const std::string& word : command) {
            arguments.push_back(const_cast<char*>(word.c_str()));
        }
        arguments.push_back(nullptr);
        pid_ = fork();
        if (pid_ == 0) {
            dup2(in[0], 0);
            dup2(out[1], 1);
            dup2(err[1], 2);
            signal(SIGPIPE, SIG_DFL);
            prctl(PR_SET_PDEATHSIG, SIGKILL); // the program dies with the test
            if (in_child) {
                in_child();
            }
            execv(arguments[0], arguments.data());
            _exit(127);
        }
        close(in[0]);
        close(out[1]);
        close(err[1]);
        stdin_ = in[1];
        stdout_ = out[0];
        stderr_ = err[0];
    }

    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;

    ~Process() {
        if (pid_ > 0 && !ended_) {
            kill(pid_, SIGKILL);
            waitpid(pid_, nullptr, 0);
        }
        CloseStdin();
        close(stdout_);
        close(stderr_);
    }

    pid_t pid() const { return pid_; }
    bool Signal(int number) const { return pid_ > 0 && kill(pid_, number) == 0; }

    bool Write(const std::string& text) const {
        return write(stdin_, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    }

    void CloseStdin() {
        if (stdin_ >= 0) {
            close(stdin_);
            stdin_ = -1;
        }
    }

    // Reads the next line of standard output, without its newline. At the end of output, or of the time, returns the
    // text so far.
    std::string ReadLine(milliseconds limit = milliseconds(60000)) {
        size_t newline;
        Clock::time_point deadline = Clock::now() + limit;
        while ((newline = unread_.find('\n')) == std::string::npos && ReadMore(stdout_, unread_, deadline)) {}
        std::string line = unread_.substr(0, newline);
        unread_.erase(0, newline == std::string::npos ? newline : newline + 1);
        return line;
    }

    std::string ReadOutput(milliseconds limit = milliseconds(60000)) {
        Clock::time_point deadline = Clock::now() + limit;
        while (ReadMore(stdout_, unread_, deadline)) {}
        return std::move(unread_);
    }

    std::string ReadErrors(milliseconds limit = milliseconds(60000)) {
        std::string text;
        Clock::time_point deadline = Clock::now() + limit;
        while (ReadMore(stderr_, text, deadline)) {}
        return text;
    }

    static constexpr int kStillRunning = -1000;

    // Returns the exit code; the negative number of the signal that ended it; or kStillRunning.
    int Wait(milliseconds limit = milliseconds(60000)) {
        Clock::time_point deadline = Clock::now() + limit;
        while (!ended_) {
            int status;
            if (waitpid(pid_, &status, WNOHANG) == pid_) {
                ended_ = true;
                result_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
            } else if (Clock::now() > deadline) {
                return kStillRunning;
            } else {
                std::this_thread::sleep_for(milliseconds(2));
            }
        }
        return result_;
    }

private:
    static bool ReadMore(int fd, std::string& text, Clock::time_point deadline) {
        int64_t left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now()).count();
        pollfd entry = {fd, POLLIN, 0};
        if (left <= 0 || poll(&entry, 1, static_cast<int>(left)) <= 0) {
            return false;
        }
        char buffer[4096];
        ssize_t count = read(fd, buffer, sizeof buffer);
        if (count > 0) {
            text.append(buffer, static_cast<size_t>(count));
        }
        return count > 0;
    }

    pid_t pid_ = -1;
    int stdin_ = -1, stdout_ = -1, stderr_ = -1;
    bool ended_ = false;
    int result_ = 0;
    std::string unread_;
};

} // namespace fiberrt_test

#endif
