"""What a folder must hold to be pushed, and links in it that lead elsewhere."""

import json
import re
from pathlib import Path

import pytest
from support.command import hf_sgpe

from hf_sgpe import BPETokenizer, SGPEError
from hf_sgpe.vocabulary.byte_strings import bytes_to_string
from hub_cards.publishing.uploading import push

NAMES = ["tokenizer.json", "tokenizer_config.json", "README.md", "index.html", "chat_template.jinja"]


NAMES += ["pictures/compression.svg", "additional_chat_templates/tools.jinja"]


@pytest.mark.parametrize("name", NAMES)
def test_no_link_leads_out_of_the_folder(here, folder, tmp_path, name):
    secret = tmp_path / "secret"
    hidden = folder / ".git" / "config"
    hidden.parent.mkdir()
    content = (folder / name).read_bytes()
    for target in (secret, hidden):
        target.write_bytes(content)
        (folder / name).unlink()
        (folder / name).symlink_to(target)
        message = (
            f"{folder / name} is not published, because it is a link to a file that is hidden or outside the folder "
            f"({target.resolve()}): remove the link, or put a regular file in its place"
        )
        with pytest.raises(SGPEError, match=f"^{re.escape(message)}$"):
            push(folder, "me/tok", dry_run=True)
    assert here.requests == []


def test_no_folder_of_pictures_lies_elsewhere(here, folder, tmp_path):
    (folder / "pictures").rename(tmp_path / "elsewhere")
    (folder / "pictures").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    with pytest.raises(SGPEError, match=r"pictures/compression\.svg .* link"):
        push(folder, "me/tok")
    (tmp_path / "elsewhere" / "compression.svg").unlink()
    assert "pictures/holiday.jpg" in push(folder, "me/tok").left_out


def test_links_inside_the_folder_and_the_folder_itself_are_followed(here, folder, tmp_path):
    (folder / "index.html").rename(folder / "page-2.html")
    (folder / "index.html").symlink_to("page-2.html")
    (folder / "README.md").unlink()
    (folder / "README.md").symlink_to("nowhere.md")
    (tmp_path / "link").symlink_to(folder, target_is_directory=True)
    pushed = push(tmp_path / "link", "me/tok")
    assert here.files()["index.html"] == b"<!doctype html>"
    assert {"README.md", "page-2.html"} <= set(pushed.left_out)


def test_a_snapshot_of_the_cache_goes_with_its_blobs_alone(here, folder, tmp_path):
    push(folder, "me/tok")
    from huggingface_hub import snapshot_download

    snapshot = Path(snapshot_download("me/tok", cache_dir=tmp_path / "cache"))
    assert (snapshot / "pictures" / "compression.svg").is_symlink()
    push(snapshot, "me/copy")
    assert here.files("me/copy") == here.files()
    (snapshot / "index.html").unlink()
    (snapshot / "index.html").symlink_to(snapshot.parent.parent / "refs" / "main")
    with pytest.raises(SGPEError, match=r"index\.html .* link"):
        push(snapshot, "me/copy")


def test_a_folder_that_holds_no_sound_tokenizer_is_not_pushed(here, folder, tmp_path):
    with pytest.raises(SGPEError, match="nowhere: no such folder"):
        push(tmp_path / "nowhere", "me/tok")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SGPEError, match=r"the folder holds no tokenizer\.json"):
        push(tmp_path / "empty", "me/tok")
    config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    for auto_map in ({"AutoTokenizer": [None, "stub.Class"]}, [None, "stub.Class"]):
        (folder / "tokenizer_config.json").write_text(json.dumps(config | {"auto_map": auto_map}), encoding="utf-8")
        with pytest.raises(SGPEError, match=r"stub\.py"):
            push(folder, "me/tok")
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"auto_map": {"AutoTokenizer": ["you/x--y.Z", None]}}))
    (folder / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes()[:1000])
    with pytest.raises(SGPEError, match="not valid JSON"):
        push(folder, "me/tok")
    assert here.requests == []


def test_a_tokenizer_without_a_tokenizer_json_is_exported_first(here, tokenizer, tmp_path):
    """Programs that load the repository read only this file."""
    folder, exported = tmp_path / "only ranks", tmp_path / "exported"
    folder.mkdir()
    names = [bytes_to_string(token) for token, _ in tokenizer.get_mergeable_ranks()]
    merges = [" ".join(map(bytes_to_string, pair)) for pair in tokenizer.merges]
    (folder / "vocab.json").write_text(json.dumps({name: id for id, name in enumerate(names)}), encoding="utf-8")
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "GPT2Tokenizer"}', encoding="utf-8")
    for dry_run in (True, False):
        with pytest.raises(SGPEError, match=f"hf-sgpe export '{folder}'"):
            push(folder, "me/tok", dry_run=dry_run)
    assert not here.repositories
    hf_sgpe("export", folder, "--out", exported)
    for file in exported.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    push(folder, "me/tok")
    assert BPETokenizer.from_pretrained("me/tok").vocab == BPETokenizer.from_pretrained(folder).vocab
