// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads the Python frames of a fiber without the GIL, from any thread: the chain of the interpreter's frames, the code
// object of each, and from it the names and the line. The fiber is parked, or the library drops the result. So all
// memory is read by the library's copy function, each object's type is checked, and everything is bounded.
#include "frame_layout.h"

#include "fiber.h"
#include "frames.h"
#include "waiting.h"

#include <string.h>

namespace fiberrt_python {

namespace {

using Copy = int64_t (*)(void* to, const void* from, size_t bytes);

// Frames that are left out, in all.
constexpr int unshown_most = 10'000;
constexpr Py_ssize_t table_most = 1 << 20;

bool take_bytes(Copy copy, void* to, const void* from, size_t bytes) {
    return from && copy(to, from, bytes) == int64_t(bytes);
}

// Copies an object, or a member of one.
template <class T>
bool take(Copy copy, T& to, const T* from) {
    return take_bytes(copy, &to, from, sizeof to);
}

// The innermost frame. Returns false if it cannot be read. A fiber that has not begun has none.
bool innermost_frame(Copy copy, const FiberObject* fiber, InterpreterFrame*& out) {
    World* world;
    bool started;
    out = nullptr;
    if (!take(copy, started, &fiber->started) || !take(copy, world, &fiber->world)) return false;
    if (!started || !world) return true;
    Execution* loaded;
    PyThreadState* state;
    if (!take(copy, loaded, &world->loaded) || !take(copy, state, &world->state)) return false;
    bool in_state = loaded == &fiber->execution; // its thread has run no other Python fiber since
#if PY_VERSION_HEX < 0x030D0000
    _PyCFrame* cframe;
    return take(copy, cframe, in_state ? &state->cframe : &fiber->execution.cframe) &&
           take(copy, out, &cframe->current_frame);
#else
    return take(copy, out, in_state ? &state->current_frame : &fiber->execution.current_frame);
#endif
}

size_t utf8_length(uint32_t c) { return c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4; }

void put_utf8(char* to, uint32_t c) {
    size_t length = utf8_length(c);
    if (length == 1) {
        *to = char(c);
        return;
    }
    for (size_t i = length - 1; i > 0; i--, c >>= 6) to[i] = char(0x80 | (c & 0x3F));
    static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    *to = char(lead[length] | c);
}

// Stores a str as UTF-8. If it has no room, stores its end after "...".
template <size_t size>
void put_text(Copy copy, const PyObject* text, char (&out)[size]) {
    PyASCIIObject head;
    out[0] = '\0';
    if (!take(copy, head, reinterpret_cast<const PyASCIIObject*>(text))) return;
    unsigned width = head.state.kind;
    if (Py_TYPE(reinterpret_cast<PyObject*>(&head)) != &PyUnicode_Type || !head.state.compact || head.length < 0 ||
        (width != 1 && width != 2 && width != 4))
        return;
    size_t length = size_t(head.length);
    size_t count = length < size ? length : size; // of characters at its end
    size_t header = head.state.ascii ? sizeof(PyASCIIObject) : sizeof(PyCompactUnicodeObject);
    unsigned char raw[4 * size];
    if (!take_bytes(copy, raw, reinterpret_cast<const char*>(text) + header + (length - count) * width, count * width))
        return;
    auto character = [&](size_t i) -> uint32_t {
        uint32_t c = 0;
        memcpy(&c, raw + i * width, width); // little-endian, as the processors that the library supports
        return (c >= 0xD800 && c < 0xE000) || c > 0x10FFFF ? '?' : c;
    };
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) bytes += utf8_length(character(i));
    constexpr size_t room = size - 1;
    constexpr size_t dots = 3;
    size_t first = 0;
    char* to = out;
    if (count < length || bytes > room) {
        while (bytes > room - dots) bytes -= utf8_length(character(first++));
        memcpy(to, "...", dots);
        to += dots;
    }
    for (size_t i = first; i < count; i++) {
        put_utf8(to, character(i));
        to += utf8_length(character(i));
    }
    *to = '\0';
}

// The bytes of a bytes object, one after the other.
class ByteReader {
public:
    ByteReader(Copy copy, const PyObject* object) : copy_(copy) {
        PyVarObject head;
        if (!take(copy, head, reinterpret_cast<const PyVarObject*>(object))) return;
        if (Py_TYPE(reinterpret_cast<PyObject*>(&head)) != &PyBytes_Type || head.ob_size < 0) return;
        left_ = size_t(head.ob_size < table_most ? head.ob_size : table_most);
        next_ = reinterpret_cast<const char*>(object) + offsetof(PyBytesObject, ob_sval);
    }

