// SPDX-License-Identifier: MIT OR Apache-2.0
// Keeps libFuzzer from making a thread for its memory limit: with a second thread the library would not report the
// deadlocks of the only thread, which the targets `switch` and `waiting` look for.
#include <vector>

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
    static std::vector<char*> arguments(*argv, *argv + *argc);
    static char no_thread[] = "-rss_limit_mb=0";
    arguments.push_back(no_thread);
    arguments.push_back(nullptr);
    *argc += 1;
    *argv = arguments.data();
    return 0;
}
