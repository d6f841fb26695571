from difflib import unified_diff

from support.command import TOOLS, script
from support.paths import ROOT

from hf_sgpe import BPETokenizer

COMMAND = "python tests/tools/public_api.py >tests/public_api.txt"


def changes():
    kept = (ROOT / "tests" / "public_api.txt").read_text(encoding="utf-8").splitlines()
    now = script(TOOLS / "public_api.py").stdout.splitlines()
    return [line for line in unified_diff(kept, now, n=0, lineterm="") if not line.startswith(("+++", "---", "@@"))]


def test_public_interfaces_change_only_together_with_the_file_that_lists_them():
    changed = changes()
    assert not changed, "\n".join([f"public interfaces changed; if this is intended, run: {COMMAND}", *changed])


def test_a_changed_signature_is_seen(monkeypatch):
    monkeypatch.setattr(BPETokenizer, "get_pattern", lambda self, name="gpt2": "")
    assert changes() == ["-    .get_pattern(self) -> str", "+    .get_pattern(self, name='gpt2')"]
