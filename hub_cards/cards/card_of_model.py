"""The card of a model in a folder: a README.md file with metadata for the Hub."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hf_sgpe.errors import SGPEError
from hf_sgpe.evaluation.languages import language_in_name
from hf_sgpe.evaluation.measurable import tokenizer_in
from hf_sgpe.files.atomic import write_text
from hf_sgpe.files.folder_contents import MODULES_FILE, SENTENCES, SPEECH
from hf_sgpe.files.hub import check_name, download, split_name
from hf_sgpe.files.json_files import optional_json, read_json
from hf_sgpe.formats.piece_folder import PieceFolder
from hf_sgpe.tokenizer import BPETokenizer
from hf_sgpe.weights.safetensors_files import INDEX_FILE, WEIGHTS_FILE
from hub_cards.cards.evaluation_results import TaskResult, benchmark_files, read_results, training_results
from hub_cards.cards.seal import CARD_FILE, CARD_MARK, seal
from hub_cards.cards.tokenizer_card import check_card, check_metadata, language_fields
from hub_cards.markup import listed, render

MODEL_CONFIG_FILE, REPORT_FILE = "config.json", "transplant.json"

# The Hub's task of a model, keyed by the end of the name of its class.
_TASKS = {
    "AutoModelForCausalLM": "text-generation",
    SPEECH: "automatic-speech-recognition",
    "AutoModelForSeq2SeqLM": "text-generation",  # of which text2text-generation is now a subtask
    "ForConditionalGeneration": "image-text-to-text",
    "ForMaskedLM": "fill-mask",
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForQuestionAnswering": "question-answering",
    SENTENCES: "sentence-similarity",
    "Model": "feature-extraction",
}

# Metadata fields that a model inherits from the card of its base model.
_INHERITED = ("license", "license_name", "license_link", "language", "language_bcp47")
# The key, the format and the unit of each measure, keyed by title.
_PAIRS: dict[str, tuple[str, str, float]] = {
    "bits per byte": ("bits_per_byte", ".4f", 1),
    "tokens per word": ("tokens_per_word", ".3f", 1),
    "characters per token": ("characters_per_token", ".2f", 1),
    "cache, MB": ("cache_bytes", ".2f", 1e6),
}
# The sizes, in the same form. In 16 bits, a parameter takes two bytes.
_SIZES: dict[str, tuple[str, str, float]] = {
    "parameters": ("parameters", ",.0f", 1),
    "weights on disk, MB": ("bytes", ",.1f", 1e6),
    "weights in memory in 16 bits, MB": ("parameters", ",.1f", 5e5),
}


def holds_model(folder: Path) -> bool:
    """Return whether a folder has a model: a configuration, and weights as safetensors or in PyTorch's format."""
    weights = (WEIGHTS_FILE, INDEX_FILE, "*.bin")
    return (folder / MODEL_CONFIG_FILE).is_file() and any(any(folder.glob(name)) for name in weights)


