# Functions for the other scripts, which source this file:
# make_environment FOLDER REQUIREMENT…: create a virtual environment with these requirements, unless it is up to date. Needs
#     python3 (3.10 or later; PYTHON=… names another one) and pip, or uv, which is faster.
# add_requirements FOLDER REQUIREMENT…: install more into such an environment.
# show_help FILE ARGUMENT…: print the comment at the top of a script, and end it, if an argument asks for help.
# skip REASON: end a part of scripts/test.sh that cannot run here.

make_environment() {
    local folder=$1 python=${PYTHON:-python3} stamp
    shift
    if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
        echo "error: $python is not Python 3.10 or later: install one, or name one with PYTHON=…" >&2
        return 2
    fi
    # Skip if the same requirements were installed from the same sources.
    stamp="$("$python" -V) $* ${HF_SGPE_PURE:-} $(cat "$root/pyproject.toml" "$root"/hf_sgpe/csrc/{*.*,bindings/*} | cksum)"
    if [ -x "$folder/bin/python" ] && [ "$(cat "$folder/installed" 2>/dev/null)" = "$stamp" ]; then
        return
    fi
    echo "Setting up $folder (only once; this takes a minute or two)" >&2
    if command -v uv >/dev/null; then
        uv venv --quiet --clear --seed --python "$python" "$folder"
    elif ! "$python" -m venv --clear "$folder" >/dev/null 2>&1; then
        # Some systems ship Python without ensurepip; virtualenv includes pip.
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
        # --no-compile: Python compiles modules on import, and few are imported.
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

show_help() { # FILE ARGUMENT…
    case " ${*:2} " in
    *" -h "* | *" --help "*)
        sed -n '/^#!/d; /^#/!q; s/^# \{0,1\}//p' "$1"
        exit
        ;;
    esac
}
