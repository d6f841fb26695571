import pickle

import pytest
from support.conversations import CHATML, bytes_with, chatml_ids, fields, specials_in
from transformers import AutoTokenizer

from hf_sgpe import BPETokenizer, SGPEError, SGPETokenizerFast, TrainingConfig, WordCounts, train_from_counts


@pytest.fixture(scope="module")
def with_template(sample):
    config = TrainingConfig(vocab_size=600, recipe="bpe", special_tokens=("</s>", "<pad>"), chat_template="chatml")
    return train_from_counts(WordCounts.from_texts(sample.values(), config), config)


SAVERS = {"by BPETokenizer": lambda tokenizer: tokenizer, "by SGPETokenizerFast": SGPETokenizerFast.from_bpe}


@pytest.mark.parametrize("saver", SAVERS)
def test_a_template_is_saved_and_loaded_by_all(saver, with_template, tmp_path):
    assert list(with_template.special_tokens) == ["</s>", "<pad>", "<|im_start|>", "<|im_end|>"]
    made = SAVERS[saver](with_template)
    (made.save if saver == "by BPETokenizer" else made.save_pretrained)(tmp_path / "a")
    assert (tmp_path / "a" / "chat_template.jinja").read_text(encoding="utf-8") == CHATML
    fast, stock = SGPETokenizerFast.from_pretrained(tmp_path / "a"), AutoTokenizer.from_pretrained(tmp_path / "a")
    bpe = BPETokenizer.from_pretrained(tmp_path / "a")
    assert fast.chat_template == stock.chat_template == bpe.chat_template == CHATML
    chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]
    encoded = fields(fast, chat, return_assistant_tokens_mask=True)
    assert encoded == fields(stock, chat, return_assistant_tokens_mask=True)
    assert bpe.apply_chat_template(chat, add_generation_prompt=False) == encoded[0]["input_ids"][1]
    assert sum(encoded[0]["assistant_masks"][1]) == len(fast("Ho<|im_end|>")["input_ids"])
    fast.save_pretrained(tmp_path / "b")
    assert BPETokenizer.from_pretrained(tmp_path / "b").chat_template == CHATML
    assert fast.to_bpe().chat_template == pickle.loads(pickle.dumps(bpe)).chat_template == CHATML


def test_a_template_of_ones_own_is_saved(with_template, tmp_path):
    source = "{% for m in messages %}{{ m.content }}\n</s>{% endfor %}"
    fast = SGPETokenizerFast.from_bpe(with_template, chat_template=source)
    fast.save_pretrained(tmp_path / "a")
    back = SGPETokenizerFast.from_pretrained(tmp_path / "a")
    assert back.chat_template == AutoTokenizer.from_pretrained(tmp_path / "a").chat_template == source
    ids = back.apply_chat_template([{"role": "user", "content": "</s>"}], return_dict=False)
    assert specials_in(back, ids) == [back.convert_tokens_to_ids("</s>")]
    config = TrainingConfig(vocab_size=300, recipe="bpe", special_tokens=("</s>",), chat_template=source)
    assert train_from_counts(WordCounts.from_texts(["ab"], config), config).chat_template == source


@pytest.mark.parametrize("saver", SAVERS)
def test_a_template_of_another_tokenizer_is_named_before_it_is_mixed_in(saver, with_template, tmp_path):
    bare, _ = bytes_with(["</s>"])
    (tmp_path / "chat_template.jinja").write_text("{{ messages }}", encoding="utf-8")
    made = bare.to_bpe() if saver == "by BPETokenizer" else bare
    with pytest.raises(SGPEError, match=r"chat_template\.jinja"):
        (made.save if saver == "by BPETokenizer" else made.save_pretrained)(tmp_path)
    made = SAVERS[saver](with_template)
    (made.save if saver == "by BPETokenizer" else made.save_pretrained)(tmp_path)
    assert BPETokenizer.from_pretrained(tmp_path).chat_template == CHATML


def test_training_again_keeps_the_template(with_template, sample):
    fast = SGPETokenizerFast.from_bpe(with_template)
    for template in (CHATML, "{{ messages[0].content }}", {"default": CHATML, "rag": "{{ documents }}"}):
        fast.chat_template = template
        new = fast.train_new_from_iterator([sample["en"]], 400)
        assert new.chat_template == template
        assert len(specials_in(new, chatml_ids(new, "<|im_end|>"))) == 2
