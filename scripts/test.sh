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
run_tests="python -m pytest -n 2 --dist loadfile"
ignored=()
if command -v "${CXX:-c++}" >/dev/null; then
    HF_SGPE_KERNEL=native $run_tests "$@"
    bash "$root/scripts/sanitize.sh" --inputs 20000
    # All engines, and what stands on transformers, with the oldest of it that is supported. It writes conversations of
    # unusual shapes differently, which are refused there then: tests/hf_sgpe/chat is for the newest.
    bash "$root/scripts/engines.sh"
    HF_SGPE_ENGINES=all "$root/.venv-engines/bin/python" -m pytest -n 2 --dist loadfile "$@" \
        tests/engines tests/hf_sgpe/{generation,test_{batch,fast_lane,tokenization_sgpe}.py}
    # What stands above the kernels does not see which are there.
    for path in ecosystems engines hub_cards test_training_scripts.py hf_sgpe/{chat,generation,test_hub.py} trainers/test_{hub_datasets,language_model}.py; do
        ignored+=("--ignore=tests/$path")
    done
else
    echo "no C++ compiler (${CXX:-c++}): the native kernels and the engines are not tested" >&2
fi
HF_SGPE_KERNEL=python $run_tests -m "not slow" "${ignored[@]}" "$@"
