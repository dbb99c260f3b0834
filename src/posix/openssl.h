// SPDX-License-Identifier: MIT OR Apache-2.0
// Gives each fiber its own queue of OpenSSL's errors. OpenSSL keeps one queue for each thread, and SSL_get_error
// reports a failure if the queue is not empty, so the fibers of a thread would report each other's failures. A wait of
// an adopted library saves the errors of the calling fiber, and puts them back when the fiber continues. Marks
// (ERR_set_mark) are lost: a later ERR_pop_to_mark removes all errors.
#pragma once

#include <atomic>

namespace fiberrt::posix {

// Finds the copies of libcrypto that are loaded: OpenSSL 1.1 and newer, and libraries with the same functions. They
// stay loaded from then on.
void find_openssl();

extern std::atomic<int> openssl_copies; // the number of copies found

// Keeps the errors of the calling fiber, in all copies, for as long as this object lives. Also keeps errno.
class OpensslErrors {
public:
    OpensslErrors() : copies_(openssl_copies.load(std::memory_order_acquire)) {
        if (copies_) [[unlikely]]
            take();
    }
    ~OpensslErrors() {
        if (copies_) [[unlikely]]
            put_back();
    }
    OpensslErrors(const OpensslErrors&) = delete;
    OpensslErrors& operator=(const OpensslErrors&) = delete;

private:
    struct Queue;

    void take();
    void put_back();

    int copies_;
    Queue* taken_ = nullptr; // the queues that were not empty
};

} // namespace fiberrt::posix
