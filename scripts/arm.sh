#!/usr/bin/env bash
# Builds the kernels' forms for 64-bit ARM, and compares them in an emulated processor with the portable ones: bash scripts/arm.sh [texts]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$root/.venv-arm
source "$root/scripts/environment.sh"
make_environment "$folder" ziglang unicorn
program=$(mktemp)
trap 'rm -f "$program"' EXIT
"$folder/bin/python" -m ziglang c++ -target aarch64-linux-musl -static -O2 -std=c++20 -Wall -Wextra -Werror -fno-strict-aliasing \
    -I"$root/hf_sgpe/csrc" "$root/tests/native/forms.cpp" -o "$program"
"$folder/bin/python" "$root/scripts/emulate_arm.py" "$program" "${1:-1000}" 1
