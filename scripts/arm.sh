#!/usr/bin/env bash
# Builds the 64-bit ARM variants of the kernels and compares them with the portable ones, under QEMU on other machines:
# bash scripts/arm.sh [texts]. Exits with 77 if QEMU is missing.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/scripts/environment.sh"
emulator=()
case $(uname -m) in
    aarch64 | arm64) compiler=("${CXX:-c++}") ;;
    *)
        if ! emulator=("$(command -v qemu-aarch64 || command -v qemu-aarch64-static)"); then
            skip "no emulator for 64-bit ARM: apt-get install qemu-user"
        fi
        if command -v aarch64-linux-gnu-g++ >/dev/null; then
            compiler=(aarch64-linux-gnu-g++ -static)
        else
            make_environment "$root/.venv-arm" ziglang
            compiler=("$root/.venv-arm/bin/python" -m ziglang c++ -target aarch64-linux-musl -static)
        fi
        ;;
esac
program=$(mktemp)
trap 'rm -f "$program"' EXIT
"${compiler[@]}" -O2 -std=c++20 -Wall -Wextra -Werror -fno-strict-aliasing \
    -I"$root/hf_sgpe/csrc" "$root/tests/native/forms.cpp" -o "$program"
${emulator[@]+"${emulator[@]}"} "$program" "${1:-1000}" 1
