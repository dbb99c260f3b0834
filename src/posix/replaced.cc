// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes into the tables of imported functions of loaded objects, and remembers the former values.
#include "posix/replaced.h"

#include "posix/bindings.h"
#include "posix/fork_mutexes.h"
#include "posix/imports.h"
#include "posix/locks.h"
#include "posix/wait.h"

#include <atomic>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

namespace fiberrt::posix {

namespace {

// The function of a language's runtime that replaces this one, or null.
const Replacement* find_of_language(const char* name) {
    const Runtime* language = runtime.load(std::memory_order_acquire);
    for (int i = 0; language && i < language->replacement_count; i++)
        if (!strcmp(language->replacements[i].name, name)) return &language->replacements[i];
    return nullptr;
}

const Replacement* find_replacement(const char* name, const char* version, Kind kind) {
    switch (kind) {
    case Kind::calls: return posix::find_replacement(name);
    case Kind::locks: return find_lock(name, version);
    case Kind::of_language: return find_of_language(name);
    default: return find_load(name);
    }
}

// Other threads may be calling through the slot. The order of the store does not matter: the functions' code and data
// have been there since the library was loaded.
void* load(void** slot) { return __atomic_load_n(slot, __ATOMIC_RELAXED); }
bool exchange(void** slot, void* before, void* after) {
    return __atomic_compare_exchange_n(slot, &before, after, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

struct Slot {
    void** at;
    const Replacement* by;
    Bindings bindings;
    bool is_of_calls;
    const void* former;          // an earlier replacement, which the slot may still have
    std::atomic<void*> original; // null: the slot is left alone

    bool is_ours() const { return original.load(std::memory_order_relaxed); }
    bool has_replacement() const { return load(at) == by->function; }
    bool was_bound_since() const { return is_of_calls && is_ours() && bindings.has(load(at)); }

    // Whether the dynamic linker has stored this value. Until the first call that is an address in the object itself.
    bool is_of_linker(const Object& object, const void* value) const {
        return bindings.has(value) || (is_of_calls && object.contains(value));
    }

    // If another thread stores into the slot meanwhile, its value stays.
    void replace(const Object& object) {
        void* now = load(at);
        void* before = original.load(std::memory_order_relaxed);
        if (now == by->function) {
            if (!before) before = bindings.next ? bindings.next : bindings.first ? bindings.first : bindings.of_object;
        } else if (former && now == former) {
            if (!exchange(at, now, by->function)) before = nullptr;
        } else {
            before = is_of_linker(object, now) && exchange(at, now, by->function) ? now : nullptr;
        }
        original.store(before, std::memory_order_relaxed);
    }
};

// The replacements in one object. Records are never freed, so a reader of the list needs no lock; the record of an
// object that is loaded again at the same place is used again.
struct Record {
    Record* next;
    uintptr_t base;
    char* path;
    Kind kind;
    std::atomic<bool> in_force;
    size_t index;                // in the list, from its end
    unsigned writes;             // counts replace_in
    uint64_t pass;               // the adoption that put it in force
    unsigned long long unloaded; // objects_unloaded() at the last replace_in
    int count;
    Slot slots[];

    bool is_of(const Object& object) const { return base == object.base() && !strcmp(path, object.path()); }
    bool is_in_force() const { return in_force.load(std::memory_order_relaxed); }
    // Whether this is the function's first slot: an object may have several.
    bool is_first(int i) const {
        if (!slots[i].is_ours()) return false;
        for (int before = 0; before < i; before++)
            if (slots[before].by == slots[i].by && slots[before].is_ours()) return false;
        return true;
    }
    int functions() const {
        int sum = 0;
        for (int i = 0; i < count; i++) sum += is_first(i);
        return sum;
    }
};

constinit std::atomic<Record*> records = nullptr; // the newest first

// Held only while records and tables are written, never in a call of the dynamic linker: a library's constructor, which
// runs under that one's lock, may adopt.
pthread_mutex_t& records_mutex() { return mutex_of(Guarded::records); }

Record* find_record(const Object& object, Kind kind) {
    for (Record* one = records.load(std::memory_order_relaxed); one; one = one->next)
        if (one->kind == kind && one->is_of(object)) return one;
    return nullptr;
}

template <class Visit>
void each_in_force(const Object& object, Visit visit) {
    for (Record* one = records.load(std::memory_order_relaxed); one; one = one->next)
        if (one->is_in_force() && one->is_of(object)) visit(*one);
}

// An object that was unloaded may have had the same place and path: drops its records. unloaded: objects_unloaded() since
// the caller has the object.
void forget_earlier(const Object& object, unsigned long long unloaded) {
    bool none_unloaded = false, has_replacement = false, has_slots = false;
    each_in_force(object, [&](const Record& record) {
        none_unloaded = none_unloaded || record.unloaded == unloaded;
        for (int i = 0; i < record.count; i++) {
            const Slot& slot = record.slots[i];
            if (!slot.is_ours()) continue;
            has_slots = true;
            has_replacement = has_replacement || (object.contains(slot.at) && slot.has_replacement());
        }
    });
    if (none_unloaded || has_replacement || !has_slots) return;
    each_in_force(object, [](Record& record) { record.in_force.store(false, std::memory_order_relaxed); });
}

// Makes the read-only pages of an object writable for as long as it lives.
class Writable {
public:
    Writable(const Imports& imports, int slots) : imports_(imports), needed_(slots && imports.read_only_size()) {
        if (needed_ && protect(PROT_READ | PROT_WRITE)) error_ = -errno;
    }
    ~Writable() {
        if (needed_ && !error_) protect(PROT_READ);
    }
    Writable(const Writable&) = delete;
    Writable& operator=(const Writable&) = delete;
    int error() const { return error_; }

private:
    int protect(int access) const {
        return mprotect(reinterpret_cast<void*>(imports_.read_only_begin()), imports_.read_only_size(), access);
    }
    const Imports& imports_;
    bool needed_;
    int error_ = 0;
};

// The slots of an object that functions of a kind may replace.
class Found {
public:
    struct One {
        Import import;
        const Replacement* by;
        Bindings bindings;
    };

    Found(const Object& object, const Imports& imports, Kind kind) {
        {
            MutexGuard guard(records_mutex()); // for the tables of replacements, which the first use makes
            auto find = [&](const Import& one) { return find_replacement(one.name, one.version, kind); };
            int room = 0;
            imports.each([&](const Import& one) { room += find(one) != nullptr; });
            list_ = static_cast<One*>(calloc(room ? size_t(room) : 1, sizeof(One)));
            if (!list_) return;
            imports.each([&](const Import& one) {
                const Replacement* by = find(one);
                if (by && count_ < room) list_[count_++] = {one, by, {}};
            });
        }
        for (int i = 0; i < count_; i++)
            list_[i].bindings = bindings_of(object, list_[i].import.name, list_[i].import.version);
    }
    ~Found() { free(list_); }
    Found(const Found&) = delete;
    Found& operator=(const Found&) = delete;
    bool complete() const { return list_; }
    int count() const { return count_; }
    const One& operator[](int i) const { return list_[i]; }

    bool is_in(const Record& record) const {
        for (int i = 0; i < count_ && record.count == count_; i++)
            if (record.slots[i].at != list_[i].import.slot || record.slots[i].by != list_[i].by) return false;
        return record.count == count_;
    }

private:
    One* list_ = nullptr;
    int count_ = 0;
};

// Makes a record of the object. before: its former one, or null.
Record* new_record(const Object& object, Kind kind, const Found& found, const Record* before) {
    auto* record = static_cast<Record*>(calloc(1, sizeof(Record) + size_t(found.count()) * sizeof(Slot)));
    char* path = strdup(object.path());
    if (!record || !path) {
        free(record);
        free(path);
        return nullptr;
    }
    record->base = object.base();
    record->path = path;
    record->kind = kind;
    record->count = found.count();
    for (int i = 0; i < record->count; i++) {
        Slot& slot = record->slots[i];
        slot.at = found[i].import.slot;
        slot.by = found[i].by;
        slot.is_of_calls = found[i].import.is_of_calls;
        for (int of = 0; before && of < before->count; of++) {
            const Slot& known = before->slots[of];
            if (known.at != slot.at || !known.is_ours()) continue;
            slot.former = known.by->function;
            slot.original.store(known.original.load(std::memory_order_relaxed), std::memory_order_relaxed);
        }
    }
    record->next = records.load(std::memory_order_relaxed);
    record->index = record->next ? record->next->index + 1 : 0;
    records.store(record, std::memory_order_release); // each_replaced reads the list without the lock
    return record;
}

int restore(Record& record, const Object& object, const Imports& imports) {
    Writable writable(imports, record.count);
    if (writable.error()) return writable.error();
    for (int i = 0; i < record.count; i++) {
        const Slot& slot = record.slots[i];
        if (slot.by->stays || !slot.is_ours() || !object.contains(slot.at)) continue;
        (void)exchange(slot.at, slot.by->function, slot.original.load(std::memory_order_relaxed));
    }
    record.in_force.store(false, std::memory_order_relaxed);
    return record.functions();
}

} // namespace

int replace_in(const Object& object, Kind kind, uint64_t pass) {
    Imports imports(object);
    Found found(object, imports, kind);
    if (!found.complete()) return -ENOMEM;
    if (!found.count() && kind != Kind::calls) return 0; // a record of calls tells that the object is adopted
    unsigned long long unloaded = objects_unloaded();
    MutexGuard guard(records_mutex());
    forget_earlier(object, unloaded);
    Record* before = find_record(object, kind);
    Record* record = before && found.is_in(*before) ? before : new_record(object, kind, found, before);
    if (!record) return -ENOMEM;
    Writable writable(imports, record->count);
    if (writable.error()) return writable.error();
    for (int i = 0; i < record->count; i++) {
        record->slots[i].bindings = found[i].bindings;
        record->slots[i].replace(object);
    }
    // A record that two adoptions have put in force is undone by neither's failure.
    bool twice = before && before->is_in_force() && before->pass != pass;
    record->pass = twice ? 0 : pass;
    if (before) before->in_force.store(false, std::memory_order_relaxed);
    record->writes++;
    record->unloaded = unloaded;
    record->in_force.store(true, std::memory_order_release);
    return record->functions();
}

int restore_in(const Object& object, Kind kind) {
    Imports imports(object);
    unsigned long long unloaded = objects_unloaded();
    MutexGuard guard(records_mutex());
    forget_earlier(object, unloaded);
    Record* record = find_record(object, kind);
    return record && record->is_in_force() ? restore(*record, object, imports) : -ENOENT;
}

void restore_pass_in(const Object& object, uint64_t pass, bool except_loads) {
    Imports imports(object);
    MutexGuard guard(records_mutex());
    each_in_force(object, [&](Record& record) {
        if (record.pass == pass && !(except_loads && record.kind == Kind::loads))
            (void)restore(record, object, imports);
    });
}

bool is_replaced_in(const Object& object, Kind kind) {
    unsigned long long unloaded = objects_unloaded();
    MutexGuard guard(records_mutex());
    forget_earlier(object, unloaded);
    const Record* record = find_record(object, kind);
    return record && record->is_in_force();
}

void look_again_in(const Object& object) {
    Imports imports(object);
    unsigned long long unloaded = objects_unloaded();
    MutexGuard guard(records_mutex());
    forget_earlier(object, unloaded);
    bool bound = false;
    each_in_force(object, [&](const Record& record) {
        for (int i = 0; i < record.count; i++) bound = bound || record.slots[i].was_bound_since();
    });
    if (!bound) return;
    Writable writable(imports, 1);
    if (writable.error()) return;
    each_in_force(object, [&](Record& record) {
        for (int i = 0; i < record.count; i++)
            if (record.slots[i].was_bound_since()) record.slots[i].replace(object);
    });
}

void forget_unloaded(const ObjectList& objects) {
    struct Seen {
        bool yes;
        unsigned writes;
    };
    Seen* seen;
    size_t count = 0;
    {
        MutexGuard guard(records_mutex());
        Record* newest = records.load(std::memory_order_relaxed);
        count = newest ? newest->index + 1 : 0;
        seen = static_cast<Seen*>(calloc(count ? count : 1, sizeof(Seen)));
        if (!seen) return;
        for (Record* one = newest; one; one = one->next) seen[one->index].writes = one->writes;
    }
    objects.each([&](const Object& object) {
        unsigned long long unloaded = objects_unloaded();
        MutexGuard guard(records_mutex());
        forget_earlier(object, unloaded);
        each_in_force(object, [&](const Record& record) {
            if (record.index < count) seen[record.index].yes = true;
        });
    });
    MutexGuard guard(records_mutex());
    for (Record* one = records.load(std::memory_order_relaxed); one; one = one->next) {
        if (one->index >= count || seen[one->index].yes) continue;
        if (one->writes != seen[one->index].writes) continue; // another thread has adopted the object meanwhile
        one->in_force.store(false, std::memory_order_relaxed);
    }
    free(seen);
}

int each_replaced(int (*visit)(const char* path, const char* function, void* arg), void* arg) {
    for (Record* one = records.load(std::memory_order_acquire); one; one = one->next) {
        if (one->kind == Kind::loads || !one->in_force.load(std::memory_order_acquire)) continue;
        for (int i = 0; i < one->count; i++) {
            if (!one->is_first(i)) continue;
            if (int result = visit(one->path, one->slots[i].by->name, arg)) return result;
        }
    }
    return 0;
}

} // namespace fiberrt::posix
