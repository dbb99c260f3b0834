// SPDX-License-Identifier: MIT OR Apache-2.0
// An interpreter of call frame information: .eh_frame, as the Linux Standard Base and the DWARF standard (version 5,
// sections 6.4 and 2.5) describe it.
#include "debug/unwind.h"

#include "base/readable.h"
#include "core/hooks.h"
#include "core/switch.h"

#include <string.h>

// libgcc's and LLVM's unwinders have this function, but no header declares it.
extern "C" {
struct dwarf_eh_bases {
    void* tbase;
    void* dbase;
    void* func; // where the function begins
};
const void* _Unwind_Find_FDE(void* pc, dwarf_eh_bases* bases);
void fiberrt_entry(); // arch/: the first frame of every fiber
}

namespace fiberrt {

namespace {

// Numbers of registers in the CFI, and where the saved frame has them (arch/ draws it).
struct SavedRegister {
    uint8_t number;
    uint8_t offset;
};
#if defined __x86_64__
constexpr SavedRegister saved_registers[] = {{15, 0}, {14, 8}, {13, 16}, {12, 24}, {3, 32}, {6, 40}};
constexpr unsigned saved_pc = 48;
constexpr unsigned frame_size = 56;
constexpr unsigned stack_pointer = 7;
uintptr_t plain_address(uintptr_t address) { return address; }
#elif defined __aarch64__
constexpr SavedRegister saved_registers[] = {{29, 0},  {19, 16}, {20, 24}, {21, 32}, {22, 40}, {23, 48},
                                             {24, 56}, {25, 64}, {26, 72}, {27, 80}, {28, 88}};
constexpr unsigned saved_pc = 8;
constexpr unsigned frame_size = 176;
constexpr unsigned stack_pointer = 31;
// Return addresses may be signed: this removes the signature (xpaclri, which other processors ignore).
uintptr_t plain_address(uintptr_t address) {
    register uintptr_t x30 asm("x30") = address;
    asm("hint #7" : "+r"(x30));
    return x30;
}
#elif defined __riscv
constexpr SavedRegister saved_registers[] = {{9, 104},  {18, 112}, {19, 120}, {20, 128}, {21, 136}, {22, 144},
                                             {23, 152}, {24, 160}, {25, 168}, {26, 176}, {27, 184}, {8, 192}};
constexpr unsigned saved_pc = 200;
constexpr unsigned frame_size = 208;
constexpr unsigned stack_pointer = 2;
uintptr_t plain_address(uintptr_t address) { return address; }
#endif

constexpr unsigned register_count = 33; // the others are not needed to find frames

struct Registers {
    uint64_t value[register_count];
    uint64_t known; // bits

    bool has(uint64_t n) const { return n < register_count && known >> n & 1; }
    void set(unsigned n, uint64_t v) {
        value[n] = v;
        known |= uint64_t(1) << n;
    }
    void forget(unsigned n) { known &= ~(uint64_t(1) << n); }
};

// Reads words of the stack, from a copy of the part around the last one.
class Reader {
public:
    void begin(const char* low, const char* top) {
        low_ = reinterpret_cast<uintptr_t>(low);
        top_ = top ? reinterpret_cast<uintptr_t>(top) : UINTPTR_MAX;
        size_ = 0;
    }
    bool read(uintptr_t address, void* to, size_t bytes) {
        if (address - from_ < size_ && size_ - (address - from_) >= bytes) {
            memcpy(to, copy_ + (address - from_), bytes);
            return true;
        }
        if (address < low_ || address >= top_ || top_ - address < bytes)
            return copy_readable(to, reinterpret_cast<const void*>(address), bytes) == ptrdiff_t(bytes);
        size_t wanted = top_ - address < sizeof copy_ ? top_ - address : sizeof copy_;
        ptrdiff_t copied = copy_readable(copy_, reinterpret_cast<const void*>(address), wanted);
        from_ = address;
        size_ = copied > 0 ? size_t(copied) : 0;
        if (size_ < bytes) return false;
        memcpy(to, copy_, bytes);
        return true;
    }
    bool word(uintptr_t address, uint64_t* out) { return read(address, out, sizeof *out); }

private:
    uintptr_t low_, top_;
    uintptr_t from_;
    size_t size_;
    alignas(8) unsigned char copy_[8192];
};

// Reads the encoded values of CFI. After the end it returns zeros, and `bad` is set.
struct Cursor {
    const uint8_t* at;
    const uint8_t* end;
    bool bad = false;

