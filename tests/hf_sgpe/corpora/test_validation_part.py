import hashlib

import pytest

from hf_sgpe import SGPEError
from hf_sgpe.corpora.validation_part import check_share, is_for_validation

TEXTS = [f"text number {number}" for number in range(4000)]


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_about_the_share_is_chosen_and_always_the_same_texts(share):
    chosen = [text for text in TEXTS if is_for_validation(text, share)]
    assert len(chosen) == pytest.approx(share * len(TEXTS), abs=4 * (share * len(TEXTS)) ** 0.5)
    by_hand = [text for text in TEXTS if int(hashlib.sha256(text.encode()).hexdigest()[:16], 16) / 16**16 < share]
    assert chosen == by_hand


def test_a_larger_share_only_adds_texts():
    few, more = ({text for text in TEXTS if is_for_validation(text, share)} for share in (0.05, 0.06))
    assert few < more


def test_a_text_need_not_be_valid_unicode():
    assert is_for_validation("\ud800", 0.999) in (True, False)


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, float("nan")])
def test_a_share_that_is_no_share_is_refused(share):
    with pytest.raises(SGPEError, match="--validation-share must be between 0 and 1"):
        check_share(share)
