"""Small Unigram and WordPiece tokenizers in folders, as their models have them."""

import json
from collections.abc import Iterable
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

KINDS = ("Unigram", "WordPiece")


def piece_folder(kind: str, lines: Iterable[str], folder: Path, *, uncased: bool = False, own_class: bool = True) -> Path:
    """Write a tokenizer that is trained on lines. The last token of Unigram, ``<mask>``, is not in the list of pieces.

    Args:
        own_class: Whether the settings name the class of the model. XLM-R's class has another normalizer than this file.
    """
    tokenizer = _unigram(list(lines)) if kind == "Unigram" else _word_piece(list(lines), uncased=uncased)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    name = "XLMRobertaTokenizer" if kind == "Unigram" else "BertTokenizer"
    settings = {"tokenizer_class": name if own_class else "PreTrainedTokenizerFast", "model_max_length": 64}
    if kind == "Unigram":
        settings |= {"cls_token": "<s>", "sep_token": "</s>", "unk_token": "<unk>"}
        settings |= {"pad_token": "<pad>", "mask_token": "<mask>"}
    else:
        settings |= {"do_lower_case": uncased, "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
        settings |= {"pad_token": "[PAD]", "mask_token": "[MASK]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


def _unigram(lines: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace("\u200b", " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(vocab_size=400, special_tokens=special, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return tokenizer


def _word_piece(lines: list[str], *, uncased: bool) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=uncased, strip_accents=uncased)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=400, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer
