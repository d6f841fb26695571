#!/usr/bin/env bash
# Sets up what tests/ecosystems need: transformers 4, tokenizers 1.0, lm_eval, clients of OpenAI's API, PEFT with TRL, the
# settings of axolotl and LLaMA-Factory, xgrammar, `transformers serve`, and transformers.js:
# bash scripts/ecosystems.sh
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/scripts/environment.sh"
make_environment "$root/.venv-transformers4" transformers==4.57.6 tokenizers==0.22.2 jinja2
make_environment "$root/.venv-lm-eval" "lm_eval[api]==0.4.13"
# It uses PyTorch and transformers of .venv-test, because another copy would take gigabytes.
site='import sysconfig; print(sysconfig.get_path("purelib"))'
"$root/.venv-test/bin/python" -c "$site" >"$("$root/.venv-lm-eval/bin/python" -c "$site")/test.pth"
make_environment "$root/.venv-clients" instructor==1.17.0 langchain-openai==1.4.3 litellm==1.110.2

# In folders of their own, without dependencies: .venv-test has most of these, and transformers does not allow some versions yet.
install_into() { # FOLDER MODULE PACKAGE…: install packages, unless the folder has the module
    [ -e "$root/$1/$2" ] || "$root/.venv-transformers4/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
        --target "$root/$1" "${@:3}"
}
install_into .venv-tokenizers1 tokenizers tokenizers==1.0.0rc3
install_into .venv-finetuning trl peft==0.21.2 trl==1.16.0
# The settings of axolotl and LLaMA-Factory are read, but neither program runs.
install_into .venv-training-settings omegaconf axolotl==0.19.0 llamafactory==0.9.5 peft==0.21.2 trl==1.16.0 \
    antlr4-python3-runtime==4.9.3 omegaconf==2.4.0
# xgrammar as in vLLM and SGLang, and the packages of `transformers serve`.
install_into .venv-running fastapi xgrammar==0.2.9 apache-tvm-ffi==0.1.15.post2 annotated-doc==0.0.7 opentelemetry-api==1.45.2 \
    fastapi==0.165.0

if ! command -v npm >/dev/null || ! node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)'; then
    echo "npm or Node.js 20 or later is missing: transformers.js is not tested" >&2
    exit
fi
packages="$root/tests/ecosystems/package.json"
stamp="$(node --version) $(cksum <"$packages")"
if [ "$(cat "$root/.node/installed" 2>/dev/null)" != "$stamp" ]; then
    echo "Setting up $root/.node (once)" >&2
    rm -rf "$root/.node"
    mkdir "$root/.node"
    echo "*" >"$root/.node/.gitignore"
    cp "$packages" "$root/.node"
    # --ignore-scripts: install scripts would download model runtimes, which tokenizers do not need.
    npm install --prefix "$root/.node" --ignore-scripts --no-audit --no-fund --no-package-lock --loglevel=error >/dev/null
    echo "$stamp" >"$root/.node/installed"
fi
