#!/usr/bin/env bash
# Builds the native kernels with address and undefined-behaviour sanitizers and fuzzes them: bash scripts/sanitize.sh [--inputs N]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/scripts/environment.sh"
make_environment "$root/.venv-sanitize" -C cmake.define.HF_SGPE_SANITIZE=ON -e "$root"
# Python itself has no sanitizer, so preload the runtime. Do not report leaks: Python leaks memory by design.
runtime=$("${CXX:-c++}" -print-file-name=libasan.so)
LD_PRELOAD="$runtime $("${CXX:-c++}" -print-file-name=libstdc++.so)" \
    ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 HF_SGPE_KERNEL=native \
    exec "$root/.venv-sanitize/bin/python" "$root/tests/tools/fuzz_kernels.py" "$@"
