"""The scripts that train models: as a user calls them, and what they say of bad input."""

import dataclasses
import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import fmean, stdev

import pytest

from hf_sgpe import BPETokenizer, SGPETokenizerFast
from hf_sgpe.formats.model_config import listed
from trainers import TokenizerTrainer, TrainingConfig
from trainers.language_model import small_llama

torch = pytest.importorskip("torch", reason="the scripts need PyTorch: pip install torch accelerate")
pytest.importorskip("accelerate", reason="the scripts need accelerate: pip install torch accelerate")

from tokenizers import Tokenizer, models  # noqa: E402
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast  # noqa: E402

SCRIPTS = Path(__file__).parents[2] / "scripts"
TINY = ["--layers", "1", "--width", "16", "--heads", "2", "--length", "16"]


def call(script, *arguments, cwd):
    command = [sys.executable, str(SCRIPTS / script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd)


@pytest.fixture
def call_here(monkeypatch, folder):
    """The same in this process, since importing PyTorch takes seconds: gives the exit code."""

    def called(script, *arguments):
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
        return runpy.run_path(str(SCRIPTS / script), run_name="script")["main"]()

    return called


@pytest.fixture(scope="module")
def folder(tmp_path_factory, sample):
    """A folder with tokenizers, and texts and pairs of them."""
    folder = tmp_path_factory.mktemp("training")
    texts = [sample["si"][:20_000], sample["en"][:20_000]]
    for name, options in {
        "none": {"special_tokens": ()},
        "bare": {"special_tokens": ("<|endoftext|>",)},
        "padding": {"pad_token": "<|pad|>"},
        "chat": {"chat_template": "chatml"},
    }.items():
        config = TrainingConfig(600, "bpe", **options)
        TokenizerTrainer(config).train(iterator=texts).save_pretrained(folder / name)
    (folder / "si.txt").write_text(sample["si"], encoding="utf-8")
    (folder / "empty.txt").touch()
    (folder / "held out.txt").write_text(sample["si"][:2000], encoding="utf-8")
    lines = {language: sample[language].splitlines()[:30] for language in ("si", "en")}
    for language, text in lines.items():
        (folder / f"30-{language}.txt").write_text("\n".join(text) + "\n", encoding="utf-8")
    pairs = list(zip(lines["si"], lines["en"], strict=True))
    (folder / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    records = (json.dumps({"source": source, "target": target}) for source, target in pairs)
    (folder / "pairs.jsonl").write_text("\n".join(records), encoding="utf-8")
    for name, rows in {"model of bare": 640, "small": 100}.items():
        LlamaForCausalLM(small_llama(rows, layers=1, width=16, heads=2, length=16)).save_pretrained(folder / name)
    shutil.copytree(folder / "bare", folder / "model of bare", dirs_exist_ok=True)
    words = Tokenizer(models.WordLevel({"<unk>": 0, "</s>": 1, "one": 2}, unk_token="<unk>"))
    PreTrainedTokenizerFast(tokenizer_object=words, eos_token="</s>").save_pretrained(folder / "words")
    return folder


def test_a_language_model_is_trained_resumed_and_loaded(folder, call_here):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    options = ["si.txt", "--tokenizer", "bare", *TINY, "--steps", 6, "--batch-size", 2, "--save-every", 3]
    done = call("train_lm.py", *options, "--eval", "held out.txt", "--out", "lm", cwd=folder)
    assert done.returncode == 0, done.stderr
    before, after = map(float, re.search(r"^held out\.txt: ([\d.]+) .* before, ([\d.]+) after$", done.stdout, re.M).groups())
    assert after < before
    shutil.copytree(folder / "lm" / "checkpoint-3", folder / "lm again" / "checkpoint-3")
    shutil.copy(folder / "lm" / "settings.json", folder / "lm again")
    assert call_here("train_lm.py", "--resume", *options, "--out", "lm again") == 0
    assert (folder / "lm again" / "model.safetensors").read_bytes() == (folder / "lm" / "model.safetensors").read_bytes()

    model = AutoModelForCausalLM.from_pretrained(folder / "lm")
    tokenizer = AutoTokenizer.from_pretrained(folder / "lm")
    prompt = tokenizer("ශ්‍රී ලංකාව", return_tensors="pt")
    assert model.config.vocab_size == 640
    assert tokenizer.decode(model.generate(**prompt, max_new_tokens=2, do_sample=False)[0]).startswith("ශ්‍රී ලංකාව")


def test_a_model_with_a_chat_template_stops_where_a_turn_ends(folder, call_here):
    from transformers import AutoModelForCausalLM, AutoTokenizer, ForcedEOSTokenLogitsProcessor

    options = ["30-si.txt", "--tokenizer", "chat", *TINY, "--steps", 1, "--batch-size", 2, "--out", "chat-lm"]
    assert call_here("train_lm.py", *options) == 0
    tokenizer = AutoTokenizer.from_pretrained(folder / "chat-lm")
    end, text_end = tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    for name in ("config.json", "generation_config.json"):
        written = json.loads((folder / "chat-lm" / name).read_text(encoding="utf-8"))
        # Some versions write a list of one.
        assert (written["bos_token_id"], listed(written["eos_token_id"]), written["pad_token_id"]) == (
            text_end,
            [end],
            text_end,
        )
    model = AutoModelForCausalLM.from_pretrained(folder / "chat-lm")
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "a"}], return_tensors="pt", add_generation_prompt=True
    )
    length = prompt["input_ids"].shape[1]
    forced = ForcedEOSTokenLogitsProcessor(length + 3, end, "cpu")
    ids = model.generate(**prompt, max_new_tokens=9, do_sample=False, logits_processor=[forced])[0].tolist()
    assert len(ids) == length + 3 or end in ids[length : length + 2]
    assert ids[-1] == end


