import json
import re
import shutil

import pytest
from support import sentencepiece_like

torch = pytest.importorskip("torch", reason="rows are tensors: pip install torch accelerate")
transformers = pytest.importorskip("transformers")

from support.command import hf_sgpe  # noqa: E402
from support.extended import save_extended  # noqa: E402
from support.other_scripts import TEXT as OTHER  # noqa: E402
from support.small_models import LAYERS, SMALL, bits, tensors_of  # noqa: E402

from hf_sgpe import BPETokenizer, SGPETokenizerFast  # noqa: E402
from hf_sgpe.formats import tokenizer_json  # noqa: E402
from hf_sgpe.formats.tokenizer_folder import TokenizerFolder  # noqa: E402
from trainers import ExtensionConfig, TokenizerExtender  # noqa: E402
from trainers.model_rows.transplanting import transplant  # noqa: E402

LAYERS_OWN = {"hidden_size_per_layer_input": 4, "num_kv_shared_layers": 0, "altup_num_inputs": 2, "laurel_rank": 4}
TYPES = {
    "LlamaForCausalLM": lambda same: transformers.LlamaConfig(**SMALL, **same, tie_word_embeddings=False),
    "Gemma3ForConditionalGeneration": lambda same: transformers.Gemma3Config(
        text_config=SMALL | same,
        vision_config=LAYERS | {"num_hidden_layers": 1, "image_size": 28, "patch_size": 14},
        mm_tokens_per_image=4,
        image_token_index=same["eos_token_id"] - 1,
        boi_token_index=66,
        eoi_token_index=67,
    ),
    "Gemma3nForCausalLM": lambda same: transformers.Gemma3nTextConfig(
        **SMALL, **LAYERS_OWN, **same, vocab_size_per_layer_input=same["vocab_size"]
    ),
}


@pytest.fixture(scope="module")
def bases(sample, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bases")
    english = sample["en"][:8000]
    special = ["<|image|>", "<|end|>"]
    BPETokenizer.train_from_iterator([english, OTHER], 700, pattern="gpt2", special_tokens=special).save(folder / "bytes")
    content = sentencepiece_like.content([english, OTHER], 400, added={"<|image|>": True, "<|end|>": True})
    names = content["model"]["vocab"]
    last = sorted(names, key=lambda name: (name in special, names[name]))
    content["model"]["vocab"] = vocab = {name: id for id, name in enumerate(last)}
    content["added_tokens"] = [{**token, "id": vocab[token["content"]]} for token in content["added_tokens"]]
    content["added_tokens"].sort(key=lambda token: token["id"])
    tokenizer_json.save(tokenizer_json.from_dict(content), folder / "characters")
    return folder


def saved(name, tokenizer, folder, spare=20):
    torch.manual_seed(1)
    data = BPETokenizer.from_pretrained(tokenizer).data
    end = data.added_ids["<|end|>"] if spare >= 0 else 67
    assert spare < 0 or data.added_ids["<|image|>"] == end - 1
    same = {"vocab_size": len(data) + spare, "bos_token_id": 65, "eos_token_id": end, "pad_token_id": None}
    model = getattr(transformers, name)(TYPES[name](same))
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.normal_(std=0.3)
    shutil.copytree(tokenizer, folder)
    model.generation_config.eos_token_id = [end, 66]
    model.save_pretrained(folder)
    return folder


def predict(name, folder, ids):
    model = getattr(transformers, name).from_pretrained(folder).eval()
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids])).logits


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", ["bytes", "characters"])
@pytest.mark.parametrize("name", TYPES)
def test_without_gaps_a_model_is_smaller_and_predicts_the_same(name, kind, bases, tmp_path, sample):
    folder = saved(name, bases / kind, tmp_path / "model")
    small, trimming = TokenizerFolder.read(folder).trimmed(["cyrillic", "han"], ids="compact")
    (tmp_path / "small").mkdir()
    small.write(tmp_path / "small")
    done = transplant(folder, tmp_path / "small", tmp_path / "out")
    ids = trimming.ids
    assert done.row_map.kept == {new: old for old, new in ids.items()}
    assert done.row_map.new == []
    assert done.row_map.rows == len(ids) < trimming.base.vocab_size
    old, new = tensors_of(folder), tensors_of(tmp_path / "out")
    for key, table in old.items():
        assert bits(new[key]) == bits(table[[*ids]] if key in done.tables else table)
    assert [size.parameters for size in done.sizes] == [sum(one.numel() for one in some.values()) for some in (old, new)]
    files = [one / "model.safetensors" for one in (folder, tmp_path / "out")]
    assert [size.bytes for size in done.sizes] == [file.stat().st_size for file in files]
    before, after = (
        [json.loads((one / file).read_text(encoding="utf-8")) for file in ("config.json", "generation_config.json")]
        for one in (folder, tmp_path / "out")
    )
    for config, was in zip(after, before, strict=True):
        for part, old_part in ((config, was), (config.get("text_config", {}), was.get("text_config", {}))):
            for key in ("bos_token_id", "eos_token_id", "image_token_index", "boi_token_index"):
                if (id := old_part.get(key)) is not None:
                    assert part[key] == ([ids[one] for one in id] if isinstance(id, list) else ids[id])
            assert part.get("vocab_size", len(ids)) == len(ids)
    text = sample["en"][:120]
    given = BPETokenizer.of(trimming.base).encode(text)
    moved = BPETokenizer.of(trimming.tokenizer).encode(text)
    assert moved == [ids[id] for id in given] != given
    assert bits(predict(name, folder, given)[..., [*ids]]) == bits(predict(name, tmp_path / "out", moved))
    loaded = SGPETokenizerFast.from_pretrained(tmp_path / "out")
    assert loaded(text)["input_ids"] == moved


