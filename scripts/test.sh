#!/usr/bin/env bash
# Sets up an environment and runs all checks, with the native kernels and without: bash scripts/test.sh [pytest arguments]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/scripts/environment.sh"
make_environment "$root/.venv-test" -c "$root/scripts/constraints.txt" -e "$root[test]"
bash "$root/scripts/ecosystems.sh"
cd "$root"
export PATH="$root/.venv-test/bin:$PATH"
ruff check .
ruff format --check .
mypy
# A file's tests stay together, for what they share.
run_tests="python -m pytest -n 2 --dist loadfile --no-loadscope-reorder"
ignored=()
if command -v "${CXX:-c++}" >/dev/null; then
    HF_SGPE_KERNEL=native $run_tests "$@"
    bash "$root/scripts/sanitize.sh" --inputs 20000
    bash "$root/scripts/arm.sh"
    bash "$root/scripts/engines.sh"
    export PATH="$root/.venv-engines/bin:$PATH"
    HF_SGPE_ENGINES=all $run_tests tests/engines tests/hub_cards/test_runtimes.py "$@"
    # Together with the oldest transformers that is supported. What stands above both has been tested.
    for path in ecosystems engines hf_sgpe/serving hub_cards trainers/test_hub_datasets.py; do
        ignored+=("--ignore=tests/$path")
    done
else
    echo "no C++ compiler (${CXX:-c++}): the native kernels and the engines are not tested" >&2
fi
HF_SGPE_KERNEL=python $run_tests -m "not slow" ${ignored[@]+"${ignored[@]}"} "$@"