@pytest.mark.parametrize("parts", ["new-rows", "embeddings", "ends"])
def test_parts_of_a_model_go_on_training_and_all_else_stays(parts, folder, call_here, capsys):
    from transformers import AutoModelForCausalLM

    options = ["30-si.txt", "--model", "model of bare", "--tokenizer", "padding", "--parts", parts, "--keep", "30-en.txt"]
    options += ["--keep-share", 0.4, "--rows-learning-rate", 0.01, "--length", 16, "--batch-size", 2, "--steps", 4]
    assert call_here("train_lm.py", *options, "--save-every", 2, "--out", f"lm {parts}") == 0
    (share,) = re.findall(r"^([\d.]+)% of the rows are those of --keep$", capsys.readouterr().out, re.M)
    assert float(share) == pytest.approx(40, abs=1)
    before, after = (AutoModelForCausalLM.from_pretrained(folder / name) for name in ("model of bare", f"lm {parts}"))
    rest = {name: tensor for name, tensor in before.state_dict().items() if "embed" not in name and "lm_head" not in name}
    changed = {name for name, tensor in rest.items() if not tensor.equal(after.state_dict()[name])}
    assert all("layers.0." in name for name in changed)
    assert bool(changed) == (parts == "ends")

    again = folder / f"lm {parts} again"
    shutil.copytree(folder / f"lm {parts}" / "checkpoint-2", again / "checkpoint-2")
    shutil.copy(folder / f"lm {parts}" / "settings.json", again)
    assert call_here("train_lm.py", "--resume", *options, "--save-every", 2, "--out", again.name) == 0
    assert (again / "model.safetensors").read_bytes() == (folder / f"lm {parts}" / "model.safetensors").read_bytes()


