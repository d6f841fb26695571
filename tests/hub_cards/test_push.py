"""Pushing to the Hub: the real client against a local server over HTTP."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.hub import READ, STRANGER, WRITE, contents
from tokenizers import Tokenizer, models

from hf_sgpe import BPETokenizer, SGPEError, SGPETokenizerFast
from hub_cards.playground import write_playground
from hub_cards.push import push
from hub_cards.seal import CARD_MARK, is_generated, seal

TEXT = "ශ්‍රී ලංකාව, hello"
UNSEALED = f"---\nlibrary_name: transformers\n---\n{CARD_MARK}\n# A tokenizer\n"

# What somebody without this package does with the repository.
STRANGER_CODE = """
import json, sys
sys.modules["hf_sgpe"] = sys.modules["trainers"] = sys.modules["hub_cards"] = None
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("me/tok")
json.dump([tokenizer(sys.argv[1])["input_ids"], tokenizer.chat_template], sys.stdout)
"""


@pytest.fixture
def card(tokenizer):
    """One that was generated."""
    return seal(UNSEALED, tokenizer)


@pytest.fixture
def folder(saved, card, tmp_path):
    """A tokenizer with a card, pictures, templates, and files of other kinds."""
    folder = tmp_path / "my tokenizer"
    for path, content in {
        **contents(saved),
        "README.md": card.encode(),
        "index.html": b"<!doctype html>",
        "pictures/compression.svg": b"<svg/>",
        "pictures/.hidden": b"",
        "pictures/holiday.jpg": b"",
        "chat_template.jinja": b"{{ messages }}",
        "additional_chat_templates/tools.jinja": b"{{ tools }}",
        "additional_chat_templates/notes.txt": b"",
        "notes.txt": b"not for others",
        "checkpoint-1/model.safetensors": b"",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


# Of the client itself, where it sends large files.
of_the_client = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

LEFT_OUT = ("additional_chat_templates/notes.txt", "checkpoint-1/", "notes.txt", "pictures/.hidden", "pictures/holiday.jpg")


def test_the_card_of_a_tokenizer_that_is_no_longer_there_does_not_go(here, saved, tmp_path):
    from hub_cards import write_card

    folder = tmp_path / "tok"
    BPETokenizer.from_pretrained(saved).save(folder)
    write_card(folder, BPETokenizer.from_pretrained(folder))
    assert changes(push(folder, "me/tok", token=WRITE))["README.md"] == "new"
    BPETokenizer.train_from_iterator(["another one"], 260).save(folder)
    with pytest.raises(SGPEError, match=r"README\.md: this card was written for another tokenizer.*hf-sgpe card"):
        push(folder, "me/tok", token=WRITE)


def test_a_card_with_measurements_stays_beside_the_same_tokenizer(here, folder, card, tokenizer):
    measured = seal(UNSEALED.replace("---\n<", "model-index: []\n---\n<"), tokenizer)
    (folder / "README.md").write_text(measured, encoding="utf-8")
    push(folder, "me/tok", token=WRITE)
    (folder / "README.md").write_text(card, encoding="utf-8")
    (folder / "index.html").write_text("nothing measured", encoding="utf-8")
    again = changes(push(folder, "me/tok", token=WRITE))
    assert (again["README.md"], again["index.html"]) == ("kept", "kept")
    assert there(here)["README.md"] == measured.encode()
    # Of another tokenizer it would not be true.
    other = BPETokenizer.train_from_iterator(["other"], 257)
    other.save(folder.parent / "other")
    (folder / "tokenizer.json").write_bytes((folder.parent / "other" / "tokenizer.json").read_bytes())
    (folder / "README.md").write_text(seal(UNSEALED, other), encoding="utf-8")
    again = changes(push(folder, "me/tok", token=WRITE))
    assert (again["README.md"], again["index.html"]) == ("changed", "changed")


def changes(pushed):
    return {file.path: file.change for file in pushed.files}


def there(hub, name="me/tok", revision="main"):
    """What the repository holds, but for what the Hub itself put there."""
    files = dict(hub.repositories[name].at(revision).files)
    files.pop(".gitattributes", None)
    return files


def writes(hub):
    """The requests that can change something."""
    return [one for one in hub.requests if not one.startswith(("GET", "HEAD")) and "/paths-info/" not in one]


# ---------------------------------------------------------------- what goes


def test_created_and_pushed_in_one_commit(here, folder, saved):
    pushed = push(folder, "me/tok", commit_message="First", commit_description="of all")
    repository = here.repositories["me/tok"]
    assert not repository.private
    assert [commit.title for commit in repository.commits.values()] == ["initial commit", "First"]
    expected = {path: content for path, content in contents(folder).items() if path not in LEFT_OUT}
    del expected["checkpoint-1/model.safetensors"]
    assert there(here) == expected
    assert pushed.created
    assert pushed.repo_id == "me/tok"
    assert pushed.url == f"{here.address}/me/tok/commit/{repository.at().sha}" == str(pushed.commit)
    assert pushed.left_out == LEFT_OUT
    assert changes(pushed) == dict.fromkeys(sorted(expected), "new")
    assert {file.path: file.size for file in pushed.files} == {path: len(content) for path, content in expected.items()}


def test_pushed_again_it_makes_a_commit_only_of_what_has_changed(here, folder):
    push(folder, "me/tok")
    again = push(folder, "me/tok")
    assert set(changes(again).values()) == {"unchanged"}
    assert not again.created
    assert again.commit.oid == here.repositories["me/tok"].at().sha
    (folder / "index.html").write_text("<!doctype html><title>new</title>")
    (folder / "chat_template.jinja").unlink()
    third = push(folder, "me/tok")
    assert {path for path, change in changes(third).items() if change != "unchanged"} == {"index.html"}
    assert there(here)["index.html"].endswith(b"</title>")
    assert "chat_template.jinja" in there(here)  # nothing that is there is deleted
    assert len(here.repositories["me/tok"].commits) == 3


def test_a_dry_run_changes_nothing(hub, folder):
    done = hub.hf_sgpe("push", folder, "me/tok", "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{hub.address}/me/tok: nothing was sent; you see no such repository, so it would be created" in done.stdout
    hub.add("me/tok", {"index.html": b"<!doctype html>", "pictures/compression.svg": b"<svg>old</svg>"})
    (folder / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes() + b" " * 11_000_000)
    done = hub.hf_sgpe("push", folder, "me/tok", "--dry-run", "--revision", "v2", "--pull-request", HF_TOKEN="")
    lines = {line.split()[0]: " ".join(line.split()[1:]) for line in done.stdout.splitlines()}
    assert lines["index.html"] == "0.0 kB unchanged"
    assert lines["pictures/compression.svg"] == "0.0 kB changed"
    assert lines["README.md"] == "0.2 kB new"
    assert lines["tokenizer.json"].endswith("kB new, as a large file (LFS)")
    assert f"left out: {', '.join(LEFT_OUT)}" in done.stdout
    assert done.stdout.endswith(f"{hub.address}/me/tok: nothing was sent\n")
    assert writes(hub) == []
    assert list(hub.repositories["me/tok"].revisions) == ["main"]


@pytest.mark.parametrize("repository", ["me/tok", "tok"])
@pytest.mark.parametrize("environment", [{"HF_ENDPOINT": "http://127.0.0.1:9"}, {"HF_HUB_OFFLINE": "1"}])
def test_a_dry_run_needs_no_network(hub, folder, repository, environment):
    done = hub.hf_sgpe("push", folder, repository, "--dry-run", "--quiet", **environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^tokenizer\.json .* not compared$", done.stdout, re.MULTILINE)
    assert f"left out: {', '.join(LEFT_OUT)}" in done.stdout
    assert "nothing was sent, and what is there could not be looked at (" in done.stdout
    done = hub.hf_sgpe("push", folder, repository, **environment)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_the_command_line_shows_what_went(hub, folder):
    done = hub.hf_sgpe("push", folder, "me/tok", "--private", "--message", "Mine", "--token", WRITE, HF_TOKEN="")
    assert (done.returncode, done.stderr) == (0, "")
    repository = hub.repositories["me/tok"]
    assert repository.private
    assert repository.at().title == "Mine"
    assert done.stdout.endswith(f"{hub.address}/me/tok/commit/{repository.at().sha}: created and pushed\n")
    again = hub.hf_sgpe("push", folder, "me/tok")
    assert again.stdout.endswith(f"{hub.address}/me/tok/commit/{repository.at().sha}: nothing has changed\n")
    assert again.stderr == ""


def test_a_name_alone_is_ones_own(here, saved):
    assert push(saved, "tok").repo_id == "me/tok"
    assert "me/tok" in here.repositories


def test_the_token_that_was_stored_by_logging_in(hub, saved):
    hub.home.mkdir()
    (hub.home / "token").write_text(WRITE)
    assert hub.hf_sgpe("push", saved, "me/tok", HF_TOKEN="").returncode == 0
    assert "tokenizer.json" in there(hub)


def test_a_new_branch_starts_where_main_is(here, saved):
    main = here.add("me/tok", {"config.json": b"{}"}).at().sha
    push(saved, "me/tok", revision="v2/beta")
    assert list(there(here)) == ["config.json"]
    assert there(here, revision="v2/beta") == {"config.json": b"{}", **contents(saved)}
    assert here.repositories["me/tok"].at("v2/beta").parent == main
    assert push(saved, "me/tok", revision="v2/beta").commit.oid == here.repositories["me/tok"].at("v2/beta").sha
    assert push(saved, "me/tok", revision="same").new_branch
    push(saved, "me/new", revision="v1")
    assert there(here, "me/new") == {}
    assert there(here, "me/new", "v1") == contents(saved)


def test_a_pull_request_on_ones_own_and_on_somebody_elses_repository(here, saved):
    main = here.add("me/tok", {}).at().sha
    for token, number in ((WRITE, 1), (STRANGER, 2)):
        pushed = push(saved, "me/tok", create_pr=True, token=token)
        assert pushed.url == pushed.commit.pr_url == f"{here.address}/me/tok/discussions/{number}"
        assert there(here, revision=f"refs/pr/{number}") == contents(saved)
    assert here.repositories["me/tok"].at().sha == main
    assert set(changes(push(saved, "me/tok", revision="refs/pr/1")).values()) == {"unchanged"}
    push(saved, "me/tok")
    unchanged = push(saved, "me/tok", revision="no-such-branch", create_pr=True)
    assert (unchanged.new_branch, set(changes(unchanged).values())) == (False, {"unchanged"})


def test_a_tokenizer_of_another_kind(here, tmp_path):
    Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]")).save(str(tmp_path / "tokenizer.json"))
    pushed = push(tmp_path, "me/tok")
    assert list(changes(pushed)) == ["tokenizer.json"]


@of_the_client
def test_large_files_go_beside_git_and_only_once(here, saved, tokenizer):
    here.large = 10_000
    push(saved, "me/tok")
    repository = here.repositories["me/tok"]
    assert repository.at().large == {"tokenizer.json"}
    assert there(here) == contents(saved)
    assert BPETokenizer.from_pretrained("me/tok").encode(TEXT) == tokenizer.encode(TEXT)
    assert set(changes(push(saved, "me/tok")).values()) == {"unchanged"}
    assert sum(one.startswith("PUT") for one in here.requests) == 1


@pytest.mark.skipif(importlib.util.find_spec("hf_xet") is None, reason="hf_xet is not installed")
def test_large_files_where_the_server_knows_no_xet_are_one_line(hub, saved):
    hub.large = 10_000
    done = hub.hf_sgpe("push", saved, "me/tok", HF_HUB_DISABLE_XET="0")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert "me/tok: the repository was created, but then the connection to the Hub failed (" in done.stderr
    assert there(hub) == {}


# ---------------------------------------------------------------- there and back


def test_what_was_pushed_loads_everywhere_with_the_same_ids(here, folder, tokenizer):
    push(folder, "me/tok")
    ids = tokenizer.encode(TEXT)
    assert BPETokenizer.from_pretrained("me/tok").encode(TEXT) == ids
    command = [sys.executable, "-c", STRANGER_CODE, TEXT]
    done = subprocess.run(command, capture_output=True, text=True, env=here.environment())
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [ids, {"default": "{{ messages }}", "tools": "{{ tools }}"}]
    assert here.hf_sgpe("encode", "-t", "me/tok", TEXT).stdout.split() == list(map(str, ids))
    fast = SGPETokenizerFast.from_pretrained("me/tok", revision="main", cache_dir=here.home / "hub")
    assert fast(TEXT)["input_ids"] == ids
    assert fast.to_bpe().metadata == json.loads(json.dumps(tokenizer.metadata))


def test_push_to_hub_uploads_tokenizer_and_card_in_one_commit(here, tokenizer, tmp_path):
    fast = SGPETokenizerFast.from_bpe(tokenizer)
    info = fast.push_to_hub("tok", commit_message="Mine", commit_description="all", private=True, tags=["greetings"])
    repository = here.repositories["me/tok"]
    assert repository.private
    assert info.oid == repository.at().sha
    assert len(repository.commits) == 2
    assert repository.at().title == "Mine"
    fast.save_pretrained(tmp_path / "here")
    files = there(here)
    assert {name: files[name] for name in contents(tmp_path / "here")} == contents(tmp_path / "here")
    card = files["README.md"].decode()
    assert is_generated(card)
    assert "greetings" in card.split("---")[1]
    assert "me/tok" in card
    proposed = fast.push_to_hub("me/tok", create_pr=True, tags=["more"], token=WRITE)
    assert proposed.pr_revision == "refs/pr/1"
    assert "more" in there(here, revision="refs/pr/1")["README.md"].decode()


def test_save_pretrained_pushes_the_same_way(here, tokenizer, tmp_path):
    fast = SGPETokenizerFast.from_bpe(tokenizer)
    written = fast.save_pretrained(tmp_path / "tok", push_to_hub=True, private=True, revision="v1", portable=False)
    assert str(tmp_path / "tok" / "tokenizer.json") in written
    files = there(here, "me/tok", "v1")
    assert {name: files[name] for name in contents(tmp_path / "tok")} == contents(tmp_path / "tok")
    assert is_generated(files["README.md"].decode())
    assert not (tmp_path / "tok" / "README.md").exists()
    fast.save_pretrained(tmp_path / "tok", push_to_hub=True, repo_id="me/other", commit_message="Mine")
    assert here.repositories["me/other"].at().title == "Mine"


# ---------------------------------------------------------------- cards


def test_a_card_that_somebody_wrote_stays_unless_asked_otherwise(hub, folder, card, monkeypatch):
    hub.add("me/tok", {"README.md": b"# Written by hand"})
    done = hub.hf_sgpe("push", folder, "me/tok")
    assert "kept: the one on the Hub was written or changed by somebody, or measured; --replace-card" in done.stdout
    assert there(hub)["README.md"] == b"# Written by hand"
    assert "index.html" in there(hub)
    hub.patch(monkeypatch)
    assert changes(push(folder, "me/tok", replace_card=True))["README.md"] == "changed"
    assert there(hub)["README.md"].decode() == card


def test_a_generated_card_that_somebody_changed_stays(here, folder, card):
    here.add("me/tok", {"README.md": card.replace("# A", "# My").encode()})
    assert changes(push(folder, "me/tok"))["README.md"] == "kept"
    assert changes(push(folder, "me/tok", replace_card=True))["README.md"] == "changed"


def test_generated_cards_and_ones_own_are_replaced(here, folder, tokenizer):
    here.add("me/tok", {"README.md": seal(UNSEALED.replace("A tok", "An old tok"), tokenizer).encode()})
    assert changes(push(folder, "me/tok"))["README.md"] == "changed"
    (folder / "README.md").write_text("---\nlicense: mit\n---\n# Mine")
    assert changes(push(folder, "me/tok"))["README.md"] == "changed"
    (folder / "README.md").write_text("---\nlicense: mit\n---\n# Better")
    assert changes(push(folder, "me/tok"))["README.md"] == "changed"
    assert there(here)["README.md"].endswith(b"# Better")


def test_what_the_hub_remarks_on_a_card_is_shown(hub, folder):
    (folder / "README.md").write_text("# Without metadata")
    done = hub.hf_sgpe("push", folder, "me/tok")
    assert done.returncode == 0
    assert done.stderr == (
        "warning: Warnings while validating metadata in README.md: - empty or missing yaml metadata in repo card\n"
    )


# ---------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    ("name", "environment", "message"),
    [
        (
            "me/tok",
            {"HF_TOKEN": "hf_wrong"},
            "me/tok: the Hub requires a valid token: log in with 'hf auth login' or set HF_TOKEN",
        ),
        ("me/tok", {"HF_TOKEN": ""}, "me/tok: the Hub requires a valid token: log in with"),
        ("tok", {"HF_TOKEN": ""}, "tok: the Hub requires a token: log in with"),
        ("me/tok", {"HF_TOKEN": READ}, "me/tok: the token does not allow it (You don't have the rights"),
        ("me/there", {"HF_TOKEN": READ}, "me/there: the token does not allow it (You don't have the rights"),
        ("you/tok", {}, "you/tok: the token does not allow it (You don't have the rights"),
        ("you/secret", {}, "you/secret: the token does not allow it"),
        ("me/no/such", {}, "me/no/such: not a name of a Hub repository: write user/name"),
        ("me/tok", {"HF_HUB_OFFLINE": "1"}, "me/tok: the Hub is switched off (HF_HUB_OFFLINE)"),
        ("me/tok", {"HF_ENDPOINT": "http://127.0.0.1:9"}, "me/tok: the connection to the Hub failed ([Errno"),
    ],
)
def test_each_refusal_is_one_line_and_changes_nothing(hub, saved, name, environment, message):
    hub.add("me/there", {})
    hub.add("you/secret", {}, private=True)
    done = hub.hf_sgpe("push", saved, name, **environment)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert message in done.stderr
    assert {name: len(repository.commits) for name, repository in hub.repositories.items()} == {
        "me/there": 1,
        "you/secret": 1,
    }


@pytest.mark.parametrize(
    ("pattern", "how"),
    [
        ("GET /api/models/", {"sent": 0}),
        ("POST .*/paths-info/", {}),
        ("POST .*/validate-yaml", {"status": 500}),
        ("POST .*/preupload/", {"status": 503}),
        ("POST .*/objects/batch", {}),
        ("PUT ", {}),
        ("POST .*/objects/verify", {"status": 500}),
        ("POST .*/commit/", {}),
        ("POST .*/commit/", {"status": 500}),
    ],
)
@of_the_client
def test_what_breaks_off_is_not_announced_as_done(here, folder, pattern, how):
    before = here.add("me/tok", {"index.html": b"old"}).at()
    here.large = 10_000
    here.fail(pattern, **how)
    done = here.hf_sgpe("push", folder, "me/tok")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    status = how.get("status")
    assert f"me/tok: the {f'Hub answers {status} (' if status else 'connection to the Hub failed ('}" in done.stderr
    assert here.repositories["me/tok"].at() == before
    here.faults.clear()
    assert "unchanged" not in changes(push(folder, "me/tok")).values()
    assert there(here)["tokenizer.json"] == (folder / "tokenizer.json").read_bytes()


@of_the_client
def test_an_upload_that_drops_once_goes_on(here, saved, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    here.large = 10_000
    here.fail("PUT ", times=1)
    push(saved, "me/tok")
    assert there(here) == contents(saved)


def test_a_commit_whose_answer_is_lost_is_found_to_be_there_the_next_time(here, saved):
    here.fail("POST .*/commit/", sent=0)
    with pytest.raises(SGPEError, match="me/tok: the repository was created, but then the connection to the Hub failed"):
        push(saved, "me/tok")
    here.faults.clear()
    assert set(changes(push(saved, "me/tok")).values()) == {"unchanged"}
    assert len(here.repositories["me/tok"].commits) == 2


def test_a_commit_that_the_hub_has_confirmed_is_done(here, saved):
    before = here.add("me/tok", {}).at().sha
    here.fail(f"POST .*/paths-info/(?!{before})", status=500)
    pushed = push(saved, "me/tok")
    assert here.requests[-1].endswith(f"/paths-info/{pushed.commit.oid}")
    assert pushed.commit.oid == here.repositories["me/tok"].at().sha != before


def test_somebody_who_was_faster_is_not_overwritten(here, folder, monkeypatch):
    here.add("me/tok", {"index.html": b"old"})
    from huggingface_hub import HfApi

    commit = HfApi.create_commit

    def slowly(self, *arguments, **options):
        push_of_another = here.repositories["me/tok"].at()
        newer = type(push_of_another)({"README.md": b"by hand"}, set(), "faster", push_of_another.sha)
        here.repositories["me/tok"].commit("main", newer)
        return commit(self, *arguments, **options)

    monkeypatch.setattr(HfApi, "create_commit", slowly)
    with pytest.raises(SGPEError, match="me/tok: the repository has changed in the meantime: try again"):
        push(folder, "me/tok")
    assert there(here) == {"README.md": b"by hand"}


def test_what_the_repository_ignores_is_named(here, folder):
    here.add("me/tok", {".gitignore": b"*.html\n*.svg\n"})
    with pytest.raises(
        SGPEError, match=r"me/tok: the repository's \.gitignore excludes index\.html, pictures/compression\.svg"
    ):
        push(folder, "me/tok")


def test_metadata_that_the_hub_refuses_is_one_line(here, folder):
    here.add("me/tok", {})
    (folder / "README.md").write_text("---\n: broken\n---\n")
    with pytest.raises(SGPEError, match=r"^me/tok: Invalid metadata in README.md. - the metadata is no YAML$"):
        push(folder, "me/tok")
    assert there(here) == {}


def test_a_revision_that_cannot_be_made_is_missing(here, saved):
    here.add("me/tok", {})
    with pytest.raises(SGPEError, match="me/tok: the repository has no such revision"):
        push(saved, "me/tok", revision="refs/pr/7", dry_run=True)
    with pytest.raises(SGPEError, match="me/new: no such repository on the Hub"):
        push(saved, "me/new", revision="refs/pr/1")
    assert list(here.repositories) == ["me/tok"]


NAMES = ["tokenizer.json", "tokenizer_config.json", "README.md", "index.html", "tokenization_sgpe.py", "chat_template.jinja"]
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
        message = f"{folder / name}: a link to {target.resolve()}, which must not be published: replace the link with a file"
        with pytest.raises(SGPEError, match=f"^{re.escape(message)}$"):
            push(folder, "me/tok", dry_run=True)
    assert here.requests == []


def test_no_folder_of_pictures_lies_elsewhere(here, folder, tmp_path):
    (folder / "pictures").rename(tmp_path / "elsewhere")
    (folder / "pictures").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    with pytest.raises(SGPEError, match=r"pictures/compression\.svg: a link to .*elsewhere/compression\.svg, which"):
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
    assert there(here)["index.html"] == b"<!doctype html>"
    assert {"README.md", "page-2.html"} <= set(pushed.left_out)


def test_a_snapshot_of_the_cache_goes_with_its_blobs_alone(here, folder, tmp_path):
    push(folder, "me/tok")
    from huggingface_hub import snapshot_download

    snapshot = Path(snapshot_download("me/tok", cache_dir=tmp_path / "cache"))
    assert (snapshot / "pictures" / "compression.svg").is_symlink()
    push(snapshot, "me/copy")
    assert there(here, "me/copy") == there(here)
    (snapshot / "index.html").unlink()
    (snapshot / "index.html").symlink_to(snapshot.parent.parent / "refs" / "main")
    with pytest.raises(SGPEError, match=r"index\.html: a link to .*refs.main, which must not be published"):
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
        with pytest.raises(SGPEError, match=r"has no stub\.py, which its tokenizer_config\.json names: save the tokenizer"):
            push(folder, "me/tok")
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"auto_map": {"AutoTokenizer": ["you/x--y.Z", None]}}))
    (folder / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes()[:1000])
    with pytest.raises(SGPEError, match="not valid JSON"):
        push(folder, "me/tok")
    assert here.requests == []


# ---------------------------------------------------------------- a playground beside it


def test_a_playground_goes_along_as_a_static_space(hub, saved, tokenizer, tmp_path):
    site = tmp_path / "site"
    write_playground(site, {"mine": tokenizer, "other": tokenizer})
    dry = hub.hf_sgpe("push", saved, "me/tok", "--playground", site, "--dry-run")
    assert dry.stdout.endswith(f"Space me/tok: nothing was sent of 9 files of {site}\n")
    assert hub.repositories == {}
    done = hub.hf_sgpe("push", saved, "me/tok", "--playground", site)
    assert done.stdout.endswith(f"{hub.address}/spaces/me/tok: pushed 9 files of {site}\n"), done.stderr
    space = hub.repositories["spaces/me/tok"]
    assert {name: content for name, content in space.at().files.items() if name != ".gitattributes"} == contents(site)
    assert b"sdk: static" in space.at().files["README.md"]
    (site / "notes.txt").write_text("not for others")
    write_playground(site, {"mine": tokenizer})
    assert hub.hf_sgpe("push", saved, "me/tok", "--playground", site).returncode == 0
    assert "tokenizer-2.json" not in space.at().files
    assert "notes.txt" not in space.at().files


def test_a_space_with_something_else_and_a_folder_without_a_playground_are_left_alone(hub, saved, tokenizer, tmp_path):
    write_playground(tmp_path / "site", {"mine": tokenizer})
    hub.add("spaces/me/tok", {"index.html": b"my page"})
    done = hub.hf_sgpe("push", saved, "me/tok", "--playground", tmp_path / "site")
    assert done.returncode == 2
    assert done.stderr == "error: Space me/tok: holds something else than a playground: give another name\n"
    assert hub.repositories["spaces/me/tok"].at().files == {"index.html": b"my page"}
    (tmp_path / "empty").mkdir()
    done = hub.hf_sgpe("push", saved, "me/new", "--playground", tmp_path / "empty")
    assert done.stderr == f"error: {tmp_path / 'empty'}: holds no playground: write one with hf-sgpe playground\n"
    assert "me/new" not in hub.repositories
