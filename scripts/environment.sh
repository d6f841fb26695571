# Sourced by the other scripts. make_environment FOLDER REQUIREMENT… : a virtual environment with this project in it.
# Needs only python3, which must be 3.10 or later, and pip, or uv, which is faster; PYTHON=… names another Python.
# add_requirements FOLDER REQUIREMENT…: more in such an environment.
# skip REASON ends a part of scripts/test.sh that cannot run here.

make_environment() {
    local folder=$1 python=${PYTHON:-python3} stamp
    shift
    if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
        echo "error: $python is not Python 3.10 or later: install it, or name another one with PYTHON=…" >&2
        return 2
    fi
    # Was the same list of requirements installed here before?
    stamp="$("$python" -V) $* ${HF_SGPE_PURE:-} $(cat "$root/pyproject.toml" "$root"/hf_sgpe/csrc/{*.*,bindings/*} | cksum)"
    if [ -x "$folder/bin/python" ] && [ "$(cat "$folder/installed" 2>/dev/null)" = "$stamp" ]; then
        return
    fi
    echo "Setting up $folder (only once; this takes a minute or two)" >&2
    if command -v uv >/dev/null; then
        uv venv --quiet --clear --seed --python "$python" "$folder"
    elif ! "$python" -m venv --clear "$folder" >/dev/null 2>&1; then
        # Some systems ship Python without ensurepip. virtualenv brings its own pip.
        "$python" -m pip install --quiet --target "$folder-virtualenv" virtualenv
        PYTHONPATH="$folder-virtualenv" "$python" -m virtualenv --quiet --clear "$folder"
        rm -rf "$folder-virtualenv"
    fi
    install_into "$folder" "$@"
    echo "$stamp" >"$folder/installed"
}

install_into() { # FOLDER REQUIREMENT…
    if command -v uv >/dev/null; then
        uv pip install --quiet --python "$1/bin/python" "${@:2}"
    else
        # Python compiles what is imported, which is a small part of all that is installed.
        "$1/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check "${@:2}"
    fi
}

add_requirements() { # FOLDER REQUIREMENT…
    local folder=$1 stamp
    shift
    stamp="$(cat "$folder/installed") $*"
    if [ "$(cat "$folder/added" 2>/dev/null)" = "$stamp" ]; then
        return
    fi
    echo "Adding to $folder (only once; this takes half a minute)" >&2
    install_into "$folder" "$@"
    echo "$stamp" >"$folder/added"
}

skip() {
    echo "$1" >&2
    [ -z "${reports:-}" ] || echo "$1" >"$reports/$part.skipped"
    exit 77
}
