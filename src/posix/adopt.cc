// SPDX-License-Identifier: MIT OR Apache-2.0
// Adopts libraries, those that are loaded and those that will be, and undoes it.
#include "posix/adopt.h"

#include "base/keep_errno.h"
#include "base/report.h"
#include "fiberrt.h"
#include "posix/fork_mutexes.h"
#include "posix/later.h"
#include "posix/layout.h"
#include "posix/no_switch.h"
#include "posix/note.h"
#include "posix/objects.h"
#include "posix/openssl.h"
#include "posix/plain.h"
#include "posix/replaced.h"
#include "posix/replacements.h"

#include <atomic>
#include <errno.h>

namespace fiberrt::posix {

namespace {

constinit std::atomic<unsigned long long> objects_seen = 0; // how many had been loaded before a pass that has ended
constinit std::atomic<uint64_t> passes = 0;

void note_pass(unsigned long long loaded) {
    unsigned long long seen = objects_seen.load(std::memory_order_relaxed);
    while (seen < loaded && !objects_seen.compare_exchange_weak(seen, loaded, std::memory_order_release)) continue;
}

bool is_wanted(const Object& object, const char* library) {
    return library ? object.is_named(library) && !has_note(object) : !object.is_of_the_system();
}

// Whether the adoption of an object leaves its locks alone. The lock of Python's interpreter is made of the C library's,
// and threads hand it on: a fiber that waited for it would need it. A program that contains its allocator may lock the
// allocator's mutexes by its own calls.
bool leaves_locks(const Object& object, const char* library, unsigned flags) {
    if ((flags & FIBER_POSIX_NO_LOCKS) || !locks_are_known()) return true;
    return !library && (object.defines("PyEval_SaveThread") || object.defines("malloc"));
}

// What a pass over the loaded objects has done.
struct Pass {
    uint64_t number = ++passes;
    int objects = 0;
    int functions = 0;
    int error = 0;

    // result: of replace_in or restore_in.
    void count(int result) {
        if (result >= 0) {
            objects++;
            functions += result;
        } else if (result != -ENOENT) {
            error = result;
        }
    }
    void count_more(int result) { // of an object that has been counted
        if (result >= 0)
            functions += result;
        else if (result != -ENOENT)
            error = result;
    }
};

// An object that is adopted keeps its locks, adopted or not, until it is released.
void adopt_object(const Object& object, const char* library, unsigned flags, Pass& pass) {
    bool has_locks = is_replaced_in(object, Kind::calls) ? is_replaced_in(object, Kind::locks)
                                                         : !leaves_locks(object, library, flags);
    pass.count(replace_in(object, Kind::calls, pass.number));
    if (has_locks) pass.count_more(replace_in(object, Kind::locks, pass.number));
    if (flags & with_those_of_runtime) pass.count_more(replace_in(object, Kind::of_language, pass.number));
}

// In all objects the functions that load libraries, if an adoption waits for libraries.
void watch_for_libraries(const Object& object, Pass& pass) {
    if (object.is_of_the_system() || is_replaced_in(object, Kind::loads)) return;
    int result = replace_in(object, Kind::loads, pass.number);
    if (result < 0) pass.error = result;
}

// A program with another copy of the library is told of it once: the fibers of that copy would seem not to wait.
void tell_of_copy(const Object& object) {
    static constinit std::atomic<unsigned> told = 0; // a word, as RISC-V has no exchange of a byte
    if (object.is_this_library() || !has_note(object) || told.exchange(1, std::memory_order_relaxed)) return;
    Report report(2, Report::unasked_ns);
    report.put("libfiberrt: ");
    report.put(object.path());
    report.put(" contains another copy of the library: blocking calls of its fibers block the thread\n");
    report.end();
}

} // namespace

int adopt(const char* library, unsigned flags) {
    KeepErrno keep;
    if (!find_plain()) return -ENOTSUP;
    if (!take_part_in_forks()) return -ENOMEM;
    choose_replacements();
    NoSwitch loading; // a library may be unloaded here, with destructors
    bool later = flags & FIBER_POSIX_LATER;
    LaterChange change;
    if (later) {
        if (int error = await_later(library, flags, &change)) return error;
    }
    Pass pass;
    ObjectList objects;
    if (!objects.complete()) pass.error = -ENOMEM;
    bool watching = any_later();
    objects.each([&](const Object& object) {
        if (pass.error) return;
        if (is_wanted(object, library)) adopt_object(object, library, flags, pass);
        if (!library) tell_of_copy(object);
        if (watching) watch_for_libraries(object, pass);
    });
    if (pass.error) {
        put_back(change);
        watching = any_later();
        objects.each([&](const Object& object) { restore_pass_in(object, pass.number, watching); });
        return pass.error;
    }
    if (!later && pass.objects) end_release(library);
    objects.each(look_again_in);
    find_openssl();
    return pass.objects || later ? pass.functions : -ENOENT;
}

int release(const char* library) {
    KeepErrno keep;
    if (!find_plain()) return -ENOTSUP;
    if (!take_part_in_forks()) return -ENOMEM;
    NoSwitch loading;
    int would_wait = release_later(library);
    if (would_wait < 0) return would_wait;
    bool watching = any_later();
    ObjectList objects;
    if (!objects.complete()) return -ENOMEM;
    Pass pass;
    objects.each([&](const Object& object) {
        if (is_wanted(object, library)) {
            pass.count(restore_in(object, Kind::calls));
            pass.count_more(restore_in(object, Kind::locks));
            pass.count_more(restore_in(object, Kind::of_language));
        }
        if (!watching) (void)restore_in(object, Kind::loads);
    });
    if (pass.error) return pass.error;
    return pass.objects || would_wait ? pass.functions : -ENOENT;
}

int each(int (*visit)(const char* path, const char* function, void* arg), void* arg) {
    if (find_plain() && take_part_in_forks()) {
        KeepErrno keep;
        NoSwitch loading;
        ObjectList objects;
        if (objects.complete()) forget_unloaded(objects);
    }
    return each_replaced(visit, arg);
}

void adopt_loaded() {
    KeepErrno keep;
    if (!any_later()) return;
    // The C library counts all objects that were ever loaded. If it does not, each call is a pass.
    unsigned long long loaded = objects_loaded();
    if (loaded && objects_seen.load(std::memory_order_acquire) >= loaded) return;
    ObjectList objects;
    Pass pass;
    objects.each([&](const Object& object) {
        unsigned flags;
        if (!is_replaced_in(object, Kind::calls)) {
            auto fits = [&](const char* library) { return is_wanted(object, library); };
            const Later* later = find_later(fits, &flags);
            Pass own;
            if (later) adopt_object(object, later->library, flags, own);
            // After an error a later pass begins anew. Another thread may have released the library meanwhile.
            if (later && (own.error || !find_later(fits, &flags))) restore_pass_in(object, own.number, true);
            if (own.error) pass.error = own.error;
        }
        if (find_later([](const char* library) { return !library; }, &flags)) tell_of_copy(object);
        watch_for_libraries(object, pass);
        look_again_in(object);
    });
    find_openssl();
    if (objects.complete() && !pass.error) note_pass(loaded);
}

} // namespace fiberrt::posix
