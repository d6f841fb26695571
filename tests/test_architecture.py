import ast

import pytest
from support.paths import ROOT

PARTS = [
    "hf_sgpe.errors",
    "hf_sgpe.package",
    "hf_sgpe.files",
    "hf_sgpe.terminal",
    "hf_sgpe.kernels",
    "hf_sgpe.splitting.scripts",
    "hf_sgpe.splitting",
    "hf_sgpe.bpe",
    "hf_sgpe.corpora",
    "hf_sgpe.vocabulary",
    "hf_sgpe.counts",
    "hf_sgpe.chat",
    "hf_sgpe.sgpe",
    "hf_sgpe.formats",
    "hf_sgpe.learning",
    "hf_sgpe.tokenizer",
    "hf_sgpe.fast_path",
    "hf_sgpe.tokenization_sgpe",
    "hf_sgpe.weights",
    "hf_sgpe.generation.engines",
    "hf_sgpe.generation",
    "hf_sgpe.evaluation",
    "hf_sgpe.serving",
    "trainers.counting",
    "trainers.token_files",
    "trainers.model_rows",
    "trainers.language_models",
    "trainers.tokenizers",
    "trainers.cluster",
    "trainers",
    "hub_cards.markup",
    "hub_cards.token_views",
    "hub_cards.pictures",
    "hub_cards.cards",
    "hub_cards.playground",
    "hub_cards.publishing",
    "hub_cards",
    "hf_sgpe.cli",
    "hf_sgpe.__main__",
]

MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in ("hf_sgpe", "trainers", "hub_cards")
    for path in (ROOT / package).rglob("*.py")
    if "auto_class" not in path.parts
}


def part_of(module):
    """Return the number of the part that a module belongs to: the longest name that is the module's or a folder's."""
    names = [name for name in PARTS if module == name or module.startswith(f"{name}.")]
    return PARTS.index(max(names, key=len)) if names else None


def imports_of(path, *, everywhere=False):
    """Yield the modules that a file imports: when it is imported, or also later in its functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree) if everywhere else tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("module", [name for name in MODULES if name != "hf_sgpe"])
def test_imports_point_up_the_list(module):
    own = part_of(module)
    assert own is not None, f"{module}: add its folder to PARTS"
    lower = [name for name in imports_of(MODULES[module]) if (part := part_of(name)) is not None and part > own]
    assert lower == []


def test_cards_do_without_the_package_trainers():
    """A project's own folder of that name may take its place."""
    needing = {
        module
        for module, path in MODULES.items()
        if module.startswith("hub_cards") and any(name.startswith("trainers.") for name in imports_of(path, everywhere=True))
    }
    assert needing <= {"hub_cards.cards.transplant_card"}


def test_the_root_of_the_package_holds_what_users_import_by_name():
    files = {path.name for path in (ROOT / "hf_sgpe").iterdir() if path.is_file() and not path.name.startswith("_native")}
    assert len(files - {"_pure.py"}) <= 8


def test_a_file_name_means_one_thing():
    names = [path.name for path in MODULES.values() if path.name != "__init__.py"]
    assert sorted(name for name in names if names.count(name) > 1) == []
