from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from support.corpora import conjunct_words, corpus
from support.texts import texts
from support.unit_level import UnitLevelEncoder

from hf_sgpe import (
    LinguisTrie,
    LinguisTriePreTokenizer,
    SGPEError,
    TrainingConfig,
    WordCounts,
    train_from_counts,
)
from hf_sgpe.bpe.unit_tier import ChosenUnits, order_units
from hf_sgpe.learning.observer import Observer
from hf_sgpe.learning.unit_choice import choose_units
from hf_sgpe.splitting.normalization import prepare

pytestmark = pytest.mark.kernels


def train(text, **options):
    config = TrainingConfig(**{"vocab_size": 1000, **options})
    return train_from_counts(WordCounts.from_texts(text if isinstance(text, list) else [text], config), config)


@pytest.fixture(scope="module", params=["hybrid", "sgpe"])
def sinhala(request):
    """A tokenizer trained on much Sinhala, and the units that have a token."""
    text = corpus("si", 400_000)
    config = TrainingConfig(vocab_size=5000, recipe=request.param, letter_coverage=0.9999, syllable_coverage=0.999)
    counts = WordCounts.from_texts([text], config)
    tokenizer = train_from_counts(counts, config)
    trie = LinguisTrie(whole_clusters=request.param == "hybrid")
    units = Counter(trie.tokenize(prepare(text, config.normalization), leading_space=True))
    coverage = {"letter_coverage": config.letter_coverage, "syllable_coverage": config.syllable_coverage}
    syllables = {unit: count for unit, count in units.items() if trie.script_of(unit)}
    chosen, characters = choose_units(syllables, trie, **coverage), "".join(syllables)
    if request.param == "sgpe":  # the document knows syllables; their letters come with them
        letters = {letter for unit in chosen.syllables for letter in trie.letters(unit)}
        chosen, characters = ChosenUnits(chosen.syllables, letters), ""
    known = set(order_units(chosen, trie, characters=characters))
    return tokenizer, trie, known, set(syllables) - known


def pieces(tokenizer, text):
    return [tokenizer.token_bytes(id) for id in tokenizer.encode(text)]


def test_known_units_come_out_whole(sinhala):
    tokenizer, _, known, unknown = sinhala
    assert len(known) > 5 * len(unknown) > 100
    for unit in known:
        assert pieces(tokenizer, unit) == [unit.encode()]


def test_known_syllables_come_out_whole_in_every_word(sinhala):
    tokenizer, trie, known, _ = sinhala
    for word in (prepare(word, "nfc") for word in conjunct_words()):
        place, ends = 0, set()
        for piece in pieces(tokenizer, f" {word}"):
            place += len(piece)
            ends.add(place)
        place = 0
        for unit in trie.tokenize(f" {word}", leading_space=True):
            start, place = place, place + len(unit.encode())
            if unit in known:
                assert not ends & set(range(start + 1, place)), (word, unit)


def test_tokens_equal_the_unit_level_encoders_where_units_are_known(sinhala):
    tokenizer, trie, known, _ = sinhala
    reference = UnitLevelEncoder(tokenizer, known)
    words, compared = {prepare(word, "nfc") for word in (*conjunct_words(), *corpus("si", 400_000).split())}, 0
    for word in words:
        units = trie.tokenize(f" {word}", leading_space=True)
        # Only words of the script: others are no sequence of units to the hybrid.
        if all(unit in known and trie.script_of(unit) for unit in units):
            compared += 1
            assert pieces(tokenizer, f" {word}") == [token.encode() for token in reference.tokens(units)], word
    assert compared > len(words) / 3


def test_no_rule_and_no_token_occurs_twice(sinhala):
    tokenizer = sinhala[0]
    assert len(set(tokenizer.merges)) == len(tokenizer.merges)
    assert len({left + right for left, right in tokenizer.merges}) == len(tokenizer.merges)
    assert len(tokenizer.vocab) == 256 + len(tokenizer.merges)