def test_the_report_and_the_card_tell_the_size(bases, tmp_path):
    folder = saved("LlamaForCausalLM", bases / "bytes", tmp_path / "model")
    hf_sgpe("trim", folder, "--drop-script", "cyrillic,han", "--ids", "compact", "--out", tmp_path / "small")
    arguments = ("transplant", folder, "--tokenizer", tmp_path / "small", "--out", tmp_path / "out")
    said = hf_sgpe(*arguments).stdout
    report = json.loads((tmp_path / "out" / "transplant.json").read_text())
    (before, parameters), (on_disk, size) = (
        [report["size"][when][key] for when in ("before", "after")] for key in ("parameters", "bytes")
    )
    dropped = 2 * SMALL["hidden_size"] * int(re.search(r"(\d+) of the old tokenizer dropped", said)[1])
    assert before - parameters == dropped + 2 * SMALL["hidden_size"] * 20  # and spare rows
    assert f"The model has {parameters:,} parameters instead of {before:,}" in said
    assert f"{size / 1e6:,.1f} MB on disk instead of {on_disk / 1e6:,.1f}." in said
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert f"| parameters | {before:,} | {parameters:,} | {parameters / before - 1:+.1%} |" in card
    assert f"| weights in memory in 16 bits, MB | {before / 5e5:,.1f} | {parameters / 5e5:,.1f} |" in card
    assert "- vocabulary-trimming" in card
    hf_sgpe("transplant", folder, "--tokenizer", folder, "--out", tmp_path / "same")
    assert "## Size" not in (tmp_path / "same" / "README.md").read_text(encoding="utf-8")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", ["bytes", "characters"])
