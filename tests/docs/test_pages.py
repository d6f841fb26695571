import os
import re
import subprocess
import sys

import pytest
from support.pages import PAGES, ROOT


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs", reason="the site is built by MkDocs: pip install mkdocs-material 'mkdocstrings[python]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    pages = {page.parent.name: page.read_text(encoding="utf-8") for page in (tmp_path / "site").glob("*/index.html")}
    assert len(pages) >= 16
    for name in ("train", "tokenize", "extend", "transplant", "evaluate", "push", "counts add"):
        assert f"hf-sgpe {name}" in pages["cli"]
    assert "[bold]" not in pages["cli"]
    assert "merge_init" not in pages["api"]
    for name in ("BPETokenizer.encode_streaming", "transplant", "LinguisTrie.tokenize"):
        assert re.search(rf'id="[\w.]+\.{re.escape(name)}"', pages["api"]), name
    # Nothing is asked of others when a page is opened.
    for name, page in pages.items():
        assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?://[^"]+)"', page), name


def test_links_between_pages_lead_somewhere():
    """In the files as they lie in the repository, where MkDocs does not look at README.md."""
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), (page.name, target)


def test_the_documentation_names_all_formats_patterns_recipes_scripts_and_engines():
    from hf_sgpe.formats.format_registry import FORMATS
    from hf_sgpe.generation.engines.detection import ENGINES
    from hf_sgpe.splitting.patterns import PATTERNS
    from hf_sgpe.splitting.scripts.script_registry import SCRIPTS
    from hf_sgpe.splitting.splitting import RECIPES
    from trainers.token_files.layouts import TOKEN_FORMATS

    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    missing = [name for name in (*FORMATS, *TOKEN_FORMATS, *PATTERNS, *RECIPES) if f"`{name}`" not in text]
    missing += [name for name in (*SCRIPTS, *ENGINES) if name not in text.lower()]
    assert missing == []
