#!/usr/bin/env bash
# Checks this project in environments that the script sets up.
#
#     bash scripts/test.sh                      linter, types and quick tests: the check before a commit
#     bash scripts/test.sh -k chat              the same, with arguments for pytest
#     bash scripts/test.sh --all                all parts
#     bash scripts/test.sh --only systems       one part (--only may be repeated)
#     bash scripts/test.sh --list               list the parts
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/scripts/environment.sh"
cd "$root"
# Only the part "data" reads the folder with large text, so that no other test can depend on it.
large_text=${HF_SGPE_DATA:-}
unset HF_SGPE_DATA
kernels_are_built=$(command -v "${CXX:-c++}" || true)

# Each part is a function that sets up its environment. It exits with 77 if it cannot run.

lint() { # the linter, the formatter, spelling and types
    test_environment
    ruff check .
    ruff check --preview --select PLW1514 . # text files name their encoding
    ruff format --check .
    codespell
    # The build of the native kernels writes their types.
    [ -z "$kernels_are_built" ] || mypy
}

quick() { # each public behaviour, and each kernel against its readable twin
    test_environment
    run_tests quick -m "not slow" "$@"
}

tests() { # the quick tests with more examples, and the slow ones
    test_environment test-all
    run_tests tests --hypothesis-profile ci --ignore=tests/ecosystems --ignore=tests/engines --ignore=tests/docs \
        --ignore=tests/packaging "$@"
}

readable() { # the tests of kernels, without the native ones
    [ -n "$kernels_are_built" ] || skip "no C++ compiler: all tests run with the readable kernels"
    test_environment test-all
    HF_SGPE_KERNEL=python run_tests readable -m "kernels and not slow" "$@"
}

docs() { # the code blocks of the documentation, its notebooks and its site
    test_environment test-all
    run_tests docs --hypothesis-profile ci tests/docs "$@"
}

ecosystems() { # saved tokenizers in transformers 4, tokenizers 1.0 and transformers.js; clients of the server
    test_environment test-all
    bash scripts/ecosystems.sh
    run_tests ecosystems "${by_file[@]}" --hypothesis-profile ci tests/ecosystems "$@"
}

engines() { # generation on all engines, and code that uses transformers with its oldest supported version
    [ -n "$kernels_are_built" ] || skip "no C++ compiler: llama.cpp is compiled"
    bash scripts/engines.sh
    export PATH="$root/.venv-engines/bin:$PATH"
    HF_SGPE_ENGINES=all run_tests engines "${by_file[@]}" --hypothesis-profile ci tests/engines/test_real_model.py \
        tests/engines/test_[!r]*.py tests/hf_sgpe/evaluation/test_runtimes.py "$@"
    run_tests oldest -m "not slow" $(grep -rlE "^ *(from|import) (transformers|support\.conversations)" tests/hf_sgpe tests/trainers tests/hub_cards) "$@"
}

data() { # the tests that read text, a second time, on the large text in the folder HF_SGPE_DATA
    [ -d "$large_text/corpora" ] || skip "HF_SGPE_DATA names no folder with corpora"
    test_environment test-all
    HF_SGPE_DATA=$(cd "$large_text" && pwd)
    export HF_SGPE_DATA
    run_tests data -m "data or not slow" \
        $(grep -rl "^from support.corpora" tests/hf_sgpe tests/trainers tests/hub_cards tests/benchmarks tests/docs) "$@"
    run_tests ecosystems -m text tests/ecosystems "$@"
    if [ -x "$root/.venv-engines/bin/python" ]; then # the part "engines" sets it up
        export PATH="$root/.venv-engines/bin:$PATH"
        HF_SGPE_ENGINES=all run_tests engines "${by_file[@]}" -m text tests/engines "$@"
    fi
}

packaging() { # wheels and source packages, installed in empty environments
    test_environment test-all
    run_tests packaging tests/packaging "$@"
}

fuzz() { # damaged requests, tokenizer folders, chat templates, schemas and word counts
    test_environment
    python tests/tools/fuzz_inputs.py --inputs 20000
}

sanitizers() { # the kernels with random input, under address and undefined-behaviour sanitizers
    [ -n "$kernels_are_built" ] || skip "no C++ compiler"
    bash scripts/sanitize.sh --inputs 20000
}

systems() { # the kernels for Windows and macOS, compiled, and their variants for 64-bit ARM and Windows in emulators
    bash scripts/systems.sh
}

# Keep the tests of a file in one process, because its models and helper processes start slowly; the slowest file is first.
by_file=(--dist loadfile --no-loadscope-reorder)
parts=(lint tests readable docs ecosystems engines data packaging fuzz sanitizers systems)

test_environment() { # [EXTRA]: the environment of the quick tests, with another extra if named
    make_environment "$root/.venv-test" -c "$root/scripts/constraints.txt" -e "$root[test]"
    [ -z "${1:-}" ] || add_requirements "$root/.venv-test" -c "$root/scripts/constraints.txt" "hf-sgpe[$1]"
    export PATH="$root/.venv-test/bin:$PATH"
    if [ -n "$kernels_are_built" ]; then
        export HF_SGPE_KERNEL=${HF_SGPE_KERNEL:-native}
    fi
}

run_tests() { # NAME [ARGUMENT…]: pytest, with a report for the table
    python -m pytest -q -n logical --dist worksteal --junitxml "$reports/$part.$1.xml" "${@:2}"
}

chosen=()
arguments=()
while [ $# -gt 0 ]; do
    case $1 in
    --all) chosen=("${parts[@]}") ;;
    --only)
        case " ${parts[*]} quick " in
        *" ${2:-} "*) chosen+=("$2") && shift ;;
        *) echo "error: --only ${2:-}: the parts are ${parts[*]}" >&2 && exit 2 ;;
        esac
        ;;
    --list)
        sed -n 's/^\([a-z]*\)() { # \(.*\)/\1: \2/p' "${BASH_SOURCE[0]}" | grep -v "^run_tests"
        exit
        ;;
    -h | --help) show_help "${BASH_SOURCE[0]}" --help ;;
    *) arguments+=("$1") ;;
    esac
    shift
done
[ ${#chosen[@]} -gt 0 ] || chosen=(lint quick)

export part reports="$root/build/reports"
rm -rf "$reports"
mkdir -p "$reports"
for part in "${chosen[@]}"; do
    echo "── $part"
    begun=$SECONDS status=0
    # Run all parts; the table shows the failures. set -e has no effect in a function that is part of a condition.
    set +e
    (set -e && "$part" ${arguments[@]+"${arguments[@]}"})
    status=$?
    set -e
    echo "$part $status $((SECONDS - begun))" >>"$reports/parts"
done
exec "${PYTHON:-python3}" tests/tools/report.py "$reports"
