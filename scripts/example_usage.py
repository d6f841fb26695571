"""Take a tour of BPETokenizer: train a small tokenizer, show its features and check the results.

The tour needs no network.

Example: python scripts/example_usage.py
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hf_sgpe import BPETokenizer, SGPEError
from hf_sgpe.chat.templates import SPECIAL_TOKENS
from hf_sgpe.cli import run_script
from trainers import TokenizerTrainer, TrainingConfig

CORPUS = [
    "The quick brown fox jumps over the lazy dog.\n",
    "A tokenizer turns text into the numbers that a language model reads.\n",
    "Byte-pair encoding begins with bytes and merges the most frequent pair, again and again.\n",
    "Special tokens mark where a text begins and where it ends.\n",
    "The size of the vocabulary is a choice: short sequences or a small table of embeddings.\n",
    "Sinhala, Hindi and Tamil write syllables; ශ්‍රී ලංකාව, हिन्दी and தமிழ் stay whole.\n",
] * 100


def _section(title: str) -> None:
    print(f"\n{title}\n{'-' * len(title)}")


def _check(claim: str, holds: bool) -> None:
    print(f"  {claim}: {'yes' if holds else 'NO'}")
    if not holds:
        raise SGPEError(f"this check failed: {claim}")


def _run() -> None:
    with tempfile.TemporaryDirectory() as folder:
        _tour(Path(folder))


def _tour(folder: Path) -> None:
    _section("1. Training, from an iterator, a file or a text")
    specials = {"<|begin_of_text|>": 256, "<|end_of_text|>": 257, "<|pad|>": 258}
    chat = [token for token in (*SPECIAL_TOKENS["llama3"], *SPECIAL_TOKENS["chatml"]) if token not in specials]
    specials |= {token: 259 + number for number, token in enumerate(chat)}
    config = TrainingConfig(
        vocab_size=480,
        recipe="bpe",
        pattern="cl100k-any-space",
        min_frequency=2,
        special_tokens=specials,
        normalization="nfc",
    )
    trainer = TokenizerTrainer(config)
    tokenizer = trainer.learn(trainer.count(iterator=iter(CORPUS)))
    print(f"  {tokenizer!r}")
    (folder / "corpus.txt").write_text("".join(CORPUS), encoding="utf-8", newline="\n")
    for source, counts in {
        "a file": trainer.count(files=folder / "corpus.txt"),
        "one text": trainer.count(text="".join(CORPUS)),
    }.items():
        _check(f"{source} gives the same tokenizer", trainer.learn(counts).get_vocab() == tokenizer.get_vocab())
    _check("special tokens have the requested ids", tokenizer.special_tokens == specials)

    _section("2. Encoding and decoding")
    for text in ("Hello, world!", "café, naïve, 日本語, 🎉", "def f(): print('x')", "42, 3.14159", "ශ්‍රී ලංකාව"):
        ids = tokenizer.encode(text)
        print(f"  {text!r}: {len(ids)} tokens {tokenizer.tokenize(text)[:6]} …")
        _check("decodes to the same text", tokenizer.decode(ids) == text)

    _section("3. One spelling of each character (NFC)")
    _check("é has the same ids, composed or not", tokenizer.encode("caf\u00e9") == tokenizer.encode("cafe\u0301"))

    _section("4. Special tokens")
    text = "<|begin_of_text|>Hello!<|end_of_text|>"
    plain, special = tokenizer.encode(text), tokenizer.encode(text, allowed_special="all")
    print(f"  not allowed: {len(plain)} tokens; allowed: {special}")
    _check("text cannot forge a special token", not set(plain) & set(specials.values()))
    _check("they can be left out again", tokenizer.decode(special, skip_special_tokens=True) == "Hello!")

    _section("5. Batches: padding, truncation, tensors")
    texts = ["Short.", "A text of medium length.", "A text that is a good deal longer than the others in the batch."]
    batch = tokenizer(texts, padding=True, truncation=True, max_length=16)
    for ids, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True):
        print(f"  {len(ids)} ids, {sum(mask)} of them text")
    _check("all rows have the same length", len({len(ids) for ids in batch["input_ids"]}) == 1)
    arrays = tokenizer(texts, padding=True, return_tensors="np")
    _check("arrays hold one row for each text", arrays["input_ids"].shape[0] == len(texts))
    invalid: list[dict[str, Any]] = [{"truncation": True}, {"return_tensors": "np"}]
    for options in invalid:
        try:
            tokenizer(texts, **options)
        except SGPEError as error:
            print(f"  {options}: {error}")
        else:
            _check("invalid options are refused", False)

    _section("6. Decoding a batch without its padding")
    decoded = tokenizer.decode_batch(tokenizer(texts, padding=True)["input_ids"])
    _check("the texts come back", decoded == texts)

    _section("7. Chat templates")
    messages = [
        {"role": "system", "content": "You are helpful."},
        {"role": "user", "content": "What is BPE?<|eot_id|>"},
        {"role": "assistant", "content": "A way to split text."},
        {"role": "user", "content": "How does it work?"},
    ]
    for name in SPECIAL_TOKENS:
        rendered = tokenizer.apply_chat_template(messages, name, tokenize=False)
        print(f"  {name}: {json.dumps(rendered)[:100]}…")
    conversation = tokenizer.apply_chat_template(messages, "llama3")
    _check("a forged end of turn stays text", list(conversation).count(specials["<|eot_id|>"]) == len(messages))

    _section("8. Streams, cut anywhere")
    whole = "The quick brown fox jumps over the lazy dog; ශ්‍රී ලංකාව!"
    pieces = [whole.encode()[place : place + 5] for place in range(0, len(whole.encode()), 5)]
    _check("ids are those of the whole text", list(tokenizer.encode_streaming(pieces)) == tokenizer.encode(whole))
    shown = list(tokenizer.decode_stream(tokenizer.encode(whole)))
    print(f"  {shown[-8:]}")
    _check("text comes in whole characters", "".join(shown) == whole and "\ufffd" not in whole)

    _section("9. Saving and loading")
    tokenizer.save(folder / "saved")
    loaded = BPETokenizer.from_pretrained(folder / "saved")
    _check("the same ids", loaded.encode(whole) == tokenizer.encode(whole))
    _check("the same special tokens", loaded.special_tokens == tokenizer.special_tokens)
    _check("the same padding token", loaded.pad_token == "<|pad|>")

    _section("10. The vocabulary")
    print(f"  {tokenizer.vocab_size} tokens; 'H', 'i' → {tokenizer.convert_tokens_to_ids(['H', 'i'])}")
    print(f"  72, 105 → {tokenizer.convert_ids_to_tokens([72, 105])}")
    print(f"  'Hi there!' has {tokenizer.count_tokens('Hi there!')} tokens")
    shortened = [tokenizer.count_tokens(tokenizer.truncate(whole, limit)) for limit in range(12)]
    _check("truncated text keeps the limit", all(count <= limit for limit, count in enumerate(shortened)))

    _section("11. The cache of words")
    info = tokenizer.cache_info()
    print(f"  {info.hits} hits, {info.misses} misses ({info.hit_rate:.0%}), {info.words} words, {info.bytes:,} bytes")
    tokenizer.clear_cache()
    _check("it can be cleared", tokenizer.cache_info().words == 0)
    print("\nAll checks passed.")


if __name__ == "__main__":
    run_script(_run, __doc__)
