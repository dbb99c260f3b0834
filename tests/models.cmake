# SPDX-License-Identifier: MIT OR Apache-2.0
# Models of the protocols between threads, checked exhaustively by Spin. The script says what is missing if anything is.
foreach(model inbox pool)
    add_test(NAME model.${model} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/models/run.sh
        ${model} ${CMAKE_CURRENT_BINARY_DIR}/models/${model})
    set_tests_properties(model.${model} PROPERTIES LABELS all TIMEOUT 900)
endforeach()
add_test(NAME model.pool_soak COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/models/run.sh
    pool-soak ${CMAKE_CURRENT_BINARY_DIR}/models/pool_soak)
set_tests_properties(model.pool_soak PROPERTIES LABELS soak TIMEOUT 7200)
