// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads of files of a slow file system at the file's own position. A thread performs them, while the fiber waits.
#pragma once

#include <Python.h>

#include <sys/types.h>

namespace fiberrt_python {

// While it lives, no other fiber moves the position of the file by functions of this package. The position belongs to
// the descriptor's number: copies of the descriptor count as other files.
class SlowPosition {
public:
    // Waits for other fibers; if `in_any_case`, also in a cancelled fiber.
    SlowPosition(int fd, bool in_any_case);
    ~SlowPosition();
    SlowPosition(const SlowPosition&) = delete;
    SlowPosition& operator=(const SlowPosition&) = delete;
    bool held() const { return held_; } // if not, an exception is set

private:
    int fd_;
    pid_t process_;
    bool held_;
};

// Whether a fiber has that position, or waits for it.
bool slow_position_in_use(int fd);

// Reads up to `size` bytes, or all up to the end of the file if it is negative. Returns a bytes object, or null with an
// exception set. A cancel or a time limit ends the wait at once: the thread still reads, but the position stays.
// `now_fd`: the descriptor of the object that calls, which another fiber may close meanwhile; or null.
PyObject* read_slow(int fd, Py_ssize_t size, const int* now_fd = nullptr);

} // namespace fiberrt_python
