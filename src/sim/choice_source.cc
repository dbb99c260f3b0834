// SPDX-License-Identifier: MIT OR Apache-2.0
// The choice source's random generator, its lists of choices, and the writing of traces.
#include "sim/choice_source.h"

#include "base/parse_number.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace fiberrt {

namespace {

// The trace's descriptor is moved up to this number or higher, so that the program's own descriptors have the same
// numbers with a trace and without.
constexpr int lowest_own_fd = 100;

int moved_up(int fd) {
    int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, lowest_own_fd);
    if (high >= 0) close(fd);
    return high;
}

// Returns the contents of a file, with a zero byte at the end; null and errno if it cannot be read.
char* contents(const char* path) {
    constexpr size_t step = 4096;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return nullptr;
    char* text = nullptr;
    size_t size = 0;
    ssize_t count = 0;
    do {
        size += size_t(count);
        auto* longer = static_cast<char*>(realloc(text, size + step + 1));
        count = longer ? read(fd, longer + size, step) : -1;
        if (longer) text = longer;
    } while (count > 0);
    int error = errno;
    close(fd);
    if (count == 0) {
        text[size] = '\0';
        return text;
    }
    free(text);
    errno = error;
    return nullptr;
}

bool well_formed(const char* list) {
    uint64_t position;
    uint64_t before = 0;
    uint64_t choice;
    for (bool first = true; *list && *list != '\n'; first = false) {
        if (!first && *list++ != ',') return false;
        if (!parse_decimal(&list, &position) || *list++ != ':' || !parse_decimal(&list, &choice)) return false;
        if (!first && position <= before) return false;
        before = position;
    }
    return true;
}

} // namespace

bool Trace::open(const char* path) {
    fd_ = moved_up(::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
    return fd_ >= 0;
}

void Trace::close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
}

// Written at once, without a buffer, so that the trace shows what led to the end of a process.
void Trace::line(int64_t now, const char* format, ...) {
    if (fd_ < 0) return;
    char text[256];
    int length = snprintf(text, sizeof text, "%lld ", static_cast<long long>(now));
    va_list arguments;
    va_start(arguments, format);
    length += vsnprintf(text + length, sizeof text - 1 - size_t(length), format, arguments);
    va_end(arguments);
    if (length > int(sizeof text) - 2) length = int(sizeof text) - 2;
    text[length++] = '\n';
    if (write(fd_, text, size_t(length)) < 0) fd_ = -1;
}

// The next random number, by SplitMix64.
uint64_t ChoiceSource::random() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

// Starts the generator. Some seeds make runs with few unusual choices, others make runs with many, because each kind of
// run finds other defects.
void ChoiceSource::seed(uint64_t seed) {
    state_ = seed;
    rarity_ = 1u << random() % 5;
}

int ChoiceSource::replay(const char* list) {
    list_ = list[0] == '@' ? contents(list + 1) : strdup(list); // copied, as the environment may change
    if (!list_) return -errno;
    if (!well_formed(list_)) return -EINVAL;
    listed_ = true;
    next_entry();
    return 0;
}

bool ChoiceSource::next_entry() {
    entry_position_ = UINT64_MAX;
    if (*list_ == ',') list_++;
    if (!parse_decimal(&list_, &entry_position_)) return false;
    list_++;
    return parse_decimal(&list_, &entry_choice_);
}

uint32_t ChoiceSource::draw(uint32_t n, uint32_t one_in) {
    uint64_t r = random();
    uint64_t ordinary = one_in ? one_in : rarity_;
    if (uint64_t(uint32_t(r)) * ordinary >> 32) return 0;
    uint32_t least = one_in ? 1 : 0;
    return least + uint32_t((r >> 32) * (n - least) >> 32);
}

uint32_t ChoiceSource::listed(uint32_t n) {
    if (position_ != entry_position_) return 0;
    auto choice = uint32_t(entry_choice_ < n ? entry_choice_ : n - 1);
    next_entry();
    return choice;
}

uint32_t ChoiceSource::pick(uint32_t n, Site, uint32_t one_in) {
    if (n < 2) return 0;
    uint32_t choice = listed_ ? listed(n) : draw(n, one_in);
    position_++;
    return choice;
}

const char* ChoiceSource::name_of(Site site) const {
    static constexpr char names[][16] = {
        "how_many",       "which",    "report_later", "cancel",  "timer",      "poll_interval",
        "time_slice",     "cord",     "in_between",   "victim",  "after_call", "program",
        "short_transfer", "again",    "signal",       "no_room", "overflow",   "doorbell",
        "reset",          "no_space", "memory",       "stack",
    };
    static_assert(sizeof names / sizeof *names == size_t(Site::stack) + 1,
                  "src/sim/choice_source.cc: a Site has no name");
    return names[uint8_t(site)];
}

} // namespace fiberrt
