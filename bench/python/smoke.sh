#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The benchmarks of the Python package, as briefly as they can, in the environment and with the load that are built
# already: whether each gives its figures. None is judged.
set -eu
cd -- "$(dirname -- "$0")/../.."
names='python-yield python-spawn python-memory python-echo'
# shellcheck disable=SC2086
{
    python3 bench/run.py --build-dir build/release --python build/python/venv/bin/python --subjects fiberrt \
        --repetitions 5 --min-time 0.001 --json build/python/bench.json --svg-dir build/python $names \
        >build/python/bench.log 2>&1 &&
        python3 bench/check_json.py build/python/bench.json $names --subjects fiberrt --svg-dir build/python \
            >>build/python/bench.log 2>&1
} || {
    cat build/python/bench.log
    echo "smoke.sh: a benchmark of the Python package gave no figure" >&2
    exit 1
}
