# Sourced by the other scripts. make_environment FOLDER REQUIREMENT… : a virtual environment with this project in it.
# Needs python3 (3.10 or later; another one by PYTHON=…) and pip, nothing else.

make_environment() {
    local folder=$1 python=${PYTHON:-python3} stamp
    shift
    if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
        echo "error: $python is not Python 3.10 or later: install one, or name it by PYTHON=…" >&2
        return 2
    fi
    # Installed already, from this very list of requirements?
    stamp="$("$python" -V) $* ${HF_SGPE_PURE:-} $(cat "$root/pyproject.toml" "$root"/hf_sgpe/csrc/{*.*,bindings/*} | cksum)"
    if [ -x "$folder/bin/python" ] && [ "$(cat "$folder/installed" 2>/dev/null)" = "$stamp" ]; then
        return
    fi
    echo "Setting up $folder (once; it takes a minute or two)" >&2
    if ! "$python" -m venv --clear "$folder" >/dev/null 2>&1; then
        # Some systems ship Python without ensurepip. virtualenv brings its own pip.
        "$python" -m pip install --quiet --target "$folder-virtualenv" virtualenv
        PYTHONPATH="$folder-virtualenv" "$python" -m virtualenv --quiet --clear "$folder"
        rm -rf "$folder-virtualenv"
    fi
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
    echo "$stamp" >"$folder/installed"
}
