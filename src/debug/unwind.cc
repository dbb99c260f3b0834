// SPDX-License-Identifier: MIT OR Apache-2.0
// Goes from frame to frame, by the instructions of call frame information.
#include "debug/unwind.h"

#include "core/hooks.h"
#include "debug/cfi.h"
#include "debug/expression.h"
#include "debug/stack_reader.h"

#include <string.h>

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
constexpr unsigned sp_register = 7;
uintptr_t plain_address(uintptr_t address) { return address; }
#elif defined __aarch64__
constexpr SavedRegister saved_registers[] = {{29, 0},  {19, 16}, {20, 24}, {21, 32}, {22, 40}, {23, 48},
                                             {24, 56}, {25, 64}, {26, 72}, {27, 80}, {28, 88}};
constexpr unsigned saved_pc = 8;
constexpr unsigned frame_size = 176;
constexpr unsigned sp_register = 31;
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
constexpr unsigned sp_register = 2;
uintptr_t plain_address(uintptr_t address) { return address; }
#endif

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
        registers_.set(sp_register, frame + frame_size);
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
        registers_.set(sp_register, given_cfa_ - sizeof(void*));
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
        if (!has_return_address || !registers_.has(sp_register) || cfa < registers_.value[sp_register] ||
            (cfa == registers_.value[sp_register] && ++same_frame_ > 1))
            return Result::lost;
        if (cfa > registers_.value[sp_register]) same_frame_ = 0;
        if (row_.rules[sp_register].kind == Rule::same) caller.set(sp_register, cfa);
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
            if (!evaluate({row_.cfa_expression, row_.cfa_expression_end}, registers_, reader_, nullptr, &value))
                return false;
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
            return evaluate({rule.expression, rule.expression_end}, registers_, reader_, &cfa, &address) &&
                   reader_.word(address, out);
        case Rule::is_expression:
            return evaluate({rule.expression, rule.expression_end}, registers_, reader_, &cfa, out);
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

void follow(Unwinder& unwinder, Backtrace& out) {
    out.count = 0;
    out.complete = false;
    out.function = 0;
    if (!unwinder.ok()) return;
    uintptr_t inner = 0; // the function of the frame before
    bool begun = !out.from;
    while (out.count < out.most) {
        begun = begun || unwinder.pc() == reinterpret_cast<uintptr_t>(out.from);
        if (begun && out.frames) out.frames[out.count] = reinterpret_cast<void*>(unwinder.pc());
        out.count += begun;
        Unwinder::Result result = unwinder.step();
        uintptr_t function = unwinder.function();
        if (hooks::is_first_frame(function)) out.function = inner;
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
