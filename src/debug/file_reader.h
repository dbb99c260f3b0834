// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads files by system calls only. A file that is mapped could end early, and then its reader would die of SIGBUS.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace fiberrt {

class FileReader {
public:
    explicit FileReader(const char* path)
        : fd_(int(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0))) {}
    ~FileReader() {
        if (is_open()) syscall(SYS_close, fd_);
    }
    FileReader(const FileReader&) = delete;
    FileReader& operator=(const FileReader&) = delete;

    bool is_open() const { return fd_ >= 0; }
    bool status(struct stat* out) const { return fstat(fd_, out) == 0; }

    // Reads up to so many bytes from a position. Returns how many; 0 also if the file cannot be read there.
    size_t read_some(uint64_t position, void* to, size_t bytes) const {
        size_t done = 0;
        while (done < bytes) {
            long got = syscall(SYS_pread64, fd_, static_cast<char*>(to) + done, bytes - done, position + done);
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) break;
            done += size_t(got);
        }
        return done;
    }
    bool read(uint64_t position, void* to, size_t bytes) const { return read_some(position, to, bytes) == bytes; }

private:
    int fd_;
};

} // namespace fiberrt
