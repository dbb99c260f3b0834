# SPDX-License-Identifier: MIT OR Apache-2.0
# The vcpkg port of libfiberrt: a folder for vcpkg's --overlay-ports. It builds the checkout that it lies in. The CMake
# package is that of the shared library, because a process may contain the library only once.
vcpkg_check_linkage(ONLY_DYNAMIC_LIBRARY)
set(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../..")
vcpkg_check_features(OUT_FEATURE_OPTIONS features FEATURES ev FIBERRT_WITH_EV uring FIBERRT_WITH_URING)
vcpkg_cmake_configure(
    SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS ${features} -DFIBERRT_TESTS=OFF -DFIBERRT_TOOLS=OFF -DFIBERRT_EXAMPLES=OFF -DFIBERRT_MANUAL=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/fiberrt)
vcpkg_fixup_pkgconfig()
file(REMOVE "${CURRENT_PACKAGES_DIR}/lib/libfiberrt.a" "${CURRENT_PACKAGES_DIR}/debug/lib/libfiberrt.a")
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSES/MIT.txt" "${SOURCE_PATH}/LICENSES/Apache-2.0.txt")