def test_unknown_syllables_fall_apart_and_round_trip(sinhala):
    tokenizer, _, _, unknown = sinhala
    # A few come out whole all the same: on the way to longer units, or because their pieces are often neighbours.
    assert sum(len(pieces(tokenizer, unit)) > 1 for unit in unknown) > len(unknown) / 2
    for unit in unknown:
        assert tokenizer.decode(tokenizer.encode(unit)) == unit


@pytest.fixture(scope="module", params=["hybrid", "sgpe", "bpe"])
def small(request, sample):
    return train(list(sample.values()), vocab_size=6000, recipe=request.param, normalization="none")


@given(text=texts)
def test_any_text_round_trips(small, text):
    assert small.decode(small.encode(text)) == text


def test_words_that_share_bytes_with_a_joiner_do_not_break_the_unit_tier():
    # U+2019 and U+200D share two bytes; were the pair learned again for "’", its later rank would undo the conjunct.
    tokenizer = train("ක්‍ර " * 50 + "it’s don’t we’re " * 500, vocab_size=400)
    assert len(set(tokenizer.merges)) == len(tokenizer.merges)
    assert tokenizer.tokenize("ක්‍ර") == [tokenizer.tokenize("ක්‍ර")[0]]


def test_hybrid_learns_words_of_other_scripts_from_bytes(sample):
    tokenizer = train(list(sample.values()), vocab_size=4000)
    assert tokenizer.decode(tokenizer.encode(" the")[:1]) == " the"


def test_sgpe_keeps_every_other_character_alone_with_its_space():
    tokenizer = train("ab cd ab cd ක ක " * 20, vocab_size=320, recipe="sgpe", min_frequency=1)
    assert [tokenizer.decode([id]) for id in tokenizer.encode("ab cd")] == ["a", "b", " c", "d"]


def test_sgpe_units_below_the_frequency_take_no_part_in_pairs():
    # The rare syllable stands between two frequent ones; no merge may reach over or into it.
    text = "කමල " * 30 + "කෂිල " * 2
    tokenizer = train(text, recipe="sgpe", min_unit_frequency=10, min_frequency=1, vocab_size=300)
    assert tokenizer.decode(tokenizer.encode(" කෂිල")[:1]) == " ක"
    assert not [pair for pair in tokenizer.merges if "ෂිල".encode() in pair[0] + pair[1]]
    # Were the two neighbours of the rare unit taken for neighbours of each other, " කල" would be a token.
    assert " කල".encode() not in tokenizer.vocab


def test_merges_of_the_statistical_tier_equal_those_of_units(sample):
    """Training over units, with syllables as opaque symbols, learns the same merges as the bytes do."""
    from hf_sgpe.bpe.trainer import learn_merges

    text = [sample["si"]]
    config = TrainingConfig(
        vocab_size=20_000,
        recipe="sgpe",
        letter_coverage=1,
        syllable_coverage=1,
        tie_break="greatest-pair-bytes",
        min_frequency=3,
    )
    counts = WordCounts.from_texts(text, config)
    tokenizer = train_from_counts(counts, config)
    segment = LinguisTriePreTokenizer(config.scripts, None).segment
    units = sorted({unit for word in counts for unit in segment(word.decode())})
    ids = {unit: number for number, unit in enumerate(units)}
    words = [[ids[unit] for unit in segment(word.decode())] for word in counts]
    merges = learn_merges(
        words,
        [counts[word] for word in counts],
        vocabulary=[unit.encode() for unit in units],
        num_merges=10_000,
        tie_break="greatest-pair-bytes",
        min_frequency=3,
    )
    tokens = [unit.encode() for unit in units]
    for left, right in merges:
        tokens.append(tokens[left] + tokens[right])
    learned = [(tokens[left], tokens[right]) for left, right in merges]
    assert len(learned) > 300
    assert tokenizer.merges[-len(learned) :] == learned
    # What comes before are the unit tier's merges, each within one unit.
    for left, right in tokenizer.merges[: -len(learned)]:
        assert any((left + right) in unit.encode() for unit in units)