def model_readme(
    name: str,
    source: str,
    auto_class: str,
    tokenizer: BPETokenizer | PieceFolder,
    report: Mapping[str, Any],
    metadata: Mapping[str, Any],
    tags: Sequence[str] = (),
    trained: Sequence[tuple[str, float, float]] = (),
    results: Sequence[TaskResult] = (),
) -> str:
    """Return the card of a model as Markdown with YAML metadata and a seal.

    Args:
        source: Path or ``user/name`` that the code in the card loads.
        auto_class: The transformers class that loads the model, or ``SentenceTransformer``.
        report: The content of ``transplant.json``; empty if the model was not transplanted.
        metadata: Known fields of the Hub's metadata: ``language``, ``license``, ``base_model``, ….
        trained: Bits per byte before and after training, as in `training_results`.
        results: Results for the model index. It also has those after the transplant and after training.
    """
    from huggingface_hub import ModelCardData

    kinds, task = [], next((task for ending, task in _TASKS.items() if auto_class.endswith(ending)), None)
    settings = tokenizer.settings if isinstance(tokenizer, PieceFolder) else tokenizer.data.settings
    if auto_class == "AutoModelForSeq2SeqLM" and "src_lang" in settings:
        task = "translation"
    if report:
        kinds.append("vocabulary-extension" if report["new_rows"] else "vocabulary-trimming")
    texts = report.get("texts", {})
    measured = {text: one["after"]["bits_per_byte"] for text, one in texts.items()} | {text: one for text, _, one in trained}
    own = {result.task for result in results if not result.setting}
    index = [TaskResult(text, "bits_per_byte", bits) for text, bits in measured.items() if text not in own]
    index += results
    if "base_model" in metadata:
        metadata = {**metadata, "base_model_relation": "finetune"}
    data = ModelCardData(
        model_name=name if index else None,
        eval_results=[result.for_model_index() for result in index] or None,
        library_name="sentence-transformers" if auto_class == SENTENCES else "transformers",
        pipeline_tag=task,
        tags=list(dict.fromkeys(("hf_sgpe", *kinds, *tags))),
        **metadata,
    )
    card = render(
        "model.md.jinja",
        yaml=data.to_yaml().strip(),
        mark=CARD_MARK,
        name=name,
        source=source,
        auto_class=auto_class,
        vocab_size=tokenizer.vocab_size,
        report=report,
        # The base model if it is on the Hub. The names of local folders are not published.
        base=str(metadata.get("base_model") or "the base model"),
        sizes=_sizes(report.get("size") or {}),
        table=table_of(texts),
        trained=[(text, f"{before:.4f}", f"{after:.4f}") for text, before, after in trained],
        measured_on=listed(f"{one['before']['characters']:,} characters of {text}" for text, one in texts.items()),
    )
    return seal(card, tokenizer)


def _sizes(size: Mapping[str, Mapping[str, float]]) -> list[list[str]]:
    """Return table rows with the size of the model before and after the transplant, if it is known and changed."""
    if not size or size["before"] == size["after"]:
        return []
    rows = []
    for name, (key, form, unit) in _SIZES.items():
        before, after = (size[when][key] / unit for when in ("before", "after"))
        rows.append([name, format(before, form), format(after, form), f"{after / before - 1:+.1%}"])
    return rows


