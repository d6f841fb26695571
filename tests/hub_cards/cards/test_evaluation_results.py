"""Results of evaluations in the card of a model, and in the Hub's files for benchmarks."""

import json

import pytest
import yaml
from huggingface_hub import metadata_load, parse_eval_result_entries
from huggingface_hub.repocard_data import model_index_to_eval_results
from support.command import hf_sgpe
from support.hub import of_the_client

from hf_sgpe import SGPETokenizerFast
from hf_sgpe.files.resuming import BASE_FILE, PROGRESS_FILE

torch = pytest.importorskip("torch", reason="models are PyTorch's: pip install torch accelerate")

from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

# What lm_eval 0.4.13 wrote for a task, without the settings that this package does not read.
HARNESS = {
    "results": {
        "gsm8k": {
            "name": "gsm8k",
            "alias": "gsm8k",
            "sample_len": 1319,
            "exact_match,strict-match": 0.412,
            "exact_match_stderr,strict-match": 0.0136,
            "exact_match,flexible-extract": 0.42,
            "exact_match_stderr,flexible-extract": "N/A",
        },
        "flores/si": {"alias": "flores/si", "chrf,none": 41.5},
    },
    "configs": {"gsm8k": {"task": "gsm8k", "dataset_path": "openai/gsm8k", "dataset_name": "main", "test_split": "test"}},
    "n-shot": {"gsm8k": 5},
    "config": {"model": "hf", "limit": None},
    "date": 1795948997.9749308,
    "lm_eval_version": "0.4.13",
}


@pytest.fixture
def model(tokenizer, tmp_path):
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    shape = LlamaConfig(vocab_size=tokenizer.vocab_size, **sizes, bos_token_id=None, eos_token_id=0)
    LlamaForCausalLM(shape).save_pretrained(tmp_path / "model")
    SGPETokenizerFast.from_bpe(tokenizer).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def judged(tmp_path):
    (tmp_path / "results.json").write_text(json.dumps(HARNESS), encoding="utf-8")
    return tmp_path / "results.json"


def index_of(model):
    _, results = model_index_to_eval_results(metadata_load(model / "README.md")["model-index"])
    return {(one.dataset_name, one.metric_type, one.metric_name): one for one in results}


@of_the_client
def test_results_of_the_harness_are_in_the_card_and_those_of_a_benchmark_in_its_file(here, model, judged):
    benchmarks = ["--benchmark", "gsm8k=openai/gsm8k:gsm8k", "--benchmark", "flores/si=me/flores:sin:Sinh"]
    done = hf_sgpe("card", model, "--results", judged, *benchmarks, "--license", "mit")
    assert done.stdout == f"{model}: README.md, .eval_results/gsm8k.yaml, .eval_results/flores_si.yaml\n"
    index = index_of(model)
    strict = index["gsm8k", "exact_match", "exact_match, strict-match, 5-shot, lm-evaluation-harness 0.4.13"]
    assert (strict.metric_value, strict.dataset_type, strict.dataset_config) == (0.412, "openai/gsm8k", "main")
    assert strict.source_name == "lm-evaluation-harness"
    assert len(index) == 3
    # The Hub's own reader, and the form in the Hub's documentation.
    (entry,) = parse_eval_result_entries(yaml.safe_load((model / ".eval_results" / "gsm8k.yaml").read_text()))
    assert (entry.dataset_id, entry.task_id, entry.value, entry.date) == ("openai/gsm8k", "gsm8k", 41.2, "2026-11-29")
    assert entry.notes == "exact_match, strict-match, 5-shot, lm-evaluation-harness 0.4.13"
    (chrf,) = parse_eval_result_entries(yaml.safe_load((model / ".eval_results" / "flores_si.yaml").read_text()))
    assert (chrf.dataset_id, chrf.task_id, chrf.value) == ("me/flores", "sin:Sinh", 41.5)
    # They go to the Hub with the model, but no other hidden file does.
    (model / ".eval_results" / "notes.txt").touch()
    (model / ".eval_results" / "secret.yaml").symlink_to(model.parent / "results.json")
    done = here.hf_sgpe("push", model, "me/model")
    assert "secret.yaml is not published, because it is a link" in done.stderr
    (model / ".eval_results" / "secret.yaml").unlink()
    assert here.hf_sgpe("push", model, "me/model").returncode == 0
    pushed = {path for path in here.files("me/model") if path.startswith(".eval_results")}
    assert pushed == {".eval_results/gsm8k.yaml", ".eval_results/flores_si.yaml"}


