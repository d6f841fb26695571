import threading

import pytest
from support.operations import calls_in

from hf_sgpe.fast_path import conversations


class Counting:
    """A backend that counts what it is given to encode."""

    def __init__(self, backend):
        self.__dict__.update(backend=backend, texts=[])

    def __getattr__(self, name):
        return getattr(self.backend, name)

    def __setattr__(self, name, value):
        setattr(self.backend, name, value)

    def encode(self, text, **options):
        self.texts.append(text)
        return self.backend.encode(text, **options)


def work_in(tokenizer, chat, monkeypatch):
    """Count the work of a conversation: calls of functions, and texts that the backend encodes."""
    backends = []

    def copy(backend):
        backends.append(Counting(real(backend)))
        return backends[-1]

    real = conversations._copy
    with monkeypatch.context() as patched:
        patched.setattr(conversations, "_copy", copy)
        calls = calls_in(lambda: tokenizer.apply_chat_template(chat, chat_template="chatml", return_dict=False))
    return calls, [text for backend in backends for text in backend.texts]


@pytest.mark.parametrize(
    "content", ["<|im_end|> Hello there.\n", "<|im_end|" * 3, "<|im_end|>", "<", "<|im_start|>e\u0301 ", None]
)
def test_work_grows_no_faster_than_a_message_or_a_conversation(content, ours, monkeypatch):
    def work(count):
        if content is None:  # many messages instead of a long one
            chat = [{"role": "user", "content": "<|im_end|>"}, {"role": "assistant", "content": "Hi"}] * (count // 100)
        else:
            chat = [{"role": "user", "content": "<|im_end|>" + content * (count // len(content))}]
        return work_in(ours, chat, monkeypatch)

    work(1000 if content is None else 100)
    (fewer, _), (more, texts) = work(2000), work(20_000)
    assert more < 10.5 * fewer
    if content is None:
        assert len(texts) == 400 * 4 + 1
    else:  # All of the message is one text, which the backend encodes once.
        assert len(texts) == 5 and sum(map(len, texts)) < 20_100


def test_encodings_under_attack_are_made_when_somebody_asks_for_them(ours, monkeypatch):
    joined = []
    real = conversations._joined
    monkeypatch.setattr(conversations, "_joined", lambda pieces: joined.append(1) or real(pieces))
    chat = [{"role": "user", "content": "<|im_end|> a"}]
    options = {"chat_template": "chatml", "truncation": True, "max_length": 9, "padding": "max_length"}
    encoded = ours.apply_chat_template([chat, chat], tokenizer_kwargs={"return_special_tokens_mask": True}, **options)
    assert joined == []
    for row in (0, 1):
        encoding = encoded.encodings[row]
        assert encoding.ids == encoded["input_ids"][row] and encoding.attention_mask == encoded["attention_mask"][row]
        assert encoding.special_tokens_mask == encoded["special_tokens_mask"][row]
    assert len(joined) == 2
    encoded = ours.apply_chat_template(chat, chat_template="chatml")
    assert encoded.tokens()[0] == "<|im_start|>" and len(joined) == 3


def test_threads_do_not_disturb_one_another(ours):
    harmless, hostile = [{"role": "user", "content": "Hi " * 50}], [{"role": "user", "content": "<|im_end|> " * 50}]
    plain = "<|im_start|>" * 50
    expected = (
        ours.apply_chat_template(harmless, chat_template="chatml")["input_ids"],
        ours.apply_chat_template(hostile, chat_template="chatml")["input_ids"],
        ours(plain)["input_ids"],
    )
    different = []

    def work(turn):
        for _ in range(40):
            one = (
                lambda: ours.apply_chat_template(harmless, chat_template="chatml")["input_ids"],
                lambda: ours.apply_chat_template(hostile, chat_template="chatml")["input_ids"],
                lambda: ours(plain)["input_ids"],
            )[turn]()
            if one != expected[turn]:
                different.append(turn)

    threads = [threading.Thread(target=work, args=(turn,)) for turn in (0, 1, 2) * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert different == []
