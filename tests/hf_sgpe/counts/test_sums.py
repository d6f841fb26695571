"""Adding up files of counts, held against sums in memory."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from support.texts import COUNTS

from hf_sgpe import SGPEError, TrainingConfig, WordCounts
from hf_sgpe.counts import count_files
from hf_sgpe.counts.sums import added, check_same_settings

pytestmark = pytest.mark.kernels

pytest.importorskip("pyarrow", reason="files of counts are Parquet: pip install pyarrow")

BPE = TrainingConfig(vocab_size=300, recipe="bpe", pattern="gpt2", special_tokens=())


@given(parts=st.lists(COUNTS, min_size=1, max_size=4))
def test_files_add_up_to_the_counts_of_all(tmp_path_factory, parts):
    folder = tmp_path_factory.mktemp("counts")
    paths = [folder / str(number) for number in range(len(parts))]
    for path, counts in zip(paths, parts, strict=True):
        WordCounts(counts, BPE.splitting).save(path)
    tables = added([count_files.read(path) for path in paths])
    info = count_files.write(folder / "sum", tables, BPE.splitting)
    total = sum((WordCounts(counts, BPE.splitting) for counts in parts[1:]), start=WordCounts(parts[0], BPE.splitting))
    assert WordCounts.load(folder / "sum") == total
    assert info.digest == total.digest()
    total.save(folder / "whole")
    assert (folder / "whole").read_bytes() == (folder / "sum").read_bytes()


def test_the_setting_that_differs_is_named():
    def info(**options):
        config = TrainingConfig(**{"vocab_size": 999, **options})
        return count_files.CountsInfo(config.splitting, 0, 0, "")

    for options, message in {
        "recipe": ({"recipe": "bpe"}, 'b was counted with recipe "bpe", but a has "hybrid"'),
        "scripts": ({"scripts": ["tamil"]}, 'b was counted with scripts ["tamil"], but a has ["sinhala"]'),
        "pattern": ({"pattern": "gpt2"}, 'b was counted with pattern "gpt2", but a has "o200k"'),
        "normalization": ({"normalization": "none"}, 'b was counted with normalization "none", but a has "nfc"'),
        "special_tokens": (
            {"special_tokens": ["<s>"]},
            'b was counted with special tokens ["<s>"], but a has ["<|endoftext|>"]',
        ),
    }.values():
        with pytest.raises(SGPEError) as caught:
            check_same_settings({Path("a"): info(), Path("b"): info(**options)})
        assert str(caught.value) == message
    # What a recipe does not use makes no difference.
    bpe = {Path("a"): info(recipe="bpe", scripts=["tamil"]), Path("b"): info(recipe="bpe")}
    check_same_settings(bpe)
    with pytest.raises(SGPEError, match=r"a was counted .* \[\"tamil\"\]"):
        check_same_settings({Path("a"): info()}, info(scripts=["tamil"]).splitting)