def test_bits_per_byte_of_evaluate_are_only_in_the_model_index(model, sample, tmp_path):
    (tmp_path / "held-out.txt").write_text(sample["si"][:500], encoding="utf-8")
    done = hf_sgpe("evaluate", model, "held-out.txt", "--model", model, "--baseline", f"b={model}", "--json", cwd=tmp_path)
    (tmp_path / "evaluated.json").write_text(done.stdout, encoding="utf-8")
    bits = next(row["bits_per_byte"] for row in json.loads(done.stdout) if row["model"])
    hf_sgpe("card", model, "--results", tmp_path / "evaluated.json")
    index = index_of(model)
    assert [key[:2] for key in index] == [("held-out.txt", "bits_per_byte")]
    assert next(iter(index.values())).metric_value == round(bits, 6)
    assert not (model / ".eval_results").exists()
    # Measurements do not disappear unasked.
    assert "--results FILE" in hf_sgpe("card", model, "--license", "mit", code=2).stderr


def test_the_card_of_a_trained_model_has_its_base_and_its_measurements(model, tmp_path):
    points = [
        {"step": step, "languages": {"si": {"bits_per_byte": bits}}} for step, bits in ((0, 2.5), (5, 2.0), (10, 1.25))
    ]
    (model / PROGRESS_FILE).write_text("".join(json.dumps(point) + "\n" for point in points), encoding="utf-8")
    hf_sgpe("card", model, "--base-model", "me/base", "--language", "si", "--language", "jv-Java", "--license", "mit")
    metadata = metadata_load(model / "README.md")
    assert (metadata["base_model"], metadata["base_model_relation"]) == ("me/base", "finetune")
    assert (metadata["library_name"], metadata["pipeline_tag"]) == ("transformers", "text-generation")
    # The Hub refuses codes with a script in the field for languages.
    assert (metadata["language"], metadata["language_bcp47"]) == (["si", "jv"], ["jv-Java"])
    card = (model / "README.md").read_text(encoding="utf-8")
    assert "| si | 2.5000 | 1.2500 |" in card
    assert "This is me/base, trained further." in card
    assert [one.metric_value for one in index_of(model).values()] == [1.25]
    # A new card keeps what the present one knows.
    hf_sgpe("card", model, "--name", "me/model")
    assert metadata_load(model / "README.md") | {"model-index": 0} == metadata | {"model-index": 0}
    # In an adaptation, the base model is the model before.
    (model.parent / BASE_FILE).write_text(json.dumps({"si": [1.5, 1000]}), encoding="utf-8")
    hf_sgpe("card", model)
    assert "| si | 1.5000 | 1.2500 |" in (model / "README.md").read_text(encoding="utf-8")
    (model / PROGRESS_FILE).write_text("{}\n", encoding="utf-8")
    assert f"{PROGRESS_FILE} is damaged" in hf_sgpe("card", model, code=2).stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--results", "results.json", "--benchmark", "gsm8k"], "write TASK=DATASET:ID"),
        (
            ["--results", "results.json", "--benchmark", "other=a/b:c"],
            "has no task 'other' of lm_eval, but flores/si, gsm8k",
        ),
        (["--results", "part.json", "--benchmark", "gsm8k=a/b:c"], "run lm_eval without --limit"),
        (["--results", "results.json", "--benchmark", "gsm8k=a/b/c:d"], "a/b/c: not the name of a Hub repository"),
        (["--results", "of-another.json"], "of-another.json: no results of this model"),
        (["--results", "model/config.json"], "config.json: no results of this model"),
        (["--results", "nowhere.json"], "nowhere.json"),
        (["--benchmark", "gsm8k=a/b:c"], "--benchmark needs results"),
    ],
)
def test_results_that_do_not_fit_end_in_one_line(model, judged, tmp_path, options, message):
    (tmp_path / "part.json").write_text(json.dumps(HARNESS | {"config": {"limit": 10}}), encoding="utf-8")
    rows = [{"file": "en.txt", "tokenizer": "other", "model": "other", "bits_per_byte": 1.0}]
    (tmp_path / "of-another.json").write_text(json.dumps(rows), encoding="utf-8")
    done = hf_sgpe("card", "model", *options, cwd=tmp_path, code=2)
    assert len(done.stderr.splitlines()) == 1
    assert message in done.stderr
    assert not (model / "README.md").exists()
    assert not (model / ".eval_results").exists()
