#!/usr/bin/env bash
# Sets up an environment and teaches a pretrained model a language: bash scripts/quickstart_extend.sh [--corpus FILE…] [--help]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/scripts/environment.sh"
make_environment "$root/.venv-model" -c "$root/scripts/constraints.txt" -e "$root[corpora,gguf,train]"
exec "$root/.venv-model/bin/python" "$root/scripts/quickstart_extend.py" "$@"
