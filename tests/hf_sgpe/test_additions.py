import os
import sys

import pytest
from support.command import process
from support.paths import ROOT

PROGRAM = """
import sys
from hf_sgpe.formats.format_registry import Format, Written, add_format
from hf_sgpe.splitting.patterns import SplitPattern, add_pattern
from hf_sgpe.splitting.scripts.script import Script
from hf_sgpe.splitting.scripts.script_registry import add_script

add_script(
    Script(
        "test-script",
        (0xE000, 0xE07F),
        also="Teng qya",
        font="Tengwar Telcontar",
        greeting="\\ue000\\ue046\\ue010\\ue044",
        consonants="E000-E02F",
        signs="E040-E04F",
        modifiers="E050-E05D",
    )
)
add_pattern(SplitPattern("test-pattern", r"[^ \\t\\r\\n]+"))  # leaves white space between its matches
def write(tokenizer, out):
    out.write_text("".join(f"{name}\\n" for name in tokenizer.get_vocab()), encoding="utf-8", newline="\\n")
    return Written("one token per line", {"lines": len(tokenizer)})
add_format(Format("test-lines", ".test-lines", "its tokens, one per line", write=write))
"""
TEXT = "\ue000\ue046\ue010\ue044 \ue001\ue040 \ue000\ue046\ue010\ue044 \ue002\ue045\ue003 hello world\nතව ලංකාව "


@pytest.fixture
def there(tmp_path):
    (tmp_path / "jv.txt").write_text(TEXT * 20, encoding="utf-8", newline="\n")
    command = "import support.command\nhf_sgpe = lambda line: support.command.hf_sgpe(*line.split(), COLUMNS='400').stdout\n"

    def run(code):
        path = os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
        program = f"{PROGRAM}{command}TEXT = {TEXT!r}\n{code}"
        return process(sys.executable, "-c", program, cwd=tmp_path, PYTHONPATH=path).stdout

    return run


@pytest.mark.slow
@pytest.mark.kernels
def test_a_script_and_a_pattern_train_a_tokenizer_that_loads_everywhere(there):
    code = """
import json
options = "--min-frequency 1 --syllable-coverage 1 --letter-coverage 1"
hf_sgpe(f"train jv.txt --out t --script qya --pattern test-pattern --vocab-size 420 {options}")
assert json.loads(hf_sgpe("info t --json"))["scripts"] == ["test-script"]
from hf_sgpe import BPETokenizer, LinguisTrie, SGPETokenizerFast
text = TEXT + "ලංකාව helloworld \\u200d\\n\\n x"
tokenizer = BPETokenizer.from_pretrained("t")
assert tokenizer.decode(tokenizer.encode(text)) == text
assert tokenizer.encode(text) == SGPETokenizerFast.from_pretrained("t").backend_tokenizer.encode(text).ids
assert tokenizer.to_tiktoken().encode_ordinary(text) == tokenizer.encode(text)
assert tokenizer.splitting.scripts == ("test-script",) and tokenizer.splitting.pattern == "test-pattern"
assert LinguisTrie("all").tokenize("\ue000\ue046\ue010\ue044\ue001") == ["\ue000\ue046", "\ue010\ue044", "\ue001"]
assert tokenizer.pre_tokenizer.split("ලංකාවhello \ue001\ue040 world") == ["ලංකාවhello", " \ue001\ue040", " ", "world"]
# There can be many scripts.
for number in range(20):
    first = 0xF0000 + 16 * number
    script = Script(f"s{number}", (first, first + 15), f"{first:X}-{first + 9:X}", "", f"{first + 10:X}", "", "")
    add_script(script)
assert LinguisTrie("all").tokenize("".join(map(chr, (first, first + 10, first + 1, first)))) == [
    "".join(map(chr, (first, first + 10, first + 1))), chr(first)
]
"""
    there(code)


def test_additions_appear_in_lists_files_and_cards(there, tmp_path):
    code = """
import json
assert '"test-script"' in hf_sgpe("info")
assert "test-pattern" in hf_sgpe("train --help")
assert "test-lines: its tokens, one per line" in hf_sgpe("export --help")
hf_sgpe("train jv.txt --out t --script Teng --vocab-size 420")
print(json.loads(hf_sgpe("export t --format test-lines --out t.test-lines --json"))["lines"])
hf_sgpe("card t")
"""
    assert int(there(code)) == len((tmp_path / "t.test-lines").read_text(encoding="utf-8").splitlines())
    assert "\ue000\ue046\ue010\ue044" in (tmp_path / "t" / "README.md").read_text(encoding="utf-8")
    assert "Tengwar Telcontar" in (tmp_path / "t" / "index.html").read_text(encoding="utf-8")


REFUSED = [
    ("add_script(Script('java', (1, 2), '', '', '', '', ''))", "cannot be called 'java': this name means javanese"),
    ("add_script(Script('all', (1, 2), '', '', '', '', ''))", "cannot be called 'all': this name means every script"),
    ("add_script(Script('old java', (1, 2), '', '', '', '', ''))", "cannot be called 'old java': give a single word"),
    ("add_script(Script('x', (1, 2), 'ZZ', '', '', '', ''))", "ranges must be like '0915-0939 093C'"),
    ("add_script(Script('x', (1, 2), '5B-5E'))", "script x: U\\+005B cannot be a letter"),
    (
        "add_script(Script('x', (1, 2), '5D0'))",
        "already a letter or mark of hebrew .to replace that script, use its name hebrew",
    ),
    ("add_script(Script('x', (1, 2), 'E100', also='ja'))", "cannot be called 'ja': this name means several scripts"),
    ("add_script(Script('x', (1, 2), 'E100', also='zh'))", "cannot be called 'zh': this name means han"),
    ("add_script(Script('x', (1, 2), ''))", "script x: it has no letters"),
    ("add_script(Script('x', (1, 2), 'E01'))", "script x: U\\+0E01 is already a letter or mark of thai"),
    ("add_script(Script('x', (1, 2), 'E100', syllable={'start': {'C': 'q'}}))", "its grammar syllable has no state 'q'"),
    ("add_script(Script('x', (1, 2), 'E100', ends={'q'}))", "its grammar syllable has no state 'q'"),
    ("add_script(Script('x', (1, 2), 'E100', more={chr(c): f'F0{c:X}' for c in range(75, 110)}))", "the maximum is 30"),
    ("add_pattern(SplitPattern('gpt2', 'x'))", "cannot be called 'gpt2'"),
    ("add_pattern(SplitPattern('x+', 'x'))", "cannot be called 'x\\+'"),
    ("add_format(Format('test-lines', '.x', 'x'))", "a format 'test-lines' already exists"),
]


def test_a_name_that_is_taken_is_refused(there):
    code = f"""
import re
for addition, message in {REFUSED!r}:
    try:
        eval(addition)
    except ValueError as error:
        assert re.search(message, str(error)), (addition, error)
    else:
        sys.exit(f"{{addition}} was not refused")
"""
    there(code)
