import json

import pytest

torch = pytest.importorskip("torch", reason="rows are tensors: pip install torch accelerate")
pytest.importorskip("transformers")

from support.command import hf_sgpe  # noqa: E402
from support.models import train_llama  # noqa: E402

from hf_sgpe import BPETokenizer, SGPEError  # noqa: E402
from hf_sgpe.evaluation.vocabulary_health import unreachable_ids  # noqa: E402
from trainers.model_rows.untrained_rows import untrained_rows  # noqa: E402

UNSEEN = "දකුණු ඉන්දියාවේ කඳුකරය " * 5


@pytest.fixture(scope="module")
def trained(sample, tmp_path_factory):
    """A model that was trained on English, of a tokenizer with Sinhala tokens too."""
    folder = tmp_path_factory.mktemp("trained")
    english = sample["en"][:30_000]
    tokenizer = BPETokenizer.train_from_iterator(
        [english, UNSEEN * 40], 420, pattern="gpt2", min_frequency=3, special_tokens=["<|endoftext|>"]
    )
    (folder / "en.txt").write_text(english, encoding="utf-8")
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    return train_llama(folder, tokenizer, [english], steps=60, **sizes, vocab_size=448, tie_word_embeddings=False), english


def test_rows_of_tokens_that_the_training_text_lacks_are_found(trained):
    folder, english = trained
    tokenizer = BPETokenizer.from_pretrained(folder)
    used = set(tokenizer.encode(english))
    tokens = tokenizer.data.bytes_by_id()
    unused = unreachable_ids(tokenizer.data)
    found = untrained_rows(str(folder), tokens, unused, used)
    assert found.rows == 448
    assert found.known == 448 - 420 + len(unused)
    distance = found.indicators["distance"]
    assert distance.used < 0.02
    unseen = tokens.keys() - used - unused
    sinhala = {id for id in unseen if len(tokens[id]) > 2 and not tokens[id].isascii()}
    assert len(sinhala) > 5
    assert len(sinhala & distance.untrained.keys()) > 0.7 * len(sinhala)
    assert len(unseen & distance.untrained.keys()) > 0.9 * len(distance.untrained)
    assert [*distance.untrained.values()] == sorted(distance.untrained.values())
    assert set(found.in_all()) == set(distance.untrained).intersection(found.indicators["norm"].untrained)


def test_the_command_shows_them(trained):
    folder, _ = trained
    arguments = ("evaluate", "--vocabulary", folder, folder / "en.txt", "--model", folder)
    facts = json.loads(hf_sgpe(*arguments, "--json").stdout)["model"]
    table = hf_sgpe(*arguments).stdout
    assert f"{facts['known_unused']} of the model's 448 rows are known to be unused" in table
    assert f"mean of unused rows  {len(facts['indicators']['distance']['untrained'])} " in table


def test_a_model_of_another_tokenizer_is_refused(trained):
    folder, _ = trained
    with pytest.raises(SGPEError, match=r"448 rows, .* id 448"):
        untrained_rows(str(folder), range(460), [], [448])
    with pytest.raises(SGPEError, match=r"2 rows .* --model"):
        untrained_rows(str(folder), range(448), [1, 2], [3])
