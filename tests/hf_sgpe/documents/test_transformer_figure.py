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
WIDTH = 64


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


@pytest.fixture(scope="module")
def make_model(tokenizer):
    from transformers import BartConfig, BartForConditionalGeneration

    def make():
        torch.manual_seed(1)
        config = BartConfig(
            vocab_size=len(tokenizer),
            d_model=WIDTH,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=2 * WIDTH,
            decoder_ffn_dim=2 * WIDTH,
            max_position_embeddings=128,
            dropout=0.0,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            decoder_start_token_id=tokenizer.bos_token_id,
            forced_eos_token_id=None,
            init_std=0.1,
            attn_implementation="eager",
        )
        return BartForConditionalGeneration(config).eval()

    return make


@pytest.fixture(scope="module")
def model(make_model):
    return make_model()


def ended(tokenizer, texts):
    """Input ids and attention mask of texts, each with the token that ends it."""
    return tokenizer([f"{text}</s>" for text in texts], allowed_special="all", padding=True, return_tensors="pt")


@pytest.fixture(scope="module")
def batch(tokenizer):
    return ended(tokenizer, SOURCES)


@pytest.fixture(scope="module")
def targets(tokenizer):
    return ended(tokenizer, TARGETS)


def shifted_right(tokenizer, ids):
    start = torch.full((len(ids), 1), tokenizer.bos_token_id)
    return torch.cat([start, ids[:, :-1]], dim=1)


@pytest.fixture(scope="module")
def outputs(model, tokenizer, batch, targets):
    with torch.no_grad():
        decoder_input_ids = shifted_right(tokenizer, targets["input_ids"])
        return model(**batch, decoder_input_ids=decoder_input_ids, output_attentions=True, output_hidden_states=True)


def test_text_becomes_ids_the_same_by_both_tokenizers(tokenizer, batch):
    fast = SGPETokenizerFast.from_bpe(tokenizer)
    theirs = fast([f"{text}</s>" for text in SOURCES], padding=True, return_tensors="pt")
    assert torch.equal(theirs["input_ids"], batch["input_ids"])
    assert torch.equal(theirs["attention_mask"], batch["attention_mask"])
    assert batch["input_ids"].dtype == torch.int64
    assert 0 <= batch["input_ids"].min() <= batch["input_ids"].max() < len(tokenizer)
    assert tokenizer.decode_batch(batch["input_ids"].tolist(), skip_special_tokens=True) == list(SOURCES)
    assert batch["attention_mask"].sum(dim=1).tolist() == [tokenizer.count_tokens(text) + 1 for text in SOURCES]


def test_ids_become_vectors_by_look_up_and_positions_are_added(model, batch, outputs):
    ids = batch["input_ids"]
    table = model.get_input_embeddings().weight
    vectors = model.get_input_embeddings()(ids)
    assert vectors.shape == (*ids.shape, WIDTH)
    assert torch.equal(vectors, table[ids])
    assert outputs.encoder_hidden_states[0].shape == vectors.shape
    repeated = torch.full((1, 5), int(ids[0, 0]))
    with torch.no_grad():
        represented = model.get_encoder()(repeated, output_hidden_states=True).hidden_states[0][0]
    assert not torch.isclose(represented[0], represented[1]).all()


def test_the_encoder_gives_a_vector_for_each_token_in_its_context(model, batch, outputs):
    encoded = outputs.encoder_last_hidden_state
    assert encoded.shape == (*batch["input_ids"].shape, WIDTH)
    with torch.no_grad():
        for row, (ids, mask) in enumerate(zip(batch["input_ids"], batch["attention_mask"], strict=True)):
            length = int(mask.sum())
            alone = model.get_encoder()(ids[None, :length]).last_hidden_state[0]
            assert torch.allclose(alone, encoded[row, :length], atol=1e-5)  # padding takes no part
        changed = batch["input_ids"].clone()
        changed[0, 5] += 1
        other = model.get_encoder()(changed, attention_mask=batch["attention_mask"]).last_hidden_state
    assert not torch.isclose(other[0, 0], encoded[0, 0]).all()  # each token sees all the others
    assert torch.equal(other[1:], encoded[1:])


