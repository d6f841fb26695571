#!/usr/bin/env bash
# Sets up .venv-engines, where all four engines and the oldest supported transformers live together: bash scripts/engines.sh
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/scripts/environment.sh"
# llama.cpp has no wheels and is compiled; without what the tests do not need it takes half the time.
export CMAKE_ARGS="${CMAKE_ARGS:--DLLAVA_BUILD=OFF -DLLAMA_OPENSSL=OFF -DGGML_LLAMAFILE=OFF -DGGML_CPU_REPACK=OFF -DCMAKE_CXX_FLAGS_RELEASE=-O1}"
make_environment "$root/.venv-engines" -c "$root/scripts/constraints-engines.txt" \
    -e "$root[engines,test]" openvino-tokenizers
# optimum-intel wants it for images only, and its builds do not go with PyTorch's build for CPUs.
"$root/.venv-engines/bin/python" -m pip uninstall --quiet --yes --disable-pip-version-check torchvision 2>/dev/null || true
