// SPDX-License-Identifier: MIT OR Apache-2.0
// Finds and opens the entries of .eh_frame.
#include "debug/cfi.h"

#include "debug/stack_reader.h"

// libgcc's and LLVM's unwinders have this function, but no header declares it.
extern "C" {
struct dwarf_eh_bases {
    void* tbase;
    void* dbase;
    void* func; // where the function begins
};
const void* find_fde(void* pc, dwarf_eh_bases* bases) asm("_Unwind_Find_FDE");
}

namespace fiberrt {

namespace {

// The contents of an entry: of a CIE or of an FDE. False: it is the terminator, or of an unknown form.
bool open_entry(const uint8_t* entry, Cursor* out) {
    uint32_t length;
    memcpy(&length, entry, sizeof length);
    if (length == 0 || length == UINT32_MAX) return false; // entries above 4 GiB: no
    *out = {entry + 4, entry + 4 + length};
    return true;
}

} // namespace

bool find_cfi(uintptr_t pc, Cfi* out) {
    dwarf_eh_bases bases = {};
    const auto* fde = static_cast<const uint8_t*>(find_fde(reinterpret_cast<void*>(pc), &bases));
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

} // namespace fiberrt
