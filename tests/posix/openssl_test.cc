// SPDX-License-Identifier: MIT OR Apache-2.0
// openssl_test.cc - fibers of a thread that use OpenSSL do not see each other's errors, and keep their own across waits.
// The program adopts itself, so its own calls of read wait as fibers.
#include <dlfcn.h>
#include <errno.h>
#include <fiberrt.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#if FIBERRT_TEST_OPENSSL
#include <openssl/err.h>
#include <openssl/ssl.h>
#endif

namespace {

using Work = std::function<void()>;

void* RunWork(void* arg) {
    (*static_cast<Work*>(arg))();
    return nullptr;
}

// Runs functions as fibers of this thread; each runs until it waits before the next one begins.
void RunFibers(std::vector<Work> works) {
    std::vector<fiber_t> fibers(works.size());
    for (size_t i = 0; i < works.size(); i++) ASSERT_EQ(fiber_spawn(&fibers[i], RunWork, &works[i]), 0);
    for (fiber_t fiber : fibers) EXPECT_EQ(fiber_join(fiber, nullptr), 0);
}

class Pair {
public:
    Pair() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_), 0); }
    ~Pair() {
        for (int fd : ends_) close(fd);
    }
    Pair(const Pair&) = delete;
    Pair& operator=(const Pair&) = delete;
    int near() const { return ends_[0]; }
    void Wake() const { EXPECT_EQ(write(ends_[1], "x", 1), 1); }
    void Await() const {
        char byte;
        EXPECT_EQ(read(ends_[0], &byte, 1), 1);
    }
    void Send(const std::string& text) const {
        EXPECT_EQ(write(ends_[1], text.data(), text.size()), ssize_t(text.size()));
    }

private:
    int ends_[2];
};

// An error as a program reads it.
struct Error {
    unsigned long code = 0;
    std::string file, function, data;
    int line = 0;
    bool operator==(const Error&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Error& error) {
    return out << std::hex << error.code << std::dec << " " << error.file << ":" << error.line << " " << error.function
               << " " << error.data;
}

// What the tests need of one version of OpenSSL.
class Queue {
public:
    virtual ~Queue() = default;
    virtual bool Empty() = 0;
    virtual Error Take() = 0; // code 0: there is none
    virtual void Put(int reason, const char* data) = 0;
    virtual void PutSystemError(int error) = 0;

    std::vector<Error> TakeAll() {
        std::vector<Error> all;
        for (Error error = Take(); error.code; error = Take()) all.push_back(error);
        return all;
    }
};

class FakeQueue : public Queue {
public:
    FakeQueue() {
        void* library = dlopen(FAKE_LIBCRYPTO, RTLD_NOW | RTLD_LOCAL);
        EXPECT_NE(library, nullptr) << dlerror();
        peek_ = reinterpret_cast<decltype(peek_)>(dlsym(library, "ERR_peek_error"));
        get_ = reinterpret_cast<decltype(get_)>(dlsym(library, "ERR_get_error_line_data"));
        put_ = reinterpret_cast<decltype(put_)>(dlsym(library, "ERR_put_error"));
        add_ = reinterpret_cast<decltype(add_)>(dlsym(library, "ERR_add_error_data"));
    }
    bool Empty() override { return !peek_(); }
    Error Take() override {
        const char *file = nullptr, *data = nullptr;
        Error error;
        int flags = 0;
        error.code = get_(&file, &error.line, &data, &flags);
        if (!error.code) return error;
        EXPECT_EQ(static_cast<const void*>(file), static_cast<const void*>(file_)) << "the name is the constant itself";
        error.file = file;
        if (flags) error.data = data;
        return error;
    }
    void Put(int reason, const char* data) override {
        put_(20, 321, reason, file_, reason + 1);
        if (data) add_(1, data);
    }
    void PutSystemError(int error) override { put_(2, 10, error, file_, 99); }

private:
    static constexpr char file_[] = "ssl/file.c";
    unsigned long (*peek_)();
    unsigned long (*get_)(const char**, int*, const char**, int*);
    void (*put_)(int, int, int, const char*, int);
    void (*add_)(int, ...);
};

#if FIBERRT_TEST_OPENSSL
class RealQueue : public Queue {
public:
    bool Empty() override { return !ERR_peek_error(); }
    Error Take() override {
        const char *file = "", *function = "", *data = "";
        Error error;
        int flags = 0;
#if OPENSSL_VERSION_MAJOR >= 3
        error.code = ERR_get_error_all(&file, &error.line, &function, &data, &flags);
#else
        error.code = ERR_get_error_line_data(&file, &error.line, &data, &flags);
#endif
        error.file = file;
        error.function = function;
        if (flags & ERR_TXT_STRING) error.data = data;
        return error;
    }
    void Put(int reason, const char* data) override {
        ERR_put_error(ERR_LIB_SSL, 0, reason, "a file", reason + 1);
        if (data) ERR_add_error_data(1, data);
    }
    void PutSystemError(int error) override { ERR_put_error(ERR_LIB_SYS, 0, error, "another file", 99); }
};
#endif

class Errors : public testing::TestWithParam<std::string> {
protected:
    Errors() {
        if (GetParam() == "OpenSSL11") queue_ = std::make_unique<FakeQueue>();
#if FIBERRT_TEST_OPENSSL
        if (GetParam() == "Installed") queue_ = std::make_unique<RealQueue>();
#endif
        EXPECT_GT(fiber_posix_adopt(nullptr, 0), 0);
    }
    ~Errors() override { EXPECT_GT(fiber_posix_release(nullptr), 0); }

