#!/usr/bin/env bash
# Sets up an environment and runs all checks: bash scripts/test.sh [pytest arguments]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/scripts/environment.sh"
make_environment "$root/.venv-test" -e "$root[test]"
cd "$root"
export PATH="$root/.venv-test/bin:$PATH"
ruff check .
ruff format --check .
mypy
exec python -m pytest "$@"
