import json
import sys
from pathlib import Path

import pytest
from support.command import COMMAND, process

import hf_sgpe


def run(code: str) -> str:
    return process(sys.executable, "-c", code).stdout


def test_importing_pulls_in_no_heavy_package():
    code = "import sys, hf_sgpe, trainers, hub_cards; print(*{'torch', 'transformers', 'pyarrow'} & set(sys.modules))"
    assert run(code) == "\n"


def test_importing_the_library_loads_nothing_but_itself():
    loaded = run("import sys; before = set(sys.modules); import hf_sgpe; print(*sorted(set(sys.modules) - before))").split()
    ours = {"hf_sgpe", "hf_sgpe.package"}
    assert not [name for name in loaded if name.startswith(("tokenizers", "regex", "numpy", "hf_sgpe")) and name not in ours]


def test_every_public_name_is_there():
    for name in hf_sgpe.__all__:
        assert getattr(hf_sgpe, name) is not None
    assert set(hf_sgpe.__all__) <= set(dir(hf_sgpe))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = hf_sgpe.nothing


@pytest.mark.slow
@pytest.mark.parametrize("installed", ["beside", "in the path"])
def test_a_project_with_packages_of_the_same_names_breaks_nothing(tmp_path, sample, installed):
    for name in ("trainers", "hub_cards"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("NAME = 'of the project'", encoding="utf-8", newline="\n")
    (tmp_path / "si.txt").write_text(sample["si"], encoding="utf-8", newline="\n")
    environment = {"PYTHONPATH": str(tmp_path)} if installed == "in the path" else {}

    def run_there(*command: object) -> str:
        return process(*command, cwd=tmp_path, **environment).stdout

    train = ("train", "si.txt", "--out", "tokenizer", "--vocab-size", 1500, "--workers", 2)
    assert "1,500 tokens" in run_there(*COMMAND, *train)
    assert "tokens/word" in run_there(*COMMAND, "evaluate", "tokenizer", "si.txt")
    code = "import hf_sgpe; print(hf_sgpe.SGPETokenizerFast.from_pretrained('tokenizer')('ක').input_ids)"
    assert run_there(sys.executable, "-c", code).startswith("[")


WITHOUT_TRANSFORMERS = "import sys; sys.modules['transformers'] = None\n"
RUN_ALL = """
import json
from hf_sgpe.cli import main
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["hf-sgpe", *arguments]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, arguments
"""
USE_CLASSES = """
from hf_sgpe import BPETokenizer
from trainers import TokenizerTrainer, TrainingConfig
tokenizer = BPETokenizer.from_pretrained("tok")
assert tokenizer.decode(tokenizer.encode("ශ්‍රී ලංකාව")) == "ශ්‍රී ලංකාව"
assert tokenizer.apply_chat_template([{"role": "user", "content": "hi"}])
trainer = TokenizerTrainer(TrainingConfig(300, "bpe"))
assert trainer.learn(trainer.count(text="low lower")).encode("low")
"""


def test_transformers_is_needed_for_its_own_things_only(tmp_path, sample):
    """Training, encoding, measuring, extending, counting, exporting and cards do without."""
    for language in ("si", "ta", "en"):
        (tmp_path / f"{language}.txt").write_text(sample[language], encoding="utf-8", newline="\n")
    commands = [
        "train si.txt en.txt --out tok --vocab-size 1500 --script si --chat-template chatml",
        "train-sgpe si.txt --out sgpe --vocab-size 1000 --prune-freq 2",
        "info tok",
        "encode tok ශ්‍රී --html page.html",
        "decode tok 300 301",
        "evaluate tok si.txt --baseline again=tok",
        "extend tok ta.txt --script ta --new-tokens 50 --out more",
        "compare-ids tok more en.txt",
        "export tok --format tiktoken --out tok.tiktoken",
        "card tok --eval si.txt",
    ]
    arguments = json.dumps([command.split() for command in commands])
    process(sys.executable, "-c", WITHOUT_TRANSFORMERS + RUN_ALL + USE_CLASSES, arguments, cwd=tmp_path)


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("from hf_sgpe import SGPETokenizerFast", "SGPETokenizerFast needs transformers"),
        ("from trainers import LanguageProgress", "LanguageProgress needs transformers"),
        ("from trainers import *; TokenizerTrainer(TrainingConfig(300, 'bpe')).train(text='a')", "SGPETokenizerFast needs"),
        (
            "from trainers.language_models.training_runs import require_pytorch; require_pytorch()",
            "language models need transformers",
        ),
        (
            "from hf_sgpe.terminal.command import exit_code; sys.exit(exit_code(lambda: __import__('transformers')))",
            "this needs",
        ),
    ],
)
def test_features_that_need_transformers_say_so_in_one_line(code, what):
    done = process(sys.executable, "-c", WITHOUT_TRANSFORMERS + code, code=None)
    assert done.returncode != 0
    assert what in done.stderr.splitlines()[-1]
    assert done.stderr.endswith("pip install transformers (or the extra [transformers])\n")


def test_pushing_needs_no_package_whose_name_a_project_may_use():
    assert "trainers" not in run("import sys; import hub_cards.publishing.publish; print(*sys.modules)").split()


def test_the_command_line_is_found_before_a_projects_own_package(tmp_path):
    # as where the packages are installed and not linked to
    root = Path(hf_sgpe.__file__).parents[1]
    code = (
        f"import sys; sys.meta_path[:] = [finder for finder in sys.meta_path if 'ditable' not in type(finder).__module__];"
        f"sys.path[:0] = [{str(tmp_path)!r}]; sys.path.append({str(root)!r});"
        "import hf_sgpe.cli; import trainers; print(trainers.__file__)"
    )
    (tmp_path / "trainers").mkdir()
    (tmp_path / "trainers" / "__init__.py").touch()
    assert Path(run(code).strip()).is_relative_to(root)
