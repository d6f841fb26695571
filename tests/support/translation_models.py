"""A small translation model of NLLB's kind, with its tokenizer: BPE with an unknown token, and language codes."""

from collections.abc import Iterable
from pathlib import Path

import torch
import transformers

from support.sentencepiece_models import ModelProto, trained


def translation_folder(lines: Iterable[str], folder: Path) -> Path:
    """Write a model with random weights and the tokenizer that is trained on lines."""
    model = ModelProto.FromString(trained(list(lines), byte_fallback=False))
    pieces = [piece.piece for piece in model.pieces if piece.type == 1]
    vocab = {text: id for id, text in enumerate(["<s>", "<pad>", "</s>", "<unk>", *pieces])}
    cuts = ([(text[:place], text[place:]) for place in range(1, len(text))] for text in pieces)
    possible = ([cut for cut in pairs if set(cut) <= vocab.keys()] for pairs in cuts)
    merges = [pairs[0] for pairs in possible if pairs]
    tokenizer = transformers.NllbTokenizer(vocab=vocab, merges=merges, src_lang="eng_Latn")
    tokenizer.save_pretrained(folder)
    layers = dict.fromkeys(("encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads"), 1)
    size = dict.fromkeys(("d_model", "encoder_ffn_dim", "decoder_ffn_dim"), 16)
    torch.manual_seed(1)
    config = transformers.M2M100Config(vocab_size=len(tokenizer), **size, **layers)
    transformers.M2M100ForConditionalGeneration(config).save_pretrained(folder)
    return folder
