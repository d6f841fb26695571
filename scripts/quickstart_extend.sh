#!/usr/bin/env bash
# Sets up an environment in .venv-model, which takes some minutes, and gives a pretrained model a language.
#
#     bash scripts/quickstart_extend.sh                        Sinhala, on the sample of the package
#     bash scripts/quickstart_extend.sh --corpus my-text.txt   on text of your own
#
# Afterwards `.venv-model/bin/python scripts/quickstart_extend.py --help` lists all options.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/scripts/environment.sh"
show_help "${BASH_SOURCE[0]}" "$@"
make_environment "$root/.venv-model" -c "$root/scripts/constraints.txt" -e "$root[corpora,gguf,train]"
exec "$root/.venv-model/bin/python" "$root/scripts/quickstart_extend.py" "$@"
