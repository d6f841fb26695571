import os
import re
import shlex

import pytest
from support.command import hf_sgpe

from hf_sgpe import TrainingConfig, WordCounts


@pytest.fixture
def workplace(tmp_path, saved, sample):
    """A folder with texts, the tokenizer ``tok``, and files, folders and links of every kind that is in the way."""
    (tmp_path / "good.txt").write_text("ශ්‍රී ලංකාව " * 50, encoding="utf-8")
    for language in ("si", "hi", "en"):
        (tmp_path / f"{language}.txt").write_text(sample[language], encoding="utf-8", newline="\n")
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "latin1.txt").write_bytes(b"caf\xe9")
    (tmp_path / "bad.jsonl").write_bytes(b'{"text": "x"}\n{"body": "x"}\n')
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "tokenizer.json").write_bytes((saved / "tokenizer.json").read_bytes()[:999])
    (tmp_path / "tok").symlink_to(saved)
    (tmp_path / "deep.jsonl").write_text('{"text": "a b", "n": 1' + "1" * 5000 + "}")
    (tmp_path / "aa.txt").write_text("a" * 3000 + "b")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "stale").mkdir()
    (tmp_path / "stale" / "added_tokens.json").write_text("{}")
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.json", "index.html", "pictures"):
        (tmp_path / f"in-the-way-{name}" / name).mkdir(parents=True)
    (tmp_path / "in-the-way-pictures" / "pictures").rmdir()
    (tmp_path / "in-the-way-pictures" / "pictures").touch()
    (tmp_path / "worn").mkdir()
    (tmp_path / "worn" / "tokenizer.json").write_bytes((saved / "tokenizer.json").read_bytes())
    (tmp_path / "worn" / "tokenizer_config.json").write_text('{"sgpe": {"training": 5}}')
    (tmp_path / "vocab.json").write_text('{"vocab": {}, "merges": []}', encoding="utf-8")
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "merges.txt").write_text("#version: 0.2\na b\n", encoding="utf-8")
    (tmp_path / "x.tiktoken").write_text("YQ== 0\nYQ== 1\n", encoding="utf-8")
    WordCounts({b"a": 1}, TrainingConfig(vocab_size=999).splitting).save(tmp_path / "kept")
    return tmp_path


@pytest.fixture
def refuses(workplace):
    """Check that a command line, as one writes it in a shell, ends in one line and exit code 2, and leaves nothing."""

    def check(arguments, message):
        def there():
            return {path: path.lstat().st_mtime_ns for path in workplace.rglob("*") if not path.is_dir()}

        before, folders = there(), sorted(workplace.rglob("*"))
        done = hf_sgpe(*shlex.split(arguments), cwd=workplace, code=2)
        assert done.stdout == ""
        # The regex engine announces its panic on its own.
        lines = [line for line in done.stderr.splitlines(keepends=True) if "panicked" not in line and line[:1] not in " cn"]
        assert re.fullmatch(rf"error: .*{message}.*\n", "".join(lines[-1:])), done.stderr
        assert len(lines) == 1 or "too long" in message
        assert there() == before
        assert sorted(workplace.rglob("*")) == folders

    return check
