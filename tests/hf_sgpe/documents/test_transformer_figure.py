import pytest

from hf_sgpe import SGPETokenizerFast, TrainingConfig, WordCounts, train_from_counts

torch = pytest.importorskip("torch", reason="the model of the figure needs PyTorch: pip install torch")


# Articles 1, 3, 4 and 15 of the Universal Declaration of Human Rights.
PAIRS = [
    (
        "All human beings are born free and equal in dignity and rights.",
        "සියලු මනුෂ්‍යයෝ නිදහස්ව උපත ලබා ඇත. ගරුත්වයෙන් හා අයිතිවාසිකම්වලින් සමාන වෙති.",
    ),
    (
        "Everyone has the right to life, liberty and security of person.",
        "प्रत्येक व्यक्ति को जीवन, स्वाधीनता और वैयक्तिक सुरक्षा का अधिकार है।",
    ),
    ("No one shall be held in slavery or servitude.", "Niemand darf in Sklaverei oder Leibeigenschaft gehalten werden."),
    ("Everyone has the right to a nationality.", "Tout individu a droit à une nationalité."),
]
SOURCES, TARGETS = zip(*PAIRS, strict=True)


@pytest.fixture(scope="module")
def tokenizer(sample):
    config = TrainingConfig(
        vocab_size=2500,
        scripts=("sinhala", "devanagari", "tamil"),
        letter_coverage=0.99,
        syllable_coverage=0.9,
        special_tokens=("<s>", "</s>", "<pad>"),
    )
    return train_from_counts(WordCounts.from_texts([*SOURCES * 3, *TARGETS * 3, *sample.values()], config), config)


def ended(tokenizer, texts):
    """Input ids and attention mask of texts, each with the token that ends it."""
    return tokenizer([f"{text}</s>" for text in texts], allowed_special="all", padding=True, return_tensors="pt")


@pytest.fixture(scope="module")
def batch(tokenizer):
    return ended(tokenizer, SOURCES)


@pytest.fixture(scope="module")
def targets(tokenizer):
    return ended(tokenizer, TARGETS)


def test_text_becomes_ids_the_same_by_both_tokenizers(tokenizer, batch):
    fast = SGPETokenizerFast.from_bpe(tokenizer)
    theirs = fast([f"{text}</s>" for text in SOURCES], padding=True, return_tensors="pt")
    assert torch.equal(theirs["input_ids"], batch["input_ids"])
    assert torch.equal(theirs["attention_mask"], batch["attention_mask"])
    assert batch["input_ids"].dtype == torch.int64
    assert 0 <= batch["input_ids"].min() <= batch["input_ids"].max() < len(tokenizer)
    assert tokenizer.decode_batch(batch["input_ids"].tolist(), skip_special_tokens=True) == list(SOURCES)
    assert batch["attention_mask"].sum(dim=1).tolist() == [tokenizer.count_tokens(text) + 1 for text in SOURCES]


def test_training_lowers_the_loss_and_the_model_learns_to_translate(tokenizer, batch, targets):
    from transformers import BartConfig, BartForConditionalGeneration

    torch.manual_seed(1)
    sides = ("encoder", "decoder")
    config = BartConfig(
        vocab_size=len(tokenizer),
        d_model=64,
        **{f"{side}_layers": 2 for side in sides},
        **{f"{side}_attention_heads": 4 for side in sides},
        **{f"{side}_ffn_dim": 128 for side in sides},
        max_position_embeddings=128,
        dropout=0.0,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        decoder_start_token_id=tokenizer.bos_token_id,
        forced_eos_token_id=None,
        init_std=0.1,
    )
    model = BartForConditionalGeneration(config).train()
    labels = targets["input_ids"].masked_fill(targets["attention_mask"] == 0, -100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(60):
        loss = model(**batch, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.1 * losses[0]

    generated = model.eval().generate(**batch, max_new_tokens=labels.shape[1] + 5, do_sample=False, num_beams=1)
    texts = tokenizer.decode_batch(generated.tolist(), skip_special_tokens=True)
    assert set(texts) & set(TARGETS)
