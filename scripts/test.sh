#!/usr/bin/env bash
# Sets up an environment and runs all checks, with the native kernels and without: bash scripts/test.sh [pytest arguments]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/scripts/environment.sh"
make_environment "$root/.venv-test" -c "$root/scripts/constraints.txt" -e "$root[test]"
cd "$root"
export PATH="$root/.venv-test/bin:$PATH"
ruff check .
ruff format --check .
mypy
if command -v "${CXX:-c++}" >/dev/null; then
    HF_SGPE_KERNEL=native python -m pytest "$@"
    bash "$root/scripts/sanitize.sh" --inputs 20000
else
    echo "no C++ compiler (${CXX:-c++}): the native kernels are not tested" >&2
fi
HF_SGPE_KERNEL=python python -m pytest -m "not slow" "$@"