    // Puts three different errors into the queue, reads them, puts them there again, and returns them.
    std::vector<Error> PutSome() {
        std::vector<Error> some;
        for (int time = 0; time < 2; time++) {
            queue_->Put(1, "a text");
            queue_->PutSystemError(ECONNRESET);
            queue_->Put(3, nullptr);
            if (!time) some = queue_->TakeAll();
        }
        EXPECT_EQ(some.size(), 3u);
        return some;
    }

    std::unique_ptr<Queue> queue_;
};

TEST_P(Errors, OfAnotherFiberAreNotSeenAfterAWait) {
    Pair first, second;
    std::vector<Error> seen = {Error()}, own;
    RunFibers({[&] {
                   first.Await();
                   seen = queue_->TakeAll();
                   second.Wake();
               },
               [&] {
                   std::vector<Error> put = PutSome();
                   first.Wake();
                   second.Await();
                   own = queue_->TakeAll();
                   EXPECT_EQ(own, put);
               }});
    EXPECT_EQ(seen, std::vector<Error>());
}

TEST_P(Errors, OfAFiberThatHasEndedAreNotSeen) {
    Pair first;
    bool empty = false;
    RunFibers({[&] {
                   first.Await();
                   empty = queue_->Empty();
               },
               [&] {
                   queue_->Put(1, "left behind");
                   first.Wake();
               }});
    EXPECT_TRUE(empty);
}

TEST_P(Errors, OfTwoFibersAreEachTheirOwn) {
    Pair first, second;
    RunFibers({[&] {
                   queue_->Put(11, "of the first");
                   first.Await();
                   Error error = queue_->Take();
                   EXPECT_EQ(error.data, "of the first");
                   EXPECT_EQ(error.line, 12);
                   EXPECT_TRUE(queue_->Empty());
                   second.Wake();
               },
               [&] {
                   queue_->Put(12, nullptr);
                   queue_->Put(13, "of the second");
                   first.Wake();
                   second.Await();
                   EXPECT_EQ(queue_->Take().line, 13);
                   EXPECT_EQ(queue_->Take().data, "of the second");
                   EXPECT_TRUE(queue_->Empty());
               }});
}

// A refused wait tells its reason by errno, and keeps the errors as well.
TEST_P(Errors, AreKeptByAWaitThatFails) {
    Pair pair;
    std::vector<Error> put, kept;
    Work waits = [&] {
        put = PutSome();
        char byte;
        EXPECT_EQ(read(pair.near(), &byte, 1), -1);
        EXPECT_EQ(errno, ECANCELED);
        kept = queue_->TakeAll();
    };
    fiber_t fiber;
    ASSERT_EQ(fiber_spawn(&fiber, RunWork, &waits), 0);
    ASSERT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    EXPECT_EQ(fiber_join(fiber, nullptr), 0);
    EXPECT_EQ(kept, put);
}

TEST_P(Errors, OfAFullQueueAreKept) {
    Pair first;
    RunFibers({[&] {
                   std::vector<Error> put;
                   for (int time = 0; time < 2; time++) {
                       for (int reason = 1; reason <= 40; reason++) queue_->Put(reason, "text");
                       if (!time) put = queue_->TakeAll();
                   }
                   EXPECT_GE(put.size(), 15u);
                   first.Await();
                   EXPECT_EQ(queue_->TakeAll(), put);
               },
               [&] {
                   queue_->Put(1, "text");
                   first.Wake();
               }});
}

TEST_P(Errors, StayWithoutAWait) {
    Pair pair;
    RunFibers({[&] {
        std::vector<Error> put = PutSome();
        pair.Wake();
        pair.Await(); // the byte is there
        EXPECT_EQ(queue_->TakeAll(), put);
    }});
}

INSTANTIATE_TEST_SUITE_P(Of, Errors,
                         testing::Values("OpenSSL11"
#if FIBERRT_TEST_OPENSSL
                                         ,
                                         "Installed"
#endif
                                         ),
                         [](const auto& info) { return info.param; });

#if FIBERRT_TEST_OPENSSL

// A server's SSL object on one end of a pair, as SSL_accept waits for the client's first bytes.
class Ssl {
public:
    explicit Ssl(int fd) : context_(SSL_CTX_new(TLS_server_method())), ssl_(SSL_new(context_)) {
        SSL_set_fd(ssl_, fd);
        SSL_set_accept_state(ssl_);
    }
    ~Ssl() {
        SSL_free(ssl_);
        SSL_CTX_free(context_);
    }
    Ssl(const Ssl&) = delete;
    Ssl& operator=(const Ssl&) = delete;
    int Handshake() {
        int result = SSL_do_handshake(ssl_);
        return SSL_get_error(ssl_, result);
    }

private:
    SSL_CTX* context_;
    SSL* ssl_;
};

// The time limit of a socket makes SSL_get_error ask for another try (SSL_ERROR_WANT_READ), and a failed handshake of
// another fiber must not make that a failure of this one.
TEST(Handshake, IsNotFailedByAnotherFibersFailure) {
    ASSERT_GT(fiber_posix_adopt(nullptr, 0), 0);
    Pair silent, garbage;
    timeval limit = {0, 20'000};
    ASSERT_EQ(setsockopt(silent.near(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    int of_silent = 0, of_garbage = 0;
    bool told = false;
    RunFibers({[&] {
                   Ssl ssl(silent.near());
                   of_silent = ssl.Handshake();
               },
               [&] {
                   Ssl ssl(garbage.near());
                   garbage.Send("This is no TLS.");
                   of_garbage = ssl.Handshake();
                   Pair pair;
                   Work wakes = [&] { pair.Wake(); };
                   fiber_t waker;
                   ASSERT_EQ(fiber_spawn(&waker, RunWork, &wakes), 0);
                   pair.Await();
                   told = ERR_get_error() != 0; // its own failure is still there after its own wait
                   ASSERT_EQ(fiber_join(waker, nullptr), 0);
                   ERR_put_error(ERR_LIB_SYS, 0, ECONNRESET, "a file", 1); // left behind
               }});
    EXPECT_EQ(of_silent, SSL_ERROR_WANT_READ);
    EXPECT_EQ(of_garbage, SSL_ERROR_SSL);
    EXPECT_TRUE(told);
    EXPECT_GT(fiber_posix_release(nullptr), 0);
}

#endif

} // namespace
