// SPDX-License-Identifier: MIT OR Apache-2.0
// Finds OpenSSL's functions in the loaded libraries, and calls them to save and restore the error queues.
#include "posix/openssl.h"

#include "base/keep_errno.h"
#include "posix/fork_mutexes.h"
#include "posix/no_switch.h"
#include "posix/objects.h"
#include "posix/plain.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

namespace fiberrt::posix {

constinit std::atomic<int> openssl_copies = 0;

namespace {

// The functions of one copy of libcrypto. OpenSSL 3 replaced get_error_line_data and put_error; the other three are in
// all versions.
struct Openssl {
    unsigned long (*peek_error)();
    void (*clear_error)();
    void (*add_error_data)(int count, ...);
    unsigned long (*get_error_all)(const char** file, int* line, const char** function, const char** data, int* flags);
    void (*new_error)();
    void (*set_debug)(const char* file, int line, const char* function);
    void (*set_error)(int library, int reason, const char* format, ...);
    unsigned long (*get_error_line_data)(const char** file, int* line, const char** data, int* flags);
    void (*put_error)(int library, int function, int reason, const char* file, int line);

    bool is_version_3() const { return get_error_all && new_error && set_debug && set_error; }
    bool is_usable() const {
        return peek_error && clear_error && add_error_data && (is_version_3() || (get_error_line_data && put_error));
    }
};

// A process has one copy, or one more for each Python package that brings its own.
constexpr int copies_most = 8;
constinit Openssl copies[copies_most] = {};

struct Error {
    unsigned long code;
    int line;
    bool owns_file; // OpenSSL 1.1 gives and takes names of files that are constants
    const char* file;
    char* function;
    char* data;
};

// OpenSSL keeps the last 16 errors, less one place that tells a full queue from an empty one.
constexpr int errors_most = 16;

constexpr int flag_text = 2; // ERR_TXT_STRING: an error's data are a text

char* copy_of(const char* text) { return text && *text ? strdup(text) : nullptr; }

// Takes the oldest error from the calling thread's queue. false: the queue is empty.
bool take_error(const Openssl& openssl, Error& error) {
    const char* file = nullptr;
    const char* function = nullptr;
    const char* data = nullptr;
    int flags = 0;
    bool is_3 = openssl.is_version_3();
    error.code = is_3 ? openssl.get_error_all(&file, &error.line, &function, &data, &flags)
                      : openssl.get_error_line_data(&file, &error.line, &data, &flags);
    if (!error.code) return false;
    error.owns_file = is_3;
    error.file = is_3 ? copy_of(file) : file;
    error.function = copy_of(function);
    error.data = flags & flag_text ? copy_of(data) : nullptr;
    return true;
}

// put_error_3 and put_error_1 add an error to the queue. They take its number apart as ERR_GET_LIB, ERR_GET_FUNC and
// ERR_GET_REASON do.
void put_error_3(const Openssl& openssl, const Error& error) {
    constexpr unsigned long system = 0x8000'0000; // the rest of the number is an errno
    constexpr int system_library = 2;
    openssl.new_error();
    openssl.set_debug(error.file, error.line, error.function);
    if (error.code & system)
        openssl.set_error(system_library, int(error.code & (system - 1)), nullptr);
    else
        openssl.set_error(int(error.code >> 23 & 0xFF), int(error.code & 0x7F'FFFF), nullptr);
}

void put_error_1(const Openssl& openssl, const Error& error) {
    openssl.put_error(int(error.code >> 24 & 0xFF), int(error.code >> 12 & 0xFFF), int(error.code & 0xFFF), error.file,
                      error.line);
}

void put_error(const Openssl& openssl, Error& error) {
    if (openssl.is_version_3())
        put_error_3(openssl, error);
    else
        put_error_1(openssl, error);
    if (error.data) openssl.add_error_data(1, error.data);
    if (error.owns_file) free(const_cast<char*>(error.file));
    free(error.function);
    free(error.data);
}

struct Paths {
    char* of[copies_most];
    int count;
};

// Keeps the path of a libcrypto, for a dlopen later: under the lock of dl_iterate_phdr, a dlopen could deadlock with
// another thread's.
int note_path(dl_phdr_info* object, size_t, void* arg) {
    auto& paths = *static_cast<Paths*>(arg);
    const char* path = object->dlpi_name;
    if (!path || !is_named(path, "libcrypto.so") || paths.count == copies_most) return 0;
    if (char* copy = strdup(path)) paths.of[paths.count++] = copy;
    return 0;
}

template <class Function>
void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
}

Openssl functions_of(void* library) {
    Openssl openssl;
    find(library, "ERR_peek_error", openssl.peek_error);
    find(library, "ERR_clear_error", openssl.clear_error);
    find(library, "ERR_add_error_data", openssl.add_error_data);
    find(library, "ERR_get_error_all", openssl.get_error_all);
    find(library, "ERR_new", openssl.new_error);
    find(library, "ERR_set_debug", openssl.set_debug);
    find(library, "ERR_set_error", openssl.set_error);
    find(library, "ERR_get_error_line_data", openssl.get_error_line_data);
    find(library, "ERR_put_error", openssl.put_error);
    return openssl;
}

// Returns whether the copy is new.
bool add(const Openssl& openssl) {
    MutexGuard guard(mutex_of(Guarded::openssl_copies));
    int count = openssl_copies.load(std::memory_order_relaxed);
    if (count == copies_most || !openssl.is_usable()) return false;
    for (int i = 0; i < count; i++)
        if (copies[i].peek_error == openssl.peek_error) return false;
    copies[count] = openssl;
    openssl_copies.store(count + 1, std::memory_order_release); // a wait reads the copy without the lock
    return true;
}

} // namespace

void find_openssl() {
    Paths paths = {};
    each_object(note_path, &paths);
    for (int i = 0; i < paths.count; i++) {
        void* library = plain.dlopen(paths.of[i], RTLD_LAZY | RTLD_NOLOAD);
        free(paths.of[i]);
        // The handle of a copy that was added stays open, so that its functions stay loaded.
        if (library && !add(functions_of(library))) ::dlclose(library);
    }
}

struct OpensslErrors::Queue {
    Queue* next;
    const Openssl* of;
    int count;
    Error errors[errors_most];
};

// OpenSSL's functions may lock, and may be adopted: a wait in here would take and put back errors itself, in an endless
// recursion.
void OpensslErrors::take() {
    KeepErrno keep;
    NoSwitch no_waits_in_openssl;
    for (int i = 0; i < copies_; i++) {
        if (!copies[i].peek_error()) [[likely]]
            continue;
        auto* queue = static_cast<Queue*>(malloc(sizeof(Queue)));
        if (!queue) continue;
        queue->next = taken_;
        queue->of = &copies[i];
        queue->count = 0;
        while (queue->count < errors_most && take_error(copies[i], queue->errors[queue->count])) queue->count++;
        taken_ = queue;
    }
}

void OpensslErrors::put_back() {
    KeepErrno keep;
    NoSwitch no_waits_in_openssl;
    // Other fibers have left these errors: fibers that ended, or that waited in a call outside adopted libraries.
    for (int i = 0; i < copies_; i++)
        if (copies[i].peek_error()) copies[i].clear_error();
    while (Queue* queue = taken_) {
        for (int i = 0; i < queue->count; i++) put_error(*queue->of, queue->errors[i]);
        taken_ = queue->next;
        free(queue);
    }
}

} // namespace fiberrt::posix
