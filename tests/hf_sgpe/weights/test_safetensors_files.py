import json

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hf_sgpe import SGPEError
from hf_sgpe.weights.safetensors_files import Made, check_head, rewrite, stored, weight_files

safetensors = pytest.importorskip("safetensors.numpy")
save_file = safetensors.save_file


def test_weights_are_in_a_single_file_or_in_those_of_the_index(tmp_path):
    with pytest.raises(SGPEError, match=r"has no model\.safetensors"):
        weight_files(tmp_path)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}))
    save_file({"a": np.ones(3, np.float32)}, tmp_path / "model-1.safetensors")
    with pytest.raises(SGPEError, match=r"model-2\.safetensors is missing"):
        weight_files(tmp_path)
    save_file({"b": np.zeros(2, np.float16)}, tmp_path / "model-2.safetensors")
    save_file({"c": np.zeros(2, np.float16)}, tmp_path / "model_old.safetensors")
    assert [file.name for file in weight_files(tmp_path)] == ["model-1.safetensors", "model-2.safetensors"]
    assert {name: one.read().tolist() for name, one in stored(tmp_path).items()} == {"a": [1, 1, 1], "b": [0, 0]}
    index.write_text('{"weight_map": 5}')
    with pytest.raises(SGPEError, match=r"index\.json .* 'weight_map'"):
        weight_files(tmp_path)


def test_numbers_that_are_none_are_refused(tmp_path):
    save_file({"a": np.array([1, np.nan], np.float32)}, tmp_path / "model.safetensors")
    with pytest.raises(SGPEError, match="some weights are not finite numbers"):
        stored(tmp_path)["a"].read()
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 100)
    with pytest.raises(SGPEError, match=r"model\.safetensors is damaged"):
        stored(tmp_path)


def test_a_head_that_is_to_be_the_embedding_has_to_be_it(tmp_path):
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    for head, fits in ((rows, True), (rows + 1, False), (rows[:2], False)):
        save_file({"lm_head.weight": head, "rows": rows}, tmp_path / "model.safetensors")
        check_head(tmp_path, stored(tmp_path), {"tie_word_embeddings": False}, "rows")
        if fits:
            check_head(tmp_path, stored(tmp_path), {"tie_word_embeddings": True}, "rows")
        else:
            with pytest.raises(SGPEError, match=r"lm_head\.weight .* tie_word_embeddings"):
                check_head(tmp_path, stored(tmp_path), {"tie_word_embeddings": True}, "rows")


@given(
    tensors=st.lists(st.lists(st.sampled_from([0.0, 0.0, 1.5]), max_size=4), min_size=1, max_size=4),
    made=st.dictionaries(st.integers(0, 3), st.lists(st.sampled_from([0.0, 2.5]), max_size=6)),
)
def test_a_rewritten_file_is_whole_where_numbers_are_zeros_too(tmp_path_factory, tensors, made):
    folder = tmp_path_factory.mktemp("rewritten")
    old = {str(number): np.array(numbers, np.float32) for number, numbers in enumerate(tensors)}
    new = {str(number): np.array(numbers, np.float32) for number, numbers in made.items() if number < len(tensors)}
    save_file(old, folder / "old.safetensors")
    parts = {name: Made("F32", one.shape, one.nbytes, [memoryview(one.tobytes())]) for name, one in new.items()}
    rewrite(folder / "old.safetensors", folder / "new.safetensors", parts)
    written = safetensors.load_file(folder / "new.safetensors")
    assert {name: one.tolist() for name, one in written.items()} == {name: one.tolist() for name, one in (old | new).items()}
