// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs a target over files, without libFuzzer: the committed corpora as tests of every build, by any compiler; one file
// to look at a crash in a debugger. Arguments: files, and folders of files.
#include "check.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

static void add(std::vector<std::string>& files, const char* argument) {
    if (!std::filesystem::is_directory(argument)) {
        files.push_back(argument);
        return;
    }
    for (const auto& entry : std::filesystem::directory_iterator(argument)) files.push_back(entry.path().string());
}

int main(int argc, char** argv) {
    std::vector<std::string> files;
    for (int i = 1; i < argc; i++) add(files, argv[i]);
    std::sort(files.begin(), files.end()); // the order decides which input meets another's leftovers
    for (const std::string& name : files) {
        std::ifstream file(name, std::ios::binary);
        std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
        if (!file) {
            fprintf(stderr, "%s cannot be read\n", name.c_str());
            return 1;
        }
        // The last line printed before a crash names the file.
        if (argc == 2 && files.size() > 1) fprintf(stderr, "%s\n", name.c_str());
        LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    }
    if (files.empty()) {
        fprintf(stderr, "no inputs\n");
        return 1;
    }
    printf("%zu inputs\n", files.size());
    return 0;
}