def test_a_model_goes_on_training_on_a_dataset_with_another_tokenizer(folder, call_here, capsys):
    pytest.importorskip("datasets")
    (folder / "dataset").mkdir()
    rows = [json.dumps({"body": line}) for line in (folder / "30-si.txt").read_text(encoding="utf-8").splitlines()]
    (folder / "dataset" / "rows.jsonl").write_text("\n".join(rows), encoding="utf-8")
    options = ["--dataset", "dataset", "--text-column", "body", "--streaming", "--model", "model of bare"]
    options += ["--tokenizer", "padding"]
    assert call_here("train_lm.py", *options, "--length", 16, "--steps", 2, "--batch-size", 2, "--out", "newer") == 0
    out = capsys.readouterr().out
    assert "4 rows of 16 tokens" in out  # of a stream no more than is needed
    assert out.startswith("model of bare: 599 rows kept, 1 started from their pieces, ")
    config = json.loads((folder / "newer" / "config.json").read_text(encoding="utf-8"))
    assert (config["vocab_size"], config["pad_token_id"]) == (640, 599)
    assert call_here("train_lm.py", *options, "--length", 17, "--out", "longer") == 2
    assert "model of bare: has room for 16 tokens" in capsys.readouterr().err

    shutil.copytree(folder / "model of bare", folder / "alone", ignore=shutil.ignore_patterns("token*"))
    options = ["30-si.txt", "--model", "alone", "--model-tokenizer", "bare", "--length", 16, "--steps", 1, "--out", "same"]
    assert call_here("train_lm.py", *options) == 0
    assert capsys.readouterr().out.startswith("alone: 600 rows kept, ")


def test_an_encoder_decoder_goes_on_with_another_tokenizer(folder, call_here, capsys):
    options = [*TINY, "--steps", 1, "--batch-size", 2, "--held-out", 4]
    assert call_here("train_seq2seq.py", "pairs.tsv", *options, "--tokenizer", "padding", "--out", "first") == 0
    config = TrainingConfig(500, "bpe", special_tokens=("<pad>", "<|endoftext|>"))
    TokenizerTrainer(config).train(iterator=[(folder / "si.txt").read_text(encoding="utf-8")]).save_pretrained(
        folder / "next"
    )
    capsys.readouterr()
    options = ["--length", 16, *options[len(TINY) :], "--model", "first", "--tokenizer", "next", "--out", "second"]
    assert call_here("train_seq2seq.py", "pairs.tsv", *options) == 0
    assert re.match(r"first: \d+ rows kept, \d+ started from their pieces, ", capsys.readouterr().out)
    config = json.loads((folder / "second" / "config.json").read_text(encoding="utf-8"))
    assert (config["vocab_size"], config["pad_token_id"], config["decoder_start_token_id"]) == (512, 498, 498)


