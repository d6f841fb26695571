from hf_sgpe import BPETokenizer
from hf_sgpe.evaluation.same_ids import compare_ids


def test_tokens_of_a_normalized_line_are_shown_as_they_are():
    composed, decomposed = "caf\u00e9 au lait", "cafe\u0301 au lait"
    old = BPETokenizer.train_from_iterator([composed] * 9, 270, normalization="nfc")
    new = BPETokenizer.train_from_iterator([composed] * 9, 256, normalization="none")
    difference = compare_ids(old, new, [decomposed]).difference
    assert "".join(text for text, _ in difference.old) == composed
    assert decomposed.startswith("".join(text for text, _ in difference.new[:4]))
