// SPDX-License-Identifier: MIT OR Apache-2.0
#include "trace/function_name.h"

#include "base/report.h"

#include <dlfcn.h>
#include <string.h>

namespace fiberrt::trace {

void function_name(uintptr_t function, char* out, size_t size) {
    Report text(-1);
    Dl_info info;
    if (!dladdr(reinterpret_cast<void*>(function), &info)) {
        text.put("a function"); // an address would differ from run to run
    } else if (info.dli_sname && reinterpret_cast<uintptr_t>(info.dli_saddr) == function) {
        text.put(info.dli_sname);
    } else {
        const char* file = strrchr(info.dli_fname, '/');
        text.put(file ? file + 1 : info.dli_fname);
        text.put("+0x");
        text.number(function - reinterpret_cast<uintptr_t>(info.dli_fbase), 16);
    }
    text.take(out, size);
}

} // namespace fiberrt::trace
