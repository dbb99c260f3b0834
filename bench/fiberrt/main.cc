// SPDX-License-Identifier: MIT OR Apache-2.0
// Our subject. It uses the public header and the shared library, as a program does. Each kind of benchmark has a file.
#include "subject.h"

int main(int argc, char **argv) {
    subject::add_switches();
    subject::add_primitives();
    subject::add_tasks();
    subject::add_hosted();
    subject::add_hooks();
    subject::add_cords();
    subject::add_simulation();
    subject::add_posix();
    subject::add_observe();
    return bench::run_main(argc, argv);
}
