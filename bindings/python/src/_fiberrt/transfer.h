// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads and writes of files, for functions of the module os and for the methods of FileIO. They return the number of
// bytes, or -1 with an exception set. The caller may wait as a fiber.
#pragma once

#include "io.h"

#include <sys/stat.h>
#include <sys/uio.h>

namespace fiberrt_python {

// How a call on a descriptor may take long.
enum class FileKind : unsigned char {
    never, // a device of memory such as /dev/null
    disk,  // a regular file, or a block device: it is read at a position, in finite time
    slow,  // such a file of a slow file system: see mounts.h. Threads use it: the core asks for its status, which waits
    stream,  // a pipe, a socket, a terminal, an eventfd, …
    unknown, // no file
};
FileKind kind_of(int fd);
// Gets the status that the kernel has of a file, without asking a slow file system. False: the number is no descriptor.
bool known_status(int fd, struct statx* status);

constexpr int64_t own_position = -1;

// Reads a file of kind disk, at the file's own position or at another one. Data in the page cache is read at
// once. Reads `size` bytes, or fewer at the end of the file or before an error; a file of /proc may return fewer, too.
// Sets *at_end if it has seen the end.
int64_t read_file(int fd, char* memory, size_t size, int64_t position = own_position, bool* at_end = nullptr);

// Reads the data that is there at once, from any descriptor. Returns the number of bytes, or a negative number if the caller must
// try another way: there is nothing, there is an error, or the fiber has been cancelled. Sets *raised if an exception
// is set.
int64_t read_at_once(int fd, char* memory, size_t size, int64_t position, bool* raised);

// Writes to a file of kind disk. No cancel or time limit ends it: the caller's next wait raises it.
int64_t write_file(int fd, const char* memory, size_t size, int64_t position = own_position);

// Writes all bytes, as write(2) does to a blocking descriptor. If a cancel or an error ends it in between, it returns
// the number of bytes written; the next call raises the exception. Changes the array.
// An exception thrown into the fiber counts as such an error if `holds_back`; else it is raised, and the number is lost.
int64_t write_all(int fd, iovec* parts, int count, bool holds_back = false);

} // namespace fiberrt_python
