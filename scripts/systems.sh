#!/usr/bin/env bash
# Compiles the kernels and their Python interface for Windows and macOS, and compares the vector variants of the kernels with the
# portable ones on 64-bit ARM (under QEMU on other machines) and on Windows (under Wine): bash scripts/systems.sh [texts]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/scripts/environment.sh"
make_environment "$root/.venv-systems" ziglang nanobind
python=$root/.venv-systems/bin/python
clang=("$python" -m ziglang c++)
flags=(-std=c++20 -Wall -Wextra -Wpedantic -Werror -fno-strict-aliasing -I"$root/hf_sgpe/csrc")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Of Python's headers, only pyconfig.h differs between systems.
cp -RL "$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')" "$folder/include"
cp "$root/tests/native/pyconfig.h" "$folder/include"
printf '#include "%s"\n' "$root"/hf_sgpe/csrc/*.h "$root"/hf_sgpe/csrc/bindings/*.cpp >"$folder/all.cpp"
targets=({x86_64,aarch64}-windows-gnu {x86_64,aarch64}-macos.11.0)
printf '%s\n' "${targets[@]}" | xargs -P 2 -I TARGET "${clang[@]}" -target TARGET "${flags[@]}" -O1 -g0 -isystem "$folder/include" \
    -isystem "$("$python" -m nanobind --include_dir)" -c "$folder/all.cpp" -o "$folder/TARGET.o"
echo "compiled for ${targets[*]}"

missing=()
compare() { # TARGET COMPILER PACKAGE EMULATOR [OTHER]: build with this compiler, or with Zig, and run in the emulator
    local compiler=("$2" -static) emulator
    command -v "$2" >/dev/null || compiler=("${clang[@]}" -target "$1")
    "${compiler[@]}" -O2 "${flags[@]}" "$root/tests/native/forms.cpp" -o "$folder/$1.exe"
    if ! emulator=$(command -v "$4" || command -v "${5:-$4}"); then
        missing+=("not run on $1: apt-get install $3")
        return
    fi
    "$emulator" "$folder/$1.exe" "$texts" 1 | tee "$folder/output"
    # The emulators run vector instructions.
    grep -q ^vectors "$folder/output"
}

texts=${1:-1000}
arm=(qemu-aarch64 qemu-aarch64-static)
[ "$(uname -sm)" != "Linux aarch64" ] || arm=(env)
compare aarch64-linux-musl aarch64-linux-gnu-g++ qemu-user "${arm[@]}"
export WINEPREFIX="$root/.venv-systems/wine" WINEDEBUG=-all
compare x86_64-windows-gnu x86_64-w64-mingw32-g++ wine wine wine64
[ ${#missing[@]} = 0 ] || skip "$(IFS=';' && echo "${missing[*]}")"