    bool left() const { return at < end && !bad; }
    template <class T>
    T fixed() {
        T value{};
        if (size_t(end - at) < sizeof value) {
            bad = true;
            at = end;
        } else {
            memcpy(&value, at, sizeof value);
            at += sizeof value;
        }
        return value;
    }
    uint64_t uleb() {
        uint64_t value = 0;
        uint8_t byte;
        unsigned shift = 0;
        do {
            byte = fixed<uint8_t>();
            if (shift < 64) value |= uint64_t(byte & 0x7f) << shift;
            shift += 7;
        } while (byte & 0x80);
        return value;
    }
    int64_t sleb() {
        uint64_t value = 0;
        uint8_t byte;
        unsigned shift = 0;
        do {
            byte = fixed<uint8_t>();
            if (shift < 64) value |= uint64_t(byte & 0x7f) << shift;
            shift += 7;
        } while (byte & 0x80);
        if (shift < 64 && byte & 0x40) value |= ~uint64_t(0) << shift;
        return int64_t(value);
    }
    // Passes over an address with this encoding (DW_EH_PE_*).
    void skip_address(uint8_t encoding) {
        switch (encoding & 0x0f) {
        case 0x00:
        case 0x04:
        case 0x0c: fixed<uint64_t>(); break;
        case 0x01: uleb(); break;
        case 0x09: sleb(); break;
        case 0x02:
        case 0x0a: fixed<uint16_t>(); break;
        case 0x03:
        case 0x0b: fixed<uint32_t>(); break;
        default: bad = true;
        }
        if (encoding == 0x50) bad = true; // aligned: no compiler uses it here
    }
    Cursor block() {
        uint64_t bytes = uleb();
        if (bytes > uint64_t(end - at)) {
            bad = true;
            bytes = 0;
        }
        Cursor inner = {at, at + bytes};
        at += bytes;
        return inner;
    }
};

// How to find the caller's value of a register.
struct Rule {
    enum Kind : uint8_t { same, undefined, at_offset, is_offset, in_register, at_expression, is_expression };
    Kind kind;
    int64_t number; // the offset from the frame's address (CFA), or the register
    const uint8_t* expression;
    const uint8_t* expression_end;
};

struct Row {
    Rule rules[register_count];
    uint64_t cfa_register;
    int64_t cfa_offset;
    const uint8_t* cfa_expression; // null: the register and the offset
    const uint8_t* cfa_expression_end;
};

// A function's CFI.
struct Cfi {
    Cursor common; // instructions that all functions of the CIE begin with
    Cursor own;    // instructions of this function
    uint64_t code_align;
    int64_t data_align;
    uint64_t return_register;
    bool signal_frame;
    uintptr_t function;
};

// The contents of an entry: of a CIE or of an FDE. False: it is the terminator, or of an unknown form.
bool open_entry(const uint8_t* entry, Cursor* out) {
    uint32_t length;
    memcpy(&length, entry, sizeof length);
    if (length == 0 || length == UINT32_MAX) return false; // entries above 4 GiB: no
    *out = {entry + 4, entry + 4 + length};
    return true;
}

bool find_cfi(uintptr_t pc, Cfi* out) {
    dwarf_eh_bases bases = {};
    auto* fde = static_cast<const uint8_t*>(_Unwind_Find_FDE(reinterpret_cast<void*>(pc), &bases));
    Cursor in_fde = {};
    Cursor in_cie = {};
    if (!fde || !open_entry(fde, &in_fde)) return false;
    const uint8_t* here = in_fde.at;
    if (!open_entry(here - in_fde.fixed<int32_t>(), &in_cie)) return false;
    out->function = reinterpret_cast<uintptr_t>(bases.func);
    in_cie.fixed<uint32_t>(); // its mark
    uint8_t version = in_cie.fixed<uint8_t>();
    if (version != 1 && version != 3) return false;
    const char* augmentation = reinterpret_cast<const char*>(in_cie.at);
    while (in_cie.fixed<uint8_t>()) continue;
    if (in_cie.bad || (augmentation[0] && augmentation[0] != 'z')) return false;
    out->code_align = in_cie.uleb();
    out->data_align = in_cie.sleb();
    out->return_register = version == 1 ? in_cie.fixed<uint8_t>() : in_cie.uleb();
    out->signal_frame = false;
    uint8_t address_encoding = 0;
    if (augmentation[0] == 'z') {
        Cursor data = in_cie.block();
        for (const char* what = augmentation + 1; *what && !data.bad; what++) {
            switch (*what) {
            case 'R': address_encoding = data.fixed<uint8_t>(); break;
            case 'P': data.skip_address(data.fixed<uint8_t>()); break;
            case 'L': data.fixed<uint8_t>(); break;
            case 'S': out->signal_frame = true; break;
            case 'B': break; // AArch64: which key signs return addresses
            default: return false;
            }
        }
        if (data.bad) return false;
    }
    in_fde.skip_address(address_encoding);
    in_fde.skip_address(address_encoding);
    if (augmentation[0] == 'z') in_fde.block();
    out->common = in_cie;
    out->own = in_fde;
    return !in_cie.bad && !in_fde.bad && out->return_register < register_count;
}

class Unwinder {
public:
    void begin(const char* sp, const char* top) {
        reader_.begin(sp, top);
        auto frame = reinterpret_cast<uintptr_t>(sp);
        registers_.known = 0;
        ok_ = reader_.word(frame + saved_pc, &pc_);
        pc_ = plain_address(pc_);
        for (const SavedRegister& saved : saved_registers) {
            uint64_t value;
            if (reader_.word(frame + saved.offset, &value)) registers_.set(saved.number, value);
        }
        registers_.set(stack_pointer, frame + frame_size);
        given_cfa_ = 0;
        exact_ = false;
        same_frame_ = 0;
    }
    void begin_in(const void* pc, const char* cfa, const char* top) {
        constexpr ptrdiff_t frame_most = 4096; // how far below cfa the saved registers lie at most
        reader_.begin(cfa - frame_most, top);
        pc_ = reinterpret_cast<uintptr_t>(pc);
        ok_ = true;
        given_cfa_ = reinterpret_cast<uintptr_t>(cfa);
        registers_.known = 0;
        registers_.set(stack_pointer, given_cfa_ - sizeof(void*));
        exact_ = true;
        same_frame_ = 0;
    }