def table_of(texts: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[list[str]]:
    """Return the rows of a table with measurements before and after the transplant: the heading, then one row per text.

    Args:
        texts: The measurements ``before`` and ``after``, keyed by text, as in ``transplant.json``.
    """
    rows = [["text", *_PAIRS, "on new tokens"]]
    for name, scores in texts.items():
        both = scores["before"], scores["after"]
        pairs = (
            " → ".join("–" if one[key] is None else format(one[key] / unit, form) for one in both)
            for key, form, unit in _PAIRS.values()
        )
        rows.append([name, *pairs, f"{both[1]['watched']:.3%}"])
    return rows


def inherited_metadata(base: str, texts: Iterable[str] = ()) -> dict[str, Any]:
    """Return the metadata that a model inherits from its base model (name, licence and languages).

    Args:
        base: Folder or Hub repository of the base model. If ``base`` is a folder, the name is that of its own base model.
        texts: Names of the measured texts. Languages in these names are added to the languages of the model.
    """
    from huggingface_hub import metadata_load

    is_folder = Path(base).exists()
    repo, revision = (base, None) if is_folder else split_name(base)
    metadata: dict[str, Any] = {} if is_folder else {"base_model": repo}
    try:
        card = Path(base) / CARD_FILE if is_folder else download(repo, CARD_FILE, revision=revision)
        known = metadata_load(card) or {}
    except (SGPEError, ValueError, OSError):  # there is no card, or its metadata has another form
        known = {}
    metadata = {name: known[name] for name in ("base_model", *_INHERITED) if name in known} | metadata
    languages = metadata.get("language") or []
    languages = [languages] if isinstance(languages, str) else languages
    languages = list(dict.fromkeys([*languages, *filter(None, map(language_in_name, texts))]))
    return metadata | language_fields(languages)


def missing_metadata(folder: Path) -> list[str]:
    """Return the usual metadata fields that the model card in a folder lacks; none for a folder without a model."""
    from huggingface_hub import metadata_load

    if not holds_model(folder):
        return []
    try:
        known = (metadata_load(folder / CARD_FILE) if (folder / CARD_FILE).is_file() else None) or {}
    except ValueError:  # the Hub reports the error
        return []
    return [name for name in ("license", "base_model", "language", "tags") if name not in known]


def write_model_card(
    folder: str,
    *,
    name: str | None = None,
    license: str | None = None,
    languages: Sequence[str] = (),
    datasets: Sequence[str] = (),
    base_model: str | None = None,
    tags: Sequence[str] = (),
    results: Sequence[str] = (),
    benchmarks: Sequence[str] = (),
    replace: bool = False,
) -> list[str]:
    """Write README.md into the folder of a model, with code that loads it, the measurements in ``transplant.json`` and those
    during training.

    Args:
        name: ``user/name`` that the code in the card loads; None for the folder itself.
        license: Licence identifier of the Hub; None for the licence in the base model's card.
        languages: Codes of the model's languages; if empty, the languages of the base model and of the measured texts.
        datasets: Hub names of the training data.
        base_model: Hub name or folder of the base model; None for that in ``transplant.json`` or in the present card.
        results: Files with results of evaluations, as in `read_results`.
        benchmarks: The benchmarks on the Hub to which ``results`` belong, as in `benchmark_files`.
        replace: Whether to overwrite a README.md that a person wrote or changed.

    Returns:
        The names of the files written.
    """
    path = Path(folder)
    tokenizer = tokenizer_in(path)
    report, trained = optional_json(path / REPORT_FILE), training_results(path)
    found = [result for file in results for result in read_results(file, path, name)]
    files = benchmark_files(benchmarks, found)
    check_card(path, tokenizer, measured=bool(found or trained or report.get("texts")), replace=replace)
    check_metadata(license, languages)
    for repo in (*datasets, *([base_model] if base_model and not Path(base_model).exists() else ())):
        check_name(split_name(repo)[0])
    texts = [*report.get("texts", ()), *(text for text, *_ in trained)]
    known = {} if base_model else report.get("metadata", {})
    known = known or inherited_metadata(base_model or folder, texts)
    chosen = {"license": license, **language_fields(languages), "datasets": list(datasets)}
    if license is not None:  # the name and the link belong to the licence of the base model
        known = {field: value for field, value in known.items() if field not in ("license_name", "license_link")}
    metadata = known | {field: value for field, value in chosen.items() if value}
    source = name or path.as_posix()
    title = (name or path.resolve().name).rpartition("/")[2]
    files[CARD_FILE] = model_readme(title, source, _auto_class(path), tokenizer, report, metadata, tags, trained, found)
    for file, text in files.items():
        write_text(path / file, text)
    return sorted(files, reverse=True)


def _auto_class(folder: Path) -> str:
    """Return the class that loads a model, chosen by the architecture in its configuration."""
    if (folder / MODULES_FILE).is_file():
        return SENTENCES
    config = read_json(folder / MODEL_CONFIG_FILE)
    names = config.get("architectures") or []
    if not isinstance(names, list):
        raise SGPEError(f"{folder / MODEL_CONFIG_FILE}: architectures must be a list of class names, not {names!r}")
    name = str(next(iter(names), ""))
    if name.startswith("Whisper"):
        return SPEECH
    if config.get("is_encoder_decoder"):
        return "AutoModelForSeq2SeqLM"
    return "AutoModelForCausalLM" if not name or name.endswith(("ForCausalLM", "LMHeadModel")) else name
