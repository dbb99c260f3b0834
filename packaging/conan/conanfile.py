# SPDX-License-Identifier: MIT OR Apache-2.0
"""The Conan package of libfiberrt. In a checkout:

    conan create packaging/conan --build=missing

liburing and libev are those of the system, because the package must call the kernel as the system's programs do.
"""

from pathlib import Path

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy

SOURCES = ("CMakeLists.txt", "CMakePresets.json", "include/*", "src/*", "cmake/*", "pkgconfig/*", "gdb/*", "tools/*",
           "LICENSES/*")  # fmt: skip


class Fiberrt(ConanFile):
    name = "fiberrt"
    version = "0.1.0"
    license = "MIT OR Apache-2.0"
    description = "A fiber runtime: functions on their own stacks that wait without blocking their thread"
    url = homepage = "https://example.org/fiberrt"
    topics = ("fibers", "coroutines", "io_uring")
    package_type = "shared-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"uring": [True, False], "ev": [True, False]}
    default_options = {"uring": True, "ev": True}

    def validate(self) -> None:
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration(f"libfiberrt is for Linux, not for {self.settings.os}")
        if self.settings.arch not in ("x86_64", "armv8", "riscv64"):
            raise ConanInvalidConfiguration(f"libfiberrt has no switch for {self.settings.arch}")
        if self.settings.get_safe("compiler.cppstd"):
            check_min_cppstd(self, 20)

    def export_sources(self) -> None:
        root = Path(self.recipe_folder).parents[1]
        for pattern in SOURCES:
            copy(self, pattern, root, self.export_sources_folder)

    def layout(self) -> None:
        cmake_layout(self)

    def generate(self) -> None:
        toolchain = CMakeToolchain(self)
        for option, value in (
            ("WITH_URING", self.options.uring), ("WITH_EV", self.options.ev), ("TESTS", False), ("EXAMPLES", False),
            ("TOOLS", False), ("MANUAL", False),
        ):  # fmt: skip
            toolchain.cache_variables[f"FIBERRT_{option}"] = "ON" if value else "OFF"
        toolchain.generate()

    def build(self) -> None:
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self) -> None:
        copy(self, "*", Path(self.source_folder) / "LICENSES", Path(self.package_folder) / "licenses")
        CMake(self).install()

    def package_info(self) -> None:
        self.cpp_info.set_property("cmake_find_mode", "none")  # the library's own CMake package is installed
        self.cpp_info.builddirs = ["lib/cmake/fiberrt"]
        self.cpp_info.libs = ["fiberrt"]