    // The next byte, or -1 at the end.
    int peek() { return at_ < end_ || fill() ? bytes_[at_] : -1; }
    int get() {
        int byte = peek();
        at_ += byte >= 0;
        return byte;
    }

private:
    bool fill() {
        size_t bytes = left_ < sizeof bytes_ ? left_ : sizeof bytes_;
        if (!bytes || !take_bytes(copy_, bytes_, next_, bytes)) return false;
        next_ += bytes;
        left_ -= bytes;
        at_ = 0;
        end_ = bytes;
        return true;
    }

    Copy copy_;
    const char* next_ = nullptr;
    size_t left_ = 0;
    size_t at_ = 0;
    size_t end_ = 0;
    unsigned char bytes_[512];
};

// A signed number of a location table: six bits in each byte, the lowest first; then the lowest bit is the sign.
int signed_number(ByteReader& table) {
    uint32_t value = 0;
    for (unsigned shift = 0; shift < 30; shift += 6) {
        int byte = table.peek();
        if (byte < 0 || byte & 0x80) break;
        table.get();
        value |= uint32_t(byte & 0x3F) << shift;
        if (!(byte & 0x40)) break;
    }
    int magnitude = int(value >> 1);
    return value & 1 ? -magnitude : magnitude;
}

// The line of the instruction at this offset, in bytes; 0: it has none, or the table cannot be read. An entry of the
// table is for some instructions, which follow those of the entry before. Its first byte, the only one with the highest
// bit, has a code and the number of code units less 1. The code says how much the line differs from the entry before.
int line_at(Copy copy, const PyCodeObject& code, intptr_t offset) {
    if (offset < 0) return code.co_firstlineno;
    ByteReader table(copy, code.co_linetable);
    int line = code.co_firstlineno;
    intptr_t end = 0;
    for (int first; (first = table.get()) >= 0;) {
        unsigned kind = unsigned(first) >> 3 & 15;
        bool has_line = kind != 15;
        if (kind == 13 || kind == 14) {
            line += signed_number(table);
        } else if (kind >= 10 && kind <= 12) {
            line += int(kind) - 10;
        }
        for (int byte; (byte = table.peek()) >= 0 && !(byte & 0x80);) table.get(); // columns
        end += ((first & 7) + 1) * intptr_t(sizeof(_Py_CODEUNIT));
        if (offset < end) return has_line && line > 0 ? line : 0;
    }
    return 0;
}

int read_frames(fiber_tag_t tag, Copy copy, fiber_code_frame_t* frames, int max) {
    InterpreterFrame* at;
    bool whole = innermost_frame(copy, static_cast<const FiberObject*>(tag.pointer), at);
    int count = 0;
    for (int unshown = 0; whole && at;) {
        alignas(InterpreterFrame) unsigned char memory[sizeof(InterpreterFrame)];
        const auto& frame = *reinterpret_cast<const InterpreterFrame*>(memory);
        whole = take_bytes(copy, memory, at, frame_bytes);
        if (!whole) break;
        at = frame.previous;
        const PyCodeObject* code_at = has_code(frame) ? code_of(frame) : nullptr;
        PyCodeObject code;
        if (code_at) {
            whole = take(copy, code, code_at) && Py_TYPE(reinterpret_cast<PyObject*>(&code)) == &PyCode_Type;
            if (!whole) break;
        }
        if (!code_at || !is_complete(frame, code_at, code)) {
            whole = ++unshown < unshown_most;
            continue;
        }
        if (count == max) {
            whole = false;
            break;
        }
        fiber_code_frame_t& out = frames[count++];
        uintptr_t begin = reinterpret_cast<uintptr_t>(code_at) + offsetof(PyCodeObject, co_code_adaptive);
        put_text(copy, code.co_qualname, out.function);
        put_text(copy, code.co_filename, out.file);
        if (!out.function[0]) strcpy(out.function, "?");
        out.line = line_at(copy, code, intptr_t(instruction_of(frame) - begin));
        out.reserved = 0;
    }
    if (!whole) {
        if (count == max) count--;
        frames[count++] = {};
    }
    return count;
}

} // namespace

int frames_add() {
    int error = fiber_frames_reader_set(tag_kind, "python", read_frames);
    if (error < 0) raise_errno(error);
    return error < 0 ? -1 : 0;
}

} // namespace fiberrt_python
