# SPDX-License-Identifier: MIT OR Apache-2.0
# Models of the protocols between threads, checked exhaustively by Spin. The script names any missing program. Only a
# change of a model can make Spin miss a planted bug: these, and larger bounds, are for the soak.
function(fiberrt_model bounds label timeout)
    add_test(NAME model.${bounds} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/models/run.sh
        ${bounds} ${CMAKE_CURRENT_BINARY_DIR}/models/${bounds})
    set_tests_properties(model.${bounds} PROPERTIES LABELS ${label} TIMEOUT ${timeout} SKIP_RETURN_CODE 77)
endfunction()
fiberrt_model(inbox-brief all 900)
fiberrt_model(pool-brief all 900)
fiberrt_model(inbox soak 900)
fiberrt_model(pool soak 900)
fiberrt_model(pool-soak soak 7200)