    bool ok() const { return ok_; }
    uintptr_t pc() const { return pc_; }
    uintptr_t function() const { return cfi_.function; }

    enum class Result : uint8_t { caller, outermost, lost };

    // Goes to the caller's frame.
    Result step() {
        uintptr_t address = pc_ - !exact_; // within the call: a call may be the last instruction of a function
        cfi_.function = 0;
        uintptr_t cfa;
        if (!find_cfi(address, &cfi_) || !make_row(address) || !find_cfa(&cfa)) return Result::lost;
        Registers caller = registers_;
        uint64_t return_address = 0;
        bool has_return_address = registers_.has(cfi_.return_register);
        if (has_return_address) return_address = registers_.value[cfi_.return_register];
        for (unsigned n = 0; n < register_count; n++) {
            const Rule& rule = row_.rules[n];
            if (rule.kind == Rule::same) continue;
            uint64_t value;
            bool known = rule.kind != Rule::undefined && find(rule, cfa, &value);
            if (known) {
                caller.set(n, value);
            } else {
                caller.forget(n);
            }
            if (n != cfi_.return_register) continue;
            if (rule.kind == Rule::undefined) return Result::outermost;
            has_return_address = known;
            return_address = value;
        }
        // A frame lies above its callee's.
        if (!has_return_address || !registers_.has(stack_pointer) || cfa < registers_.value[stack_pointer] ||
            (cfa == registers_.value[stack_pointer] && ++same_frame_ > 1))
            return Result::lost;
        if (cfa > registers_.value[stack_pointer]) same_frame_ = 0;
        if (row_.rules[stack_pointer].kind == Rule::same) caller.set(stack_pointer, cfa);
        registers_ = caller;
        pc_ = plain_address(return_address);
        exact_ = cfi_.signal_frame;
        return pc_ ? Result::caller : Result::outermost;
    }

private:
    bool set_rule(uint64_t n, const Rule& rule) {
        if (n < register_count) row_.rules[n] = rule;
        return true;
    }

