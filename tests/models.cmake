# SPDX-License-Identifier: MIT OR Apache-2.0
# Models of the protocols between threads, checked exhaustively by Spin. The script says what is missing if anything is.
add_test(NAME model.inbox
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/models/run.sh ${CMAKE_CURRENT_BINARY_DIR}/models/inbox)
set_tests_properties(model.inbox PROPERTIES LABELS all TIMEOUT 600)
