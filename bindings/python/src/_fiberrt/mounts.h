// SPDX-License-Identifier: MIT OR Apache-2.0
// Which file systems are slow: those of other machines and processes, whose calls take as long as the other side likes.
// The GIL guards the table.
#pragma once

#include <Python.h>

#include <sys/types.h>

namespace fiberrt_python {

// Whether a slow file system is mounted at all. A mount is noticed within 10 ms.
bool any_mount_is_slow();

// Whether a device number, of stat(2), is that of a slow file system.
bool device_is_slow(dev_t device);

// Whether a call with this path may take long: the file or, if there is none, its folder is on a slow file system, or
// the kernel would have to read a disk to find it. Never waits. `folder`: where a relative path begins, or AT_FDCWD.
bool path_is_slow(int folder, const char* path);
bool descriptor_is_slow(int fd);

extern PyTypeObject
    FileCallType; // calls a function of the module os in another way while a slow file system is mounted

} // namespace fiberrt_python