    // Makes the row of the table for this address.
    bool make_row(uintptr_t address) {
        memset(&row_, 0, sizeof row_);
        uintptr_t location = cfi_.function;
        depth_ = 0;
        if (!run(cfi_.common, UINTPTR_MAX, &location)) return false;
        initial_ = row_;
        location = cfi_.function;
        return run(cfi_.own, address, &location);
    }

    bool run(Cursor code, uintptr_t until, uintptr_t* location) {
        while (code.left() && *location <= until) {
            uint8_t byte = code.fixed<uint8_t>();
            uint64_t low = byte & 0x3f;
            switch (byte >> 6) {
            case 1: *location += low * cfi_.code_align; continue;
            case 2:
                set_rule(low, {Rule::at_offset, int64_t(code.uleb()) * cfi_.data_align, nullptr, nullptr});
                continue;
            case 3:
                if (low < register_count) row_.rules[low] = initial_.rules[low];
                continue;
            default: break;
            }
            if (!run_extended(byte, code, location)) return false;
        }
        return !code.bad;
    }

    bool run_extended(uint8_t code, Cursor& in, uintptr_t* location) {
        uint64_t n;
        switch (code) {
        case 0x00: return true; // nop
        case 0x02: *location += in.fixed<uint8_t>() * cfi_.code_align; return true;
        case 0x03: *location += in.fixed<uint16_t>() * cfi_.code_align; return true;
        case 0x04: *location += in.fixed<uint32_t>() * cfi_.code_align; return true;
        case 0x05: // offset_extended
            n = in.uleb();
            return set_rule(n, {Rule::at_offset, int64_t(in.uleb()) * cfi_.data_align, nullptr, nullptr});
        case 0x06: // restore_extended
            n = in.uleb();
            return n >= register_count || set_rule(n, initial_.rules[n]);
        case 0x07: return set_rule(in.uleb(), {Rule::undefined, 0, nullptr, nullptr});
        case 0x08: return set_rule(in.uleb(), {Rule::same, 0, nullptr, nullptr});
        case 0x09: // register
            n = in.uleb();
            return set_rule(n, {Rule::in_register, int64_t(in.uleb()), nullptr, nullptr});
        case 0x0a: // remember_state
            if (depth_ == remember_most) return false;
            remembered_[depth_++] = row_;
            return true;
        case 0x0b: // restore_state
            if (!depth_) return false;
            row_ = remembered_[--depth_];
            return true;
        case 0x0c: // def_cfa
            n = in.uleb();
            return set_cfa(n, int64_t(in.uleb()));
        case 0x0d: return set_cfa(in.uleb(), row_.cfa_offset);
        case 0x0e: return set_cfa(row_.cfa_register, int64_t(in.uleb()));
        case 0x0f: { // def_cfa_expression
            Cursor block = in.block();
            row_.cfa_expression = block.at;
            row_.cfa_expression_end = block.end;
            return true;
        }
        case 0x10:
        case 0x16: { // expression, val_expression
            n = in.uleb();
            Cursor block = in.block();
            return set_rule(n, {code == 0x10 ? Rule::at_expression : Rule::is_expression, 0, block.at, block.end});
        }
        case 0x11: // offset_extended_sf
            n = in.uleb();
            return set_rule(n, {Rule::at_offset, in.sleb() * cfi_.data_align, nullptr, nullptr});
        case 0x12: // def_cfa_sf
            n = in.uleb();
            return set_cfa(n, in.sleb() * cfi_.data_align);
        case 0x13: return set_cfa(row_.cfa_register, in.sleb() * cfi_.data_align);
        case 0x14: // val_offset
            n = in.uleb();
            return set_rule(n, {Rule::is_offset, int64_t(in.uleb()) * cfi_.data_align, nullptr, nullptr});
        case 0x15: // val_offset_sf
            n = in.uleb();
            return set_rule(n, {Rule::is_offset, in.sleb() * cfi_.data_align, nullptr, nullptr});
        case 0x2d: return true; // AArch64: return addresses are signed from here on; plain_address() looks anyway
        case 0x2e: in.uleb(); return true; // GNU_args_size
        default: return false;
        }
    }