@pytest.mark.parametrize("name", TYPES)
def test_with_a_language_in_place_of_others_a_model_stays_as_large_as_it_is(name, kind, bases, tmp_path, sample):
    folder = saved(name, bases / kind, tmp_path / "model")
    small, trimming = TokenizerFolder.read(folder).trimmed(["cyrillic", "han"])
    assert small.rows == trimming.base.vocab_size + 20
    (tmp_path / "small").mkdir()
    small.write(tmp_path / "small")
    done = transplant(folder, tmp_path / "small", tmp_path / "same")
    assert done.row_map.changes_nothing
    assert [*map(bits, tensors_of(tmp_path / "same").values())] == [*map(bits, tensors_of(folder).values())]
    free = trimming.base.vocab_size - trimming.tokenizer.vocab_size
    base = TokenizerFolder.read(tmp_path / "small")
    assert (base.rows, base.model_ids >= small.model_ids) == (small.rows, True)
    extender = TokenizerExtender(ExtensionConfig(["sinhala"], new_tokens=free, reuse_ids=True))
    save_extended(base, extender.learn(base, extender.count(base, text=sample["si"][:20_000])), tmp_path / "si")
    done = transplant(folder, tmp_path / "si", tmp_path / "out")
    taken = set(trimming.base.bytes_by_id()) - set(trimming.ids)
    assert set(done.row_map.new) == taken
    old, new = tensors_of(folder), tensors_of(tmp_path / "out")
    others = [id for id in range(small.rows) if id not in taken]
    for key, table in old.items():
        assert new[key].shape == table.shape
        assert bits(new[key][others]) == bits(table[others]) if key in done.tables else bits(new[key]) == bits(table)
    assert all(not torch.equal(new[done.tables[0]][id], old[done.tables[0]][id]) for id in taken)
    for file in ("config.json", "generation_config.json"):
        before, after = (json.loads((one / file).read_text(encoding="utf-8")) for one in (folder, tmp_path / "out"))
        assert before == after
    text = sample["en"][:120]
    given = BPETokenizer.of(trimming.base).encode(text)
    assert BPETokenizer.from_pretrained(tmp_path / "out").encode(text) == given
    assert bits(predict(name, folder, given)[..., others]) == bits(predict(name, tmp_path / "out", given)[..., others])


def test_a_tokenizer_that_is_trimmed_twice(bases, tmp_path):
    folder = saved("LlamaForCausalLM", bases / "bytes", tmp_path / "model")
    for name in ("compact", "twice"):
        (tmp_path / name).mkdir()
    TokenizerFolder.read(folder).trimmed(["han"], ids="compact")[0].write(tmp_path / "compact")
    transplant(folder, tmp_path / "compact", tmp_path / "smaller")
    compact = TokenizerFolder.read(tmp_path / "compact")
    twice, trimming = compact.trimmed(["cyrillic"])
    assert twice.rows == compact.data.rows_needed
    twice.write(tmp_path / "twice")
    done = transplant(tmp_path / "smaller", tmp_path / "twice", tmp_path / "same")
    assert done.row_map.changes_nothing
    assert [*map(bits, tensors_of(tmp_path / "same").values())] == [*map(bits, tensors_of(tmp_path / "smaller").values())]
    done = transplant(folder, tmp_path / "twice", tmp_path / "out")
    assert not done.row_map.keeps_ids
    assert len(done.row_map.known) == TokenizerFolder.read(folder).data.vocab_size
    assert len(done.row_map.kept) == len(trimming.ids)


@pytest.mark.parametrize("kind", ["bytes", "characters"])
def test_a_special_token_beyond_the_embedding(kind, bases, tmp_path, sample):
    """Gemma 3's token for images has no row in models of text."""
    folder = saved("LlamaForCausalLM", bases / kind, tmp_path / "model", spare=-1)
    old = TokenizerFolder.read(folder)
    rows = old.data.vocab_size - 1
    for ids, number in (("keep", rows), ("compact", None)):
        small, trimming = old.trimmed(["cyrillic", "han"], ids=ids)
        (tmp_path / ids).mkdir()
        small.write(tmp_path / ids)
        done = transplant(folder, tmp_path / ids, tmp_path / f"{ids}-out")
        assert done.row_map.rows == (number or len(trimming.ids))
        before, after = (tensors_of(one)["model.embed_tokens.weight"] for one in (folder, tmp_path / f"{ids}-out"))
        kept = [id for id in trimming.ids if id < rows]
        assert bits(after[[trimming.ids[id] for id in kept]]) == bits(before[kept])
    base = TokenizerFolder.read(tmp_path / "keep")
    assert base.rows == rows
    extender = TokenizerExtender(ExtensionConfig(["sinhala"], new_tokens=150, reuse_ids=True))
    save_extended(base, extender.learn(base, extender.count(base, text=sample["si"][:20_000])), tmp_path / "si")
    done = transplant(folder, tmp_path / "si", tmp_path / "si-out")
    assert done.row_map.rows == rows
    assert len(done.row_map.new) == 150
