// SPDX-License-Identifier: MIT OR Apache-2.0
// Turns the recorder on and off.
#include "record/recorder.h"

#include "base/mutex.h"
#include "core/begin.h"
#include "core/scheduler.h"
#include "record/clock.h"

#include <errno.h>

namespace fiberrt {

namespace {

constinit pthread_mutex_t recorder_mutex = PTHREAD_MUTEX_INITIALIZER; // guards changes of the members below

// The number of the recording, and the consumers. A cord follows them when it begins, or when it receives the message.
constexpr uint64_t consumer_bits = 0xff;
constinit std::atomic<uint64_t> recording{0};
constexpr int number_shift = 8;

uint8_t consumers_in(uint64_t all) { return uint8_t(all & consumer_bits); }
uint32_t number_in(uint64_t all) { return uint32_t(all >> number_shift); }

// Records a cord for the consumers that want it now. On the cord's thread; in a simulation all cords share the thread.
void follow(Cord& cord, CordRecord& record) {
    if (cord.shutdown.leaving) return; // its fibers do not run again
    uint64_t all = recording.load(std::memory_order_acquire);
    uint8_t consumers = consumers_in(all);
    bool same =
        record.consumers == consumers && record.key.load(std::memory_order_relaxed) == record_key(number_in(all), 0);
    bool on = cord.hooked & hooked_by_recorder;
    if (on ? same : !consumers) return;
    if (!on) record.consumers = 0; // of the last cord of this slot
    cord.recorder.record = &record;
    if (consumers) cord.recorder.ops = &recorder_ops(consumers);
    cord_recording_change(cord, consumers, number_in(all));
    set_hooked(cord, uint8_t(cord.hooked & ~hooked_by_recorder) | (consumers ? hooked_by_recorder : 0));
}

CordRecord* record_of(Message* message) {
    return reinterpret_cast<CordRecord*>(reinterpret_cast<char*>(message) - offsetof(CordRecord, message));
}

void receive_recording(Cord& cord, Message* message) {
    CordRecord* record = record_of(message);
    // Before follow() reads what is wanted: a thread that changes this later sends the message again.
    record->asked.exchange(0, std::memory_order_acq_rel);
    follow(cord, *record);
}

void tell_recording(Cord& cord) {
    uint32_t generation = cord.generation.load(std::memory_order_acquire);
    CordRecord* record = cord_record_if_any(cord);
    if (!record || !(generation & 1)) return; // a cord without a record begins after this, and finds what is wanted
    if (&cord == this_cord || environment) return follow(cord, *record);
    if (record->asked.exchange(generation, std::memory_order_acq_rel) == generation) return; // it is on its way
    record->message.receive = receive_recording;
    if (!send(cord, &record->message)) record->asked.store(0, std::memory_order_relaxed); // it ends, or has not begun
}

void record_begins(Cord& cord) {
    if (!consumers_in(recording.load(std::memory_order_acquire))) return;
    MutexGuard guard(recorder_mutex);
    ticks_begin();
    if (CordRecord* record = cord_record(cord)) follow(cord, *record);
}

template <class Visit>
void each_cord_in_use(Visit visit) {
    cords.each([&](Cord* cord) {
        if (cord->generation.load(std::memory_order_acquire) & 1) visit(*cord);
    });
}

void change(uint64_t to) {
    recording.store(to, std::memory_order_release);
    recorder_begins = record_begins;
    cords_lock(); // see cord_make()
    cords_unlock();
    each_cord_in_use(tell_recording);
}

uint64_t with(Consumer consumer) {
    uint64_t now = recording.load(std::memory_order_relaxed);
    uint32_t number = number_in(now) + (!consumers_in(now) || consumer == Consumer::accounting);
    return uint64_t(number) << number_shift | consumers_in(now) | uint8_t(consumer);
}

void set_functions(Consumer consumer, const RecorderConsumer* functions) {
    recorder_consumers[__builtin_ctz(unsigned(consumer))] = functions;
}

} // namespace

int recorder_want(Consumer consumer, const RecorderConsumer* functions) {
    if (!process_begin()) return -ENOMEM;
    if (environment && !environment->admits()) return -ENOTSUP;
    MutexGuard guard(recorder_mutex);
    if (recorder_wanted(consumer)) return -EALREADY;
    bool enough = true;
    each_cord_in_use([&](Cord& cord) { enough &= cord_record(cord) != nullptr; });
    if (!enough) return -ENOMEM; // coverage: no memory
    ticks_begin();
    set_functions(consumer, functions);
    change(with(consumer));
    return 0;
}

int recorder_want_no_more(Consumer consumer) {
    if (!process_begin()) return -ENOMEM; // which may turn the consumer on
    if (environment && !environment->admits()) return -ENOTSUP;
    MutexGuard guard(recorder_mutex);
    if (!recorder_wanted(consumer)) return -EALREADY;
    change(recording.load(std::memory_order_relaxed) & ~uint64_t(consumer));
    return 0;
}

bool recorder_wanted(Consumer consumer) { return recording.load(std::memory_order_relaxed) & uint8_t(consumer); }

uint32_t recording_number() { return number_in(recording.load(std::memory_order_acquire)); }

void recorder_ticks_begin() {
    MutexGuard guard(recorder_mutex);
    ticks_begin();
}

void recorder_want_at_begin(Consumer consumer, const RecorderConsumer* functions) {
    MutexGuard guard(recorder_mutex);
    if (recorder_wanted(consumer)) return;
    set_functions(consumer, functions);
    recording.store(with(consumer), std::memory_order_release);
    recorder_begins = record_begins;
}

void recorder_lock() {
    pthread_mutex_lock(&recorder_mutex);
    records_lock();
}
void recorder_unlock() {
    records_unlock();
    pthread_mutex_unlock(&recorder_mutex);
}

void recorder_forked(Cord* own) {
    each_cord_in_use([](Cord& cord) {
        if (CordRecord* record = cord_record_if_any(cord)) record->asked.store(0, std::memory_order_relaxed);
    });
    if (!consumers_in(recording.load(std::memory_order_relaxed))) return;
    // A new recording: the child's times begin at the fork.
    recording.store(recording.load(std::memory_order_relaxed) + (uint64_t(1) << number_shift),
                    std::memory_order_relaxed);
    CordRecord* record = own ? cord_record(*own) : nullptr;
    if (record) follow(*own, *record);
}

} // namespace fiberrt
