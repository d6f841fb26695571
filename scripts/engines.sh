#!/usr/bin/env bash
# Sets up .venv-engines with all four engines and the oldest supported version of transformers: bash scripts/engines.sh
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/scripts/environment.sh"
constraints=$root/scripts/constraints-engines.txt
# llama.cpp has no wheels: compile it once, without parts that the tests do not need and without CPU-specific code.
options="-DLLAVA_BUILD=OFF -DLLAMA_OPENSSL=OFF -DGGML_NATIVE=OFF -DGGML_LLAMAFILE=OFF -DGGML_CPU_REPACK=OFF"
options=${CMAKE_ARGS:-$options -DCMAKE_C_FLAGS_RELEASE=-O1 -DCMAKE_CXX_FLAGS_RELEASE=-O1}
llama=$(grep "^llama-cpp-python==" "$constraints")
key=$(echo "$llama $options $(uname -sm) $("${PYTHON:-python3}" -V)" | cksum | tr " " -)
wheels=${XDG_CACHE_HOME:-$HOME/.cache}/hf_sgpe/wheels/$key
if [ ! -d "$wheels" ]; then
    mkdir -p "$(dirname "$wheels")"
    unfinished=$(mktemp -d "$wheels.XXXXXX")
    trap 'rm -rf "$unfinished"' EXIT
    make_environment "$unfinished/environment" pip
    echo "Compiling $llama (only once; this takes minutes)" >&2
    # The installation also copies llama-common.
    CMAKE_ARGS=$options SKBUILD_BUILD_TARGETS="llama;llama-common" \
        "$unfinished/environment/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps \
        --wheel-dir "$unfinished/wheels" "$llama"
    mv "$unfinished/wheels" "$wheels"
fi
make_environment "$root/.venv-engines" -c "$constraints" --find-links "$wheels" -e "$root[engines,test-all]" openvino-tokenizers
# optimum-intel needs torchvision only for images, and its builds conflict with the CPU build of PyTorch.
"$root/.venv-engines/bin/python" -m pip uninstall --quiet --yes --disable-pip-version-check torchvision 2>/dev/null || true
