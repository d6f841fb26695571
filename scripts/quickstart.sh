#!/usr/bin/env bash
# Sets up an environment in .venv, which takes a minute, and runs the main job: trains a tokenizer, shows its tokens, and loads
# it with plain AutoTokenizer.
#
#     bash scripts/quickstart.sh                        on the sample of the package
#     bash scripts/quickstart.sh --corpus my-text.txt   on text of your own
#
# Afterwards `.venv/bin/python scripts/quickstart.py --help` lists all options.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/scripts/environment.sh"
show_help "${BASH_SOURCE[0]}" "$@"
make_environment "$root/.venv" -e "$root[corpora,transformers]"
exec "$root/.venv/bin/python" "$root/scripts/quickstart.py" "$@"
