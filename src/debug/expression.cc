// SPDX-License-Identifier: MIT OR Apache-2.0
#include "debug/expression.h"

namespace fiberrt {

namespace {

bool binary(uint8_t op, uint64_t a, uint64_t b, uint64_t* out) {
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

} // namespace

bool evaluate(Cursor code, const Registers& registers, Reader& reader, const uint64_t* first, uint64_t* out) {
    constexpr unsigned most = 32;
    uint64_t stack[most];
    unsigned n = 0;
    const uint8_t* begin = code.at;
    if (first) stack[n++] = *first;
    for (int steps = 0; code.left(); steps++) {
        uint8_t op = code.fixed<uint8_t>();
        unsigned operands =
            op == 0x12 || op == 0x06 || op == 0x13 || op == 0x1f || op == 0x20 || op == 0x23 || op == 0x28 || op == 0x94
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
            if (!registers.has(number)) return false;
            stack[n++] = registers.value[number] + uint64_t(offset);
            continue;
        }
        switch (op) {
        case 0x06: // deref
            if (!reader.word(*top, top)) return false;
            break;
        case 0x94: { // deref_size
            uint8_t bytes = code.fixed<uint8_t>();
            if (bytes > sizeof value || !reader.read(*top, &value, bytes)) return false;
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

} // namespace fiberrt
