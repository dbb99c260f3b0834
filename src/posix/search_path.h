// SPDX-License-Identifier: MIT OR Apache-2.0
// Finds the file that the dynamic linker would load for a library. The dynamic linker searches by the DT_RPATH,
// DT_RUNPATH and $ORIGIN of the object that calls dlopen, and finds that object by the return address. For a call
// through libfiberrt, it would take libfiberrt for the caller.
#pragma once

namespace fiberrt::posix {

class SearchPath {
public:
    // caller: an address in the caller's code.
    SearchPath(const char* file, const void* caller);
    ~SearchPath();
    SearchPath(const SearchPath&) = delete;
    SearchPath& operator=(const SearchPath&) = delete;

    // The argument for dlopen: a path if the file is found by the caller's own search path, else the file as given.
    const char* file() const { return found_ ? found_ : file_; }
    // Whether a loaded library calls itself by this name: then the dynamic linker does not search.
    bool is_loaded() const { return loaded_; }

private:
    const char* file_;
    char* found_ = nullptr;
    bool loaded_ = false;
};

} // namespace fiberrt::posix