def test_an_encoder_decoder_learns_and_is_loaded(folder):
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    words = [("එක", "one"), ("දෙක", "two"), ("තුන", "three"), ("හතර", "four")]
    for column, name in enumerate(("sources.txt", "targets.txt")):
        (folder / name).write_text("".join(f"{pair[column]}\n" for pair in words * 10), encoding="utf-8")
    options = [*TINY, "--steps", 150, "--batch-size", 8, "--held-out", 4, "--save-every", 150, "--learning-rate", "2e-2"]
    options += ["--width", 32, "--tokenizer", "padding", "--out", "s2s"]
    done = call("train_seq2seq.py", "sources.txt", "targets.txt", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "36 pairs" in done.stdout
    before, after = map(float, re.search(r"held-out targets: ([\d.]+) before, ([\d.]+) after$", done.stdout, re.M).groups())
    assert after < before / 10
    shown = re.findall(r"^source: (.+)\ntarget: (.+)\nmodel:  (.*)$", done.stdout, re.M)
    assert shown == [(source, target, target) for source, target in words[:3]]

    model = AutoModelForSeq2SeqLM.from_pretrained(folder / "s2s")
    tokenizer = AutoTokenizer.from_pretrained(folder / "s2s")
    ids = tokenizer(["දෙක<|endoftext|>", "තුන<|endoftext|>"], padding=True, return_tensors="pt")
    generated = model.generate(**ids, max_new_tokens=8, do_sample=False)
    assert tokenizer.batch_decode(generated, skip_special_tokens=True) == ["two", "three"]


def test_pairs_are_the_same_from_every_kind_of_file(folder):
    read_pairs = runpy.run_path(str(SCRIPTS / "train_seq2seq.py"), run_name="script")["read_pairs"]
    pairs = read_pairs([folder / "30-si.txt", folder / "30-en.txt"])
    assert len(pairs) == 30
    assert read_pairs([folder / "pairs.tsv"]) == read_pairs([folder / "pairs.jsonl"]) == pairs


def test_tokenizers_are_compared_and_finished_runs_kept(folder, call_here, capsys):
    pytest.importorskip("matplotlib")
    options = ["--recipe", "hybrid", "--tokenizer", "padding", "--script", "sinhala", "--vocab-size", 1500, "--eval"]
    options += ["held out.txt", "30-en.txt", "--steps", 7, "--batch", 32, *TINY]
    done = call("compare_tokenizers.py", "si.txt", *options, "--seeds", 2, "--out", "comparison", cwd=folder)
    assert done.returncode == 0, done.stderr
    out = folder / "comparison"
    found = json.loads((out / "compare.json").read_text(encoding="utf-8"))
    assert list(found["tokenizers"]) == ["hybrid", "padding"]
    for name, tokenizer in found["tokenizers"].items():
        assert len(tokenizer["runs"]) == 2
        for where in ("held out.txt", "30-en.txt"):
            values = [run["bits_per_byte"][where] for run in tokenizer["runs"]]
            assert tokenizer["mean"][where] == fmean(values)
            assert tokenizer["spread"][where] == stdev(values) > 0
            line = rf"^  {name} +{values[0]:.4f} +{values[1]:.4f} +{fmean(values):.4f} "
            assert re.search(line, done.stdout, re.M), done.stdout
        for run in tokenizer["runs"]:
            assert [point["tokens"] for point in run["curve"]] == [32 * step for step in range(1, 8)]
            assert run["curve"][-1]["bits_per_byte"] == run["bits_per_byte"]
            assert run["tokens_seen"] == found["tokens_seen"] == 7 * 32
            assert run["parameters"] == found["parameters"]
    hybrid, padding = found["tokenizers"].values()
    assert hybrid["bytes_seen"] > padding["bytes_seen"]
    assert hybrid["tokens_per_byte"] == pytest.approx(7 * 32 / hybrid["bytes_seen"], rel=0.01)
    assert (out / "compare.png").read_bytes().startswith(b"\x89PNG")

    runs = {file.name: file.stat().st_mtime_ns for file in (out / "runs").iterdir()}
    (out / "runs" / "hybrid-2.json").unlink()
    assert call_here("compare_tokenizers.py", "si.txt", *options, "--seeds", 2, "--out", "comparison") == 0
    assert json.loads((out / "compare.json").read_text(encoding="utf-8")) == found
    redone = {file.name for file in (out / "runs").iterdir() if file.stat().st_mtime_ns != runs[file.name]}
    assert redone == {"hybrid-2.json"}

    capsys.readouterr()
    assert call_here("compare_tokenizers.py", "si.txt", *options, "--steps", 8, "--out", "comparison") == 2
    assert (
        capsys.readouterr().err
        == "error: comparison was begun with other settings (steps): give the same, or another folder\n"
    )


@pytest.mark.parametrize("script", ["train_lm.py", "train_seq2seq.py"])
def test_an_unknown_option_ends_in_one_line(folder, script):
    done = call(script, "si.txt", "--bogus", 3, cwd=folder)
    assert (done.returncode, done.stderr) == (2, "error: unrecognized arguments: --bogus 3: see --help\n")


@pytest.mark.parametrize(
    ("script", "arguments", "message"),
    [
        ("train_lm.py", ["--tokenizer", "bare"], "give text to train on"),
        ("train_lm.py", ["si.txt"], "give a tokenizer"),
        ("train_lm.py", ["nowhere.txt", "--tokenizer", "bare"], "nowhere.txt: no such file"),
        ("train_lm.py", ["si.txt", "--tokenizer", "nobody/nothing"], "nobody/nothing: no such file or folder, and "),
        ("train_lm.py", ["si.txt", "--tokenizer", "bare", "--width", "7"], "width of 7"),
        ("train_lm.py", ["30-en.txt", "--tokenizer", "bare", "--length", "90000"], "30-en.txt: fills no row"),
        ("train_lm.py", ["si.txt", "--tokenizer", "bare", "--eval", "empty.txt"], "empty.txt: holds no text to measure"),
        ("train_lm.py", ["si.txt", "--model", "bare", "--layers", "2"], "--layers is of a new model, and --model bare has"),
        (
            "train_lm.py",
            ["si.txt", "--tokenizer", "bare", "--model-tokenizer", "bare"],
            "--model-tokenizer is that of a model",
        ),
        (
            "train_lm.py",
            ["30-en.txt", "--tokenizer", "bare", "--model", "small", "--length", "8"],
            ": name the tokenizer that the model was trained with by --model-tokenizer",
        ),
        (
            "train_lm.py",
            ["30-en.txt", "--tokenizer", "padding", "--model", "small", "--model-tokenizer", "bare", "--length", "8"],
            "--model small with --model-tokenizer bare: the model has 100 rows for tokens, and its own tokenizer 600 ids",
        ),
        (
            "train_lm.py",
            ["30-en.txt", "--tokenizer", "words", "--model", "model of bare", "--length", "8"],
            "the new tokenizer (words) is not byte-level BPE",
        ),
        ("train_lm.py", ["si.txt", "--tokenizer", "bare", "--split", "test"], "--split is for a dataset"),
        ("train_lm.py", ["si.txt", "--tokenizer", "bare", "--push", "a/b/c"], "a/b/c: not a name of a Hub repository"),
        ("train_lm.py", ["si.txt", "--tokenizer", "bare", "--out", "si.txt"], "--out si.txt: is a file: give a folder"),
        ("train_lm.py", ["nowhere.txt", "--tokenizer", "bare", "--length", "1"], "--length must be at least 2"),
        ("train_lm.py", ["nowhere.txt", "--tokenizer", "bare", "--steps", "0"], "steps must be at least 1, not 0"),
        ("train_seq2seq.py", ["pairs.tsv", "--tokenizer", "none", "--held-out", "5"], "none: has no pad token"),
        ("train_seq2seq.py", ["pairs.tsv", "--tokenizer", "padding", "--held-out", "30"], "--held-out 30 of 30 pairs"),
        ("train_seq2seq.py", ["si.txt", "30-en.txt", "--tokenizer", "padding"], "must be aligned"),
        ("train_seq2seq.py", ["30-en.txt", "--tokenizer", "padding"], "30-en.txt, line 1: not two columns"),
        ("train_seq2seq.py", ["a", "b", "c", "--tokenizer", "padding"], "not 3 files"),
        ("train_lm.py", ["si.txt", "--tokenizer", "bare", "--keep-share", "0.3"], "--keep-share is of the text of --keep"),
        (
            "train_lm.py",
            ["si.txt", "--model", "small", "--rows-learning-rate", "-1"],
            "--rows-learning-rate must be above 0, not -1.0",
        ),
        ("train_lm.py", ["si.txt", "--model", "bare", "--out", "bare"], "--out bare: is the model that is to be trained"),
        ("compare_tokenizers.py", ["si.txt", "--eval", "30-en.txt", "--recipe", "bpe"], "nothing to compare"),
        (
            "compare_tokenizers.py",
            ["si.txt", "--eval", "si.txt", "--recipe", "bpe", "--recipe", "hybrid"],
            "all lines of the corpus are also in the held-out files",
        ),
        (
            "compare_tokenizers.py",
            ["si.txt", "--eval", "30-en.txt", "--tokenizer", "bare", "--tokenizer", "../x/bare"],
            "same name",
        ),
        (
            "compare_tokenizers.py",
            ["si.txt", "--eval", "30-en.txt", "--tokenizer", "bare", "--tokenizer", "padding", "--batch", "100"],
            "--batch must be a multiple of --length 128, not 100",
        ),
    ],
)
def test_bad_input_ends_in_one_line(folder, script, arguments, message, call_here, capsys):
    before = sorted(folder.rglob("*"))
    assert call_here(script, "--out", "refused", *arguments) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert sorted(folder.rglob("*")) == before


@pytest.mark.slow
def test_the_page_on_extending_goes_from_a_corpus_to_a_model_that_knows_its_new_tokens(tmp_path, sample):
    """Step by step, as it stands, with a small model in the place of a large one."""
    page = (SCRIPTS.parent / "docs" / "extend.md").read_text(encoding="utf-8")
    section = page[page.index("## Step by step") : page.index("## What it saves")]
    (block,) = re.findall(r"```bash\n(.*?)```", section, re.DOTALL)
    commands = block.replace("\\\n", "").splitlines()

    english = BPETokenizer.train_from_iterator([sample["en"]], 500, pattern="qwen2", special_tokens=["<|endoftext|>"])
    SGPETokenizerFast.from_bpe(english).save_pretrained(tmp_path / "base-model")
    model = small_llama(512, layers=1, width=16, heads=2, length=16)
    LlamaForCausalLM(model).save_pretrained(tmp_path / "base-model")
    for name, text in {"si": sample["si"], "en": sample["en"], "held-out": sample["si"][:4000]}.items():
        (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8", newline="")
    few = {"hf-sgpe extend": "--new-tokens 600", "python scripts/train_lm.py": "--steps 2 --length 16 --batch-size 2"}
    said = []
    for command in commands:
        called = next((name for name in few if command.startswith(name)), "")
        arguments = f"{command.replace('--new-tokens 16000', '')} {few.get(called, '')}".split()
        program = [SCRIPTS / "train_lm.py"] if arguments[0] == "python" else ["-m", "hf_sgpe"]
        rest = arguments[2:] if arguments[0] == "python" else arguments[1:]
        done = subprocess.run([sys.executable, *map(str, program), *rest], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, (command, done.stderr)
        said.append(done.stdout)
    extended, compared, transplanted, trained = said
    assert "600 tokens more than base-model" in extended
    lines = len([line for line in sample["en"].splitlines() if line.strip()])
    assert f"{lines:,} of {lines:,} lines have the same ids" in compared
    assert "1,100 rows kept" in trained
    assert "20.0% of the rows are those of --keep" in trained
    assert "held-out.txt" in trained
    rows = LlamaForCausalLM.from_pretrained(tmp_path / "my-sinhala-model").get_input_embeddings().weight
    assert len(rows) == 1100
    assert "600 started from their pieces" in transplanted
    assert re.search(r"^en\.txt +[\d.]+ → [\d.]+ ", transplanted, re.MULTILINE)
    assert len(LlamaForCausalLM.from_pretrained(tmp_path / "my-base-si").get_input_embeddings().weight) == 1100
    before, after = (BPETokenizer.from_pretrained(tmp_path / name) for name in ("base-model", "base-model-si"))
    assert after.encode(sample["en"]) == before.encode(sample["en"])


def test_an_option_with_several_values_may_be_given_several_times(monkeypatch):
    from trainers.run_arguments import RunArguments, option_list, parse_arguments

    @dataclasses.dataclass
    class Arguments(RunArguments):
        eval: list[str] = option_list("held-out text")

    monkeypatch.setattr(sys, "argv", ["script", "--out", "out", "--eval", "a", "--eval", "b", "c"])
    assert parse_arguments("", Arguments).eval == ["a", "b", "c"]