    bool set_cfa(uint64_t n, int64_t offset) {
        row_.cfa_register = n;
        row_.cfa_offset = offset;
        row_.cfa_expression = nullptr;
        return true;
    }

    bool find_cfa(uintptr_t* out) {
        uint64_t value;
        if (given_cfa_) {
            *out = given_cfa_;
            given_cfa_ = 0;
            return true;
        }
        if (row_.cfa_expression) {
            if (!evaluate({row_.cfa_expression, row_.cfa_expression_end}, nullptr, &value)) return false;
        } else {
            if (!registers_.has(row_.cfa_register)) return false;
            value = registers_.value[row_.cfa_register] + uint64_t(row_.cfa_offset);
        }
        *out = value;
        return true;
    }

    bool find(const Rule& rule, uintptr_t cfa, uint64_t* out) {
        uint64_t address = cfa;
        switch (rule.kind) {
        case Rule::at_offset: return reader_.word(cfa + uint64_t(rule.number), out);
        case Rule::is_offset: *out = cfa + uint64_t(rule.number); return true;
        case Rule::in_register:
            if (!registers_.has(uint64_t(rule.number))) return false;
            *out = registers_.value[rule.number];
            return true;
        case Rule::at_expression:
            return evaluate({rule.expression, rule.expression_end}, &cfa, &address) && reader_.word(address, out);
        case Rule::is_expression: return evaluate({rule.expression, rule.expression_end}, &cfa, out);
        default: return false;
        }
    }

    // Computes a DWARF expression. first: null, or the value that is on its stack when it begins.
    bool evaluate(Cursor code, const uint64_t* first, uint64_t* out) {
        constexpr unsigned most = 32;
        uint64_t stack[most];
        unsigned n = 0;
        const uint8_t* begin = code.at;
        if (first) stack[n++] = *first;
        for (int steps = 0; code.left(); steps++) {
            uint8_t op = code.fixed<uint8_t>();
            unsigned operands = op == 0x12 || op == 0x06 || op == 0x13 || op == 0x1f || op == 0x20 || op == 0x23 ||
                                        op == 0x28 || op == 0x94
                                    ? 1
                                : op == 0x14 || op == 0x16 || (op >= 0x1a && op <= 0x2e) ? 2
                                                                                         : 0;
            if (steps == 1000 || n < operands || n == most) return false;
            uint64_t* top = stack + n - 1;
            uint64_t value = 0;
            if (op >= 0x30 && op <= 0x4f) { // lit0 to lit31
                stack[n++] = op - 0x30u;
                continue;
            }
            if ((op >= 0x70 && op <= 0x8f) || op == 0x92) { // breg0 to breg31, bregx
                uint64_t number = op == 0x92 ? code.uleb() : op - 0x70u;
                int64_t offset = code.sleb();
                if (!registers_.has(number)) return false;
                stack[n++] = registers_.value[number] + uint64_t(offset);
                continue;
            }
            switch (op) {
            case 0x06: // deref
                if (!reader_.word(*top, top)) return false;
                break;
            case 0x94: { // deref_size
                uint8_t bytes = code.fixed<uint8_t>();
                if (bytes > sizeof value || !reader_.read(*top, &value, bytes)) return false;
                *top = value;
                break;
            }
            case 0x03: stack[n++] = code.fixed<uint64_t>(); break; // addr
            case 0x08: stack[n++] = code.fixed<uint8_t>(); break;
            case 0x09: stack[n++] = uint64_t(code.fixed<int8_t>()); break;
            case 0x0a: stack[n++] = code.fixed<uint16_t>(); break;
            case 0x0b: stack[n++] = uint64_t(code.fixed<int16_t>()); break;
            case 0x0c: stack[n++] = code.fixed<uint32_t>(); break;
            case 0x0d: stack[n++] = uint64_t(code.fixed<int32_t>()); break;
            case 0x0e:
            case 0x0f: stack[n++] = code.fixed<uint64_t>(); break;
            case 0x10: stack[n++] = code.uleb(); break;
            case 0x11: stack[n++] = uint64_t(code.sleb()); break;
            case 0x12: stack[n++] = *top; break;    // dup
            case 0x13: n--; break;                  // drop
            case 0x14: stack[n++] = top[-1]; break; // over
            case 0x16:                              // swap
                value = *top;
                *top = top[-1];
                top[-1] = value;
                break;
            case 0x1f: *top = -*top; break;
            case 0x20: *top = ~*top; break;
            case 0x23: *top += code.uleb(); break; // plus_uconst
            case 0x28:                             // bra
            case 0x2f: {                           // skip
                int16_t distance = code.fixed<int16_t>();
                bool jumps = op == 0x2f || *top;
                if (op == 0x28) n--;
                if (!jumps) break;
                if (distance < begin - code.at || distance > code.end - code.at) return false;
                code.at += distance;
                break;
            }
            case 0x96: break; // nop
            default:
                if (operands != 2 || !binary(op, top[-1], *top, &value)) return false;
                top[-1] = value;
                n--;
            }
        }
        if (code.bad || !n) return false;
        *out = stack[n - 1];
        return true;
    }