@pytest.mark.parametrize("position", ["end", "start", "after-bytes"])
def test_special_tokens_lie_where_asked(position):
    specials = ("<|a|>", "<|b|>")
    tokenizer = train(
        "low lower " * 9, vocab_size=262, recipe="bpe", special_tokens=specials, special_tokens_position=position
    )
    ids = [tokenizer.special_tokens[token] for token in specials]
    assert ids == {"end": [260, 261], "start": [0, 1], "after-bytes": [256, 257]}[position]
    assert sorted([*tokenizer.vocab.values(), *ids]) == list(range(262))
    ranks = [tokenizer.vocab[bytes([byte])] for byte in range(256)]
    ranks += [tokenizer.vocab[left + right] for left, right in tokenizer.merges]
    assert ranks == sorted(ranks)


def test_special_tokens_are_never_learned_from():
    tokenizer = train("<|end|>ab<|end|>ab" * 50, vocab_size=258, recipe="bpe", special_tokens=("<|end|>",), pattern="bloom")
    assert tokenizer.merges == [(b"a", b"b")]


def test_recipe_defaults():
    assert TrainingConfig(vocab_size=999).normalization == "nfc"
    assert TrainingConfig(vocab_size=999, recipe="bpe").normalization == "none"
    sgpe = TrainingConfig(vocab_size=999, recipe="sgpe")
    assert (sgpe.special_tokens_position, sgpe.special_tokens) == ("start", ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"))
    assert TrainingConfig(vocab_size=999, recipe="sgpe", special_tokens=()).special_tokens == ()


def test_normalization_is_an_option():
    decomposed = "ක\u0dd9\u0dcf"  # a vowel sign in two parts
    assert train(decomposed * 9, vocab_size=300).encode(decomposed) == train(decomposed * 9, vocab_size=300).encode("කො")
    assert (
        train(decomposed * 9, vocab_size=300, normalization="none").decode(
            train(decomposed * 9, vocab_size=300, normalization="none").encode(decomposed)
        )
        == decomposed
    )


def test_config_survives_json():
    config = TrainingConfig(vocab_size=999, scripts=["tamil"], special_tokens=["<|x|>"])
    assert TrainingConfig.from_dict({**config.to_dict(), "from the future": 1}) == config
    config = TrainingConfig(vocab_size=999, eos_token="<|x|>", pad_token="<|y|>", model_max_length=8)
    assert config.special_tokens == ("<|endoftext|>", "<|x|>", "<|y|>")
    assert TrainingConfig.from_dict(config.to_dict()) == config
    assert replace(TrainingConfig(vocab_size=999), chat_template="chatml").roles()["eos_token"] == "<|im_end|>"


def test_a_vocabulary_too_small_for_the_units_says_what_would_do(sample):
    with pytest.raises(SGPEError, match=r"vocab_size 300 .* at least (\d+)") as caught:
        train(sample["si"], vocab_size=300)
    least = int(str(caught.value).split("at least ")[1].split(",")[0])
    assert train(sample["si"], vocab_size=least).vocab_size == least
    with pytest.raises(SGPEError, match="too small"):
        train(sample["si"], vocab_size=least - 1)


@pytest.mark.parametrize(("times", "merges"), [(7, []), (9, [(b"a", b"b")])])
def test_merges_are_as_frequent_in_weighted_counts_as_in_plain_ones(times, merges):
    config = TrainingConfig(vocab_size=300, recipe="bpe", min_frequency=4)
    counts = WordCounts.from_texts(["ab"] * times, config) * 0.5
    assert train_from_counts(counts, config).merges == merges


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recipe": "x"}, "recipe 'x'"),
        ({"scripts": ["x"]}, "unknown script 'x': give its name"),
        ({"scripts": []}, "at least one"),
        ({"scripts": "tamil"}, "scripts must be a list"),
        ({"pattern": "x"}, "split pattern 'x'"),
        ({"tie_break": "x"}, "tie_break 'x'"),
        ({"normalization": "nfd"}, "normalization 'nfd'"),
        ({"special_tokens_position": "x"}, "special_tokens_position 'x'"),
        ({"vocab_size": 256}, "at least 257"),
        ({"vocab_size": 1000.5}, "vocab_size must be a whole number"),
        ({"special_tokens": ["<\ud800>"]}, "lone surrogate"),
        ({"special_tokens": [5]}, "special tokens must be strings"),
        ({"letter_coverage": 1.5}, "letter_coverage must be between 0 and 1"),
        ({"min_frequency": 0}, "min_frequency must be"),
        ({"eos_token": 5}, "eos_token must be a string, not 5"),
        ({"pad_token": "a"}, "'a' .* b'a'"),
        ({"pad_token": "<|x|>", "vocab_size": 257}, "at least 258"),
        ({"pad_token": "<|x|>", "special_tokens": {"<|y|>": 5}}, "pad_token .* <\\|x\\|>"),
        ({"model_max_length": 0}, "model_max_length .* 0"),
        ({"special_tokens": [""]}, "a special token cannot be empty"),
        ({"special_tokens": ["<|a|>", "<|a|>"]}, "occurs twice: give it once"),
    ],
)
def test_bad_configurations_are_named(options, message):
    with pytest.raises(SGPEError, match=message):
        TrainingConfig(**{"vocab_size": 999, **options})


