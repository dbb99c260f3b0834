// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs the tests of adopted calls, by a program that has adopted itself.
#include "posix/calls.h"

int main(int count, char **arguments) {
    testing::InitGoogleTest(&count, arguments);
    testing::AddGlobalTestEnvironment(new calls::Adopted);
    return RUN_ALL_TESTS();
}
