import pytest
from hypothesis import given, strategies as st

from hf_sgpe import SGPEError
from hf_sgpe.generation.engines.kept_prefixes import KeptPrefixes, common_length, number_of_prefixes


def crop(cache, length):
    del cache[length:]


@given(
    texts=st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=30), max_size=20),
    most=st.integers(1, 3),
)
def test_a_cache_has_the_longest_common_beginning(texts, most):
    prefixes, held = KeptPrefixes(most, crop), []
    for ids in texts:
        lengths = [common_length(kept, ids[:-1]) for kept in held]
        cache, length = prefixes.take(ids)
        if max(lengths, default=0) >= 8:
            assert length == max(lengths) < len(ids)
            del held[lengths.index(length)]
        else:
            assert (cache, length) == (None, 0)
            del held[: max(len(held) - most + 1, 0)]
        assert cache is None or cache == ids[:length]
        prefixes.keep(ids, ids.copy())
        held.append(ids)
        assert len(held) <= most


def test_caches_are_cleared():
    prefixes = KeptPrefixes(2, crop)
    prefixes.keep([1] * 20, [1] * 20)
    prefixes.clear()
    assert prefixes.take([1] * 30) == (None, 0)


def test_the_number_of_prefixes():
    assert [number_of_prefixes(None, exact=exact) for exact in (False, True)] == [1, 0]
    assert number_of_prefixes(3, exact=True) == 3
    for wrong in (-1, 1.5, True):
        with pytest.raises(SGPEError, match="keep_prefixes must be"):
            number_of_prefixes(wrong, exact=False)
