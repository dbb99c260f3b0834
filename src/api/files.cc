// SPDX-License-Identifier: MIT OR Apache-2.0
// Calls on names in the file system, and on files: open, rename, unlink, mkdir, statx and their relatives, fsync, and
// reading a directory.
#include "api/api.h"
#include "io/descriptor_guard.h"
#include "io/fifo.h"
#include "io/file_status.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>

using namespace fiberrt;

namespace {

// The descriptor of the folder that a path begins in, if the call uses it: that descriptor is guarded during the call.
int used_folder(int dirfd, const char* path) {
    return dirfd != AT_FDCWD && path[0] != '/' ? dirfd : DescriptorGuard::none;
}

Op path_op(OpCode code, int dirfd, const char* path) {
    Op op(code, used_folder(dirfd, path));
    op.offset = uint64_t(int64_t(dirfd));
    op.address = const_cast<char*>(path);
    return op;
}

int64_t run_here(Op& op) {
    Cord* cord = cord_here();
    return cord ? run_alone(*cord, op) : no_cord();
}

int sync_file(int fd, unsigned flags) {
    Op op(OpCode::fsync, fd);
    op.flags = flags;
    return int(run_here(op));
}

} // namespace

int fiber_open(const char* path, int flags, mode_t mode) {
    if (!path) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Op op(OpCode::open, DescriptorGuard::none);
    // Without this, io_uring would first try with O_NONBLOCK, which opens a FIFO that has no writer.
    op.may_block = !(flags & O_NONBLOCK);
    op.address = const_cast<char*>(path);
    op.flags = unsigned(flags);
    op.length = flags & makes_file ? mode : 0;
    DescriptorGuard guard(*cord, DescriptorGuard::none);
    return int(run_open(guard, op));
}

int fiber_openat2(int dirfd, const char* path, struct open_how* how, size_t size) {
    if (!path || !how || size < sizeof *how) return -EINVAL;
    if (size > UINT32_MAX) return -E2BIG;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Op op = path_op(OpCode::open2, dirfd, path);
    op.address2 = how;
    op.length = uint32_t(size);
    op.flags = uint32_t(how->flags);
    op.may_block = !(how->flags & O_NONBLOCK); // as in fiber_open
    DescriptorGuard guard(*cord, op.fd);
    return int(run_open(guard, op));
}

int fiber_renameat2(int old_dirfd, const char* old_path, int new_dirfd, const char* new_path, unsigned flags) {
    if (!old_path || !new_path) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Op op = path_op(OpCode::rename, old_dirfd, old_path);
    op.length = uint32_t(new_dirfd);
    op.address2 = const_cast<char*>(new_path);
    op.flags = flags;
    DescriptorGuard guard(*cord, op.fd);
    DescriptorGuard guard_new(guard, used_folder(new_dirfd, new_path));
    return int(guard.run(op));
}

int fiber_rename(const char* old_path, const char* new_path) {
    return fiber_renameat2(AT_FDCWD, old_path, AT_FDCWD, new_path, 0);
}

int fiber_unlinkat(int dirfd, const char* path, int flags) {
    if (!path) return -EINVAL;
    Op op = path_op(OpCode::unlink, dirfd, path);
    op.flags = unsigned(flags);
    return int(run_here(op));
}

int fiber_unlink(const char* path) { return fiber_unlinkat(AT_FDCWD, path, 0); }

int fiber_rmdir(const char* path) { return fiber_unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int fiber_mkdirat(int dirfd, const char* path, mode_t mode) {
    if (!path) return -EINVAL;
    Op op = path_op(OpCode::mkdir, dirfd, path);
    op.length = mode;
    return int(run_here(op));
}

int fiber_mkdir(const char* path, mode_t mode) { return fiber_mkdirat(AT_FDCWD, path, mode); }

int64_t fiber_getdents64(int fd, void* buffer, size_t size) {
    if (!buffer || size > SSIZE_MAX) return -EINVAL;
    Op op(OpCode::getdents, fd);
    op.address = buffer;
    op.length = at_once(size);
    return run_here(op);
}

int fiber_statx(int dirfd, const char* path, int flags, unsigned mask, struct statx* out) {
    if (!path || !out) return -EINVAL;
    Op op = path_op(OpCode::statx, dirfd, path);
    op.address2 = out;
    op.flags = unsigned(flags);
    op.length = mask;
    return int(run_here(op));
}

int fiber_fsync(int fd) { return sync_file(fd, 0); }

int fiber_fdatasync(int fd) { return sync_file(fd, fsync_data_only); }