@pytest.mark.parametrize(
    "options",
    [
        {"vocab_size": 257},
        {"recipe": "bpe", "vocab_size": 256, "special_tokens": []},
        {"pad_token": "<|x|>", "vocab_size": 258},
        {"min_frequency": 1},
        {"min_unit_frequency": 1},
        {"model_max_length": 1},
        {"cut_cost": 0},
        {"letter_coverage": 0},
        {"letter_coverage": 1, "syllable_coverage": 1},
    ],
)
def test_the_least_values_are_allowed(options):
    config = TrainingConfig(**{"vocab_size": 999, **options})
    for name, value in options.items():
        assert getattr(config, name) == (tuple(value) if isinstance(value, list) else value)


def test_a_script_left_out_is_noticed(sample, caplog):
    train([sample["si"], sample["hi"]], vocab_size=3000)
    assert "of the words are in devanagari, which is not among the scripts" in caplog.text
    caplog.clear()
    train([sample["si"], sample["en"]], vocab_size=3000)
    assert "not among the scripts" not in caplog.text


def test_a_single_string_is_no_iterable_of_texts():
    config = TrainingConfig(vocab_size=999)
    with pytest.raises(SGPEError, match="not a single string"):
        WordCounts.from_texts("hello", config)
    with pytest.raises(SGPEError, match=r"item 1 .* bytes"):
        WordCounts.from_texts(["hello", b"hello"], config)


def test_an_empty_corpus_is_named():
    with pytest.raises(SGPEError, match="the corpus is empty"):
        train([])


@pytest.fixture(scope="module")
def some_sinhala(sample):
    return [sample["si"], sample["en"]]


def cut_syllables(tokenizer, text):
    """How many running syllables have no token of their own."""
    units = LinguisTrie(whole_clusters=True).tokenize(prepare(text, "nfc"), leading_space=True)
    return sum(unit.strip(" ").encode() not in tokenizer.vocab for unit in units if LinguisTrie().script_of(unit))


def test_a_higher_cut_cost_cuts_less_and_takes_more_tokens(some_sinhala):
    costs = [0, 2, 20]
    tokenizers = [train(some_sinhala, vocab_size=1500, cut_cost=cost) for cost in costs]
    cuts = [cut_syllables(tokenizer, some_sinhala[0]) for tokenizer in tokenizers]
    lengths = [sum(map(tokenizer.count_tokens, some_sinhala)) for tokenizer in tokenizers]
    assert cuts[0] > cuts[1] > cuts[2]
    assert lengths == sorted(lengths)
    assert all(tokenizer.vocab_size == 1500 for tokenizer in tokenizers)


def test_the_default_is_a_cut_cost_of_two(some_sinhala):
    default, explicit = train(some_sinhala, vocab_size=1500), train(some_sinhala, vocab_size=1500, cut_cost=2.0)
    assert default.merges == explicit.merges
    assert default.metadata["training"]["cut_cost"] == 2
    assert default.metadata["training"]["letter_coverage"] is None


