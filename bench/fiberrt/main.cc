// SPDX-License-Identifier: MIT OR Apache-2.0
// Our subject, through its public header and the shared library, as a program uses it: a file for each kind of benchmark.
#include "subject.h"

int main(int argc, char **argv) {
    subject::add_switches();
    subject::add_primitives();
    subject::add_tasks();
    subject::add_hosted();
    subject::add_hooks();
    subject::add_cords();
    subject::add_simulation();
    return bench::run_main(argc, argv);
}
