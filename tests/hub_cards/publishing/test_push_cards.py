import pytest
from support.hub import WRITE, changes

from hf_sgpe import BPETokenizer, SGPEError
from hub_cards.cards.seal import seal
from hub_cards.publishing.uploading import push


def test_the_card_of_a_tokenizer_that_is_no_longer_there_does_not_go(here, saved, tmp_path):
    from hub_cards import write_card

    folder = tmp_path / "tok"
    BPETokenizer.from_pretrained(saved).save(folder)
    write_card(folder, BPETokenizer.from_pretrained(folder))
    assert changes(push(folder, "me/tok", token=WRITE))["README.md"] == "new"
    BPETokenizer.train_from_iterator(["another one"], 260).save(folder)
    with pytest.raises(SGPEError, match=r"README\.md: .*hf-sgpe card"):
        push(folder, "me/tok", token=WRITE)


def test_a_card_with_measurements_stays_beside_the_same_tokenizer(here, folder, unsealed, card, tokenizer):
    measured = seal(unsealed.replace("---\n<", "model-index: []\n---\n<"), tokenizer)
    (folder / "README.md").write_text(measured, encoding="utf-8")
    push(folder, "me/tok", token=WRITE)
    (folder / "README.md").write_text(card, encoding="utf-8")
    (folder / "index.html").write_text("nothing measured", encoding="utf-8")
    again = changes(push(folder, "me/tok", token=WRITE))
    assert (again["README.md"], again["index.html"]) == ("kept", "kept")
    assert here.files()["README.md"] == measured.encode()
    # Of another tokenizer it would not be true.
    other = BPETokenizer.train_from_iterator(["other"], 257)
    other.save(folder.parent / "other")
    (folder / "tokenizer.json").write_bytes((folder.parent / "other" / "tokenizer.json").read_bytes())
    (folder / "README.md").write_text(seal(unsealed, other), encoding="utf-8")
    again = changes(push(folder, "me/tok", token=WRITE))
    assert (again["README.md"], again["index.html"]) == ("changed", "changed")


def test_a_card_that_somebody_wrote_stays_unless_asked_otherwise(hub, folder, card, monkeypatch):
    hub.add("me/tok", {"README.md": b"# Written by hand"})
    done = hub.hf_sgpe("push", folder, "me/tok")
    assert "kept: the card on the Hub was edited by hand or has measurements: add --replace-card" in done.stdout
    assert hub.files()["README.md"] == b"# Written by hand"
    assert "index.html" in hub.files()
    hub.patch(monkeypatch)
    assert changes(push(folder, "me/tok", replace_card=True))["README.md"] == "changed"
    assert hub.files()["README.md"].decode() == card


def test_a_generated_card_that_somebody_changed_stays(here, folder, card):
    here.add("me/tok", {"README.md": card.replace("# A", "# My").encode()})
    assert changes(push(folder, "me/tok"))["README.md"] == "kept"
    assert changes(push(folder, "me/tok", replace_card=True))["README.md"] == "changed"


def test_generated_cards_and_ones_own_are_replaced(here, folder, unsealed, tokenizer):
    here.add("me/tok", {"README.md": seal(unsealed.replace("A tok", "An old tok"), tokenizer).encode()})
    assert changes(push(folder, "me/tok"))["README.md"] == "changed"
    (folder / "README.md").write_text("---\nlicense: mit\n---\n# Mine")
    assert changes(push(folder, "me/tok"))["README.md"] == "changed"
    (folder / "README.md").write_text("---\nlicense: mit\n---\n# Better")
    assert changes(push(folder, "me/tok"))["README.md"] == "changed"
    assert here.files()["README.md"].endswith(b"# Better")


def test_what_the_hub_remarks_on_a_card_is_shown(hub, folder):
    (folder / "README.md").write_text("# Without metadata")
    done = hub.hf_sgpe("push", folder, "me/tok")
    assert done.returncode == 0
    assert done.stderr == (
        "warning: Warnings while validating metadata in README.md: - empty or missing yaml metadata in repo card\n"
    )


def test_metadata_that_the_hub_refuses_is_one_line(here, folder):
    here.add("me/tok", {})
    (folder / "README.md").write_text("---\n: broken\n---\n")
    with pytest.raises(SGPEError, match=r"Invalid metadata in README.md"):
        push(folder, "me/tok")
    assert here.files() == {}
