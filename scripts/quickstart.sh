#!/usr/bin/env bash
# Sets up an environment and trains a tokenizer: bash scripts/quickstart.sh [--corpus FILE…] [--help]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/scripts/environment.sh"
make_environment "$root/.venv" -e "$root[corpora,transformers]"
exec "$root/.venv/bin/python" "$root/scripts/quickstart.py" "$@"