    static bool binary(uint8_t op, uint64_t a, uint64_t b, uint64_t* out) {
        int64_t sa = int64_t(a);
        int64_t sb = int64_t(b);
        switch (op) {
        case 0x1a: *out = a & b; return true;
        case 0x1c: *out = a - b; return true;
        case 0x1e: *out = a * b; return true;
        case 0x21: *out = a | b; return true;
        case 0x22: *out = a + b; return true;
        case 0x24: *out = b < 64 ? a << b : 0; return true;
        case 0x25: *out = b < 64 ? a >> b : 0; return true;
        case 0x26: *out = uint64_t(sa >> (b < 64 ? b : 63)); return true;
        case 0x27: *out = a ^ b; return true;
        case 0x29: *out = a == b; return true;
        case 0x2a: *out = sa >= sb; return true;
        case 0x2b: *out = sa > sb; return true;
        case 0x2c: *out = sa <= sb; return true;
        case 0x2d: *out = sa < sb; return true;
        case 0x2e: *out = a != b; return true;
        default: return false;
        }
    }

    static constexpr unsigned remember_most = 4;

    Reader reader_;
    Registers registers_;
    uint64_t pc_;
    bool ok_;
    bool exact_; // pc_ is the next instruction itself, not a return address
    int same_frame_;
    uintptr_t given_cfa_; // of the first frame; 0: its registers tell it
    Cfi cfi_;
    Row row_, initial_;
    Row remembered_[remember_most];
    unsigned depth_;
};

alignas(Unwinder) unsigned char unwinder_memory[sizeof(Unwinder)]; // under the lock of looks

} // namespace

namespace {

void follow(Unwinder& unwinder, Backtrace& out) {
    out.count = 0;
    out.complete = false;
    out.function = 0;
    if (!unwinder.ok()) return;
    uintptr_t inner = 0; // the function of the frame before
    while (out.count < out.most) {
        if (out.frames) out.frames[out.count] = reinterpret_cast<void*>(unwinder.pc());
        out.count++;
        Unwinder::Result result = unwinder.step();
        uintptr_t function = unwinder.function();
        if (function == reinterpret_cast<uintptr_t>(&fiberrt_entry)) out.function = inner;
        if (!hooks::calls_fiber_function(function)) inner = function;
        if (result == Unwinder::Result::caller) continue;
        out.complete = result == Unwinder::Result::outermost;
        return;
    }
    out.complete = true;
}

Unwinder& the_unwinder() { return *reinterpret_cast<Unwinder*>(unwinder_memory); }

} // namespace

void unwind(const char* sp, const char* top, Backtrace& out) {
    the_unwinder().begin(sp, top);
    follow(the_unwinder(), out);
}

void unwind_from(const void* pc, const char* cfa, const char* top, Backtrace& out) {
    the_unwinder().begin_in(pc, cfa, top);
    follow(the_unwinder(), out);
}

} // namespace fiberrt