def test_units_worth_less_than_a_learned_token_have_none(some_sinhala):
    """The last unit saves at least what the first that was left out would save, of either kind."""
    from hf_sgpe.learning.unit_choice import worth_of_units

    gains = []
    config = TrainingConfig(vocab_size=1500)
    counts = WordCounts.from_texts(some_sinhala, config)
    tokenizer = train_from_counts(counts, config, observer=Observer(merged=lambda id, pair, count: gains.append(count)))
    trie = LinguisTrie(whole_clusters=True)
    worth = worth_of_units(trie.count_units(list(counts), list(counts.values())), trie, 2)
    kept = {unit for unit in worth if unit.encode() in tokenizer.vocab}
    dearest_left_out = max(worth[unit] for unit in worth.keys() - kept)
    # The first pass only estimates what tokens will be learned, and some units come as steps to others.
    assert dearest_left_out <= 1.35 * gains[-1]
    assert sum(worth[unit] < 0.75 * gains[-1] for unit in kept) < 0.05 * len(kept)


def test_room_for_all_units_gives_all_of_them_a_token():
    tokenizer = train(["ශ්‍රී ලංකාව ස්ත්‍රී"] * 2, vocab_size=10_000)
    assert cut_syllables(tokenizer, "ශ්‍රී ලංකාව ස්ත්‍රී") == 0


@pytest.mark.parametrize("vocab_size", [300, 330, 400])
def test_a_small_vocabulary_keeps_what_it_has_room_for(vocab_size, some_sinhala):
    tokenizer = train(some_sinhala, vocab_size=vocab_size + 40)
    assert tokenizer.vocab_size == vocab_size + 40
    assert tokenizer.decode(tokenizer.encode(some_sinhala[0])) == prepare(some_sinhala[0], "nfc")


def test_no_room_for_characters_says_how_much_they_need(some_sinhala):
    with pytest.raises(SGPEError, match=r"vocab_size 270 .* \d+ tokens") as error:
        train(some_sinhala, vocab_size=270)
    needed = int(str(error.value).rpartition(" ")[2])
    assert train(some_sinhala, vocab_size=needed).vocab_size == needed
    with pytest.raises(SGPEError, match="is too small"):
        train(some_sinhala, vocab_size=needed - 1)


def test_coverage_is_a_promise_beside_a_cut_cost_and_decides_alone_without_one(some_sinhala):
    cheap = train(some_sinhala, vocab_size=1500, cut_cost=0)
    promised = train(some_sinhala, vocab_size=1500, cut_cost=0, letter_coverage=1)
    letters = {letter for unit in LinguisTrie().tokenize(some_sinhala[0]) for letter in LinguisTrie().letters(unit)}
    sinhala = [letter for letter in letters if LinguisTrie().script_of(letter)]
    assert any(letter.encode() not in cheap.vocab for letter in sinhala)
    assert all(letter.encode() in promised.vocab for letter in sinhala)
    alone = train(some_sinhala, vocab_size=3000, letter_coverage=0.9)
    config = alone.metadata["training"]
    assert (config["cut_cost"], config["letter_coverage"], config["syllable_coverage"]) == (None, 0.9, 0.999)


def test_text_without_letters_of_the_scripts_has_no_first_pass():
    tokenizer = train(["low lower lowest"] * 9, vocab_size=262)
    assert tokenizer.merges == train(["low lower lowest"] * 9, vocab_size=262, recipe="bpe", normalization="nfc").merges


def test_the_steps_of_units_take_room_in_the_vocabulary():
    """Stacks of five consonants need many steps each: as many are kept as there is room for, and learning fills the rest."""
    import itertools

    stacks = ["्".join(one) for one in itertools.islice(itertools.permutations("कखगघङचछजझञट", 5), 600)]
    tokenizer = train([" ".join(stacks)] * 3, vocab_size=1000, scripts=("devanagari",))
    kept = sum(stack.encode() in tokenizer.vocab for stack in stacks)
    assert tokenizer.vocab_size > 990
    assert kept > 300