def test_the_decoder_is_given_the_target_shifted_right(model, tokenizer, batch, targets):
    labels = targets["input_ids"]
    expected = shifted_right(tokenizer, labels)
    assert torch.equal(model.prepare_decoder_input_ids_from_labels(labels), expected)
    with torch.no_grad():
        by_labels = model(**batch, labels=labels).logits
        by_hand = model(**batch, decoder_input_ids=expected).logits
    assert torch.equal(by_labels, by_hand)


def test_later_target_tokens_change_nothing_earlier(model, tokenizer, batch, targets, outputs):
    shifted = shifted_right(tokenizer, targets["input_ids"])
    decoded = outputs.decoder_hidden_states[-1]
    assert decoded.shape == (*shifted.shape, WIDTH)
    for place in (1, 4, shifted.shape[1] - 1):
        changed = shifted.clone()
        changed[:, place:] = (changed[:, place:] + 7) % 256
        with torch.no_grad():
            other = model(**batch, decoder_input_ids=changed, output_hidden_states=True).decoder_hidden_states[-1]
        assert torch.allclose(other[:, :place], decoded[:, :place], atol=1e-5)
        assert not torch.isclose(other[:, place], decoded[:, place]).all()


def test_attention_is_masked_in_the_decoder_and_reaches_the_source(batch, targets, outputs):
    source, target = batch["input_ids"].shape[1], targets["input_ids"].shape[1]
    for weights in outputs.decoder_attentions:
        assert weights.shape == (len(PAIRS), 4, target, target)
        assert torch.count_nonzero(weights.triu(1)) == 0
        assert torch.allclose(weights.sum(-1), torch.ones(()), atol=1e-5)
    hidden = batch["attention_mask"][:, None, None, :] == 0
    for weights in outputs.cross_attentions:
        assert weights.shape == (len(PAIRS), 4, target, source)
        assert weights.masked_select(hidden).max() < 1e-6


def test_the_decoder_depends_on_the_source(model, tokenizer, batch, targets, outputs):
    swapped = {name: tensor.flip(0) for name, tensor in batch.items()}
    with torch.no_grad():
        other = model(**swapped, decoder_input_ids=shifted_right(tokenizer, targets["input_ids"])).logits
    assert not torch.isclose(other[:, 0], outputs.logits[:, 0]).all()


def test_softmax_gives_probabilities_of_the_next_token_over_the_vocabulary(tokenizer, targets, outputs):
    assert outputs.logits.shape == (*targets["input_ids"].shape, len(tokenizer))
    probabilities = outputs.logits.softmax(dim=-1)
    assert torch.all(probabilities >= 0)
    assert torch.allclose(probabilities.sum(dim=-1), torch.ones(targets["input_ids"].shape), atol=1e-5)
    predicted = probabilities.argmax(dim=-1)
    for id in predicted.flatten().tolist():
        assert tokenizer.decode([id]) == tokenizer.token_bytes(id).decode(errors="replace")
        assert tokenizer.convert_ids_to_tokens(id)


def test_training_lowers_the_loss_and_the_model_learns_to_translate(make_model, tokenizer, batch, targets):
    model = make_model().train()
    labels = targets["input_ids"].masked_fill(targets["attention_mask"] == 0, -100)
    decoder_input_ids = shifted_right(tokenizer, targets["input_ids"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(60):
        loss = model(**batch, decoder_input_ids=decoder_input_ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.1 * losses[0]

    generated = model.eval().generate(**batch, max_new_tokens=labels.shape[1] + 5, do_sample=False, num_beams=1)
    texts = tokenizer.decode_batch(generated.tolist(), skip_special_tokens=True)
    assert set(texts) & set(TARGETS)
