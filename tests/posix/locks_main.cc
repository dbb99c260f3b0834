// SPDX-License-Identifier: MIT OR Apache-2.0
// Adopts the whole test program, so that its calls are the library's, and runs the tests.
#include "locks.h"

int main(int argc, char **argv) {
    testing::InitGoogleTest(&argc, argv);
    int functions = fiber_posix_adopt(nullptr, 0);
    if (functions <= 0) {
        std::fprintf(stderr, "fiber_posix_adopt: %d\n", functions);
        return 1;
    }
    return RUN_ALL_TESTS();
}
