"""Pushing to the Hub: the real client against a local server over HTTP."""

import importlib.util
import json
import re

import pytest
from support.command import COMMAND, process
from support.hub import STRANGER, WRITE, changes, contents, of_the_client
from tokenizers import Tokenizer, models

from hf_sgpe import BPETokenizer, SGPETokenizerFast
from hub_cards.cards.seal import is_generated
from hub_cards.publishing.uploading import push

TEXT = "ශ්‍රී ලංකාව, hello"
LEFT_OUT = ("additional_chat_templates/notes.txt", "checkpoint-1/", "notes.txt", "pictures/.hidden", "pictures/holiday.jpg")


def test_created_and_pushed_in_one_commit(here, folder):
    pushed = push(folder, "me/tok", commit_message="First", commit_description="of all")
    repository = here.repositories["me/tok"]
    assert not repository.private
    assert [commit.title for commit in repository.commits.values()] == ["initial commit", "First"]
    expected = {path: content for path, content in contents(folder).items() if path not in LEFT_OUT}
    del expected["checkpoint-1/model.safetensors"]
    assert here.files() == expected
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
    assert here.files()["index.html"].endswith(b"</title>")
    assert "chat_template.jinja" in here.files()  # nothing that is there is deleted
    assert len(here.repositories["me/tok"].commits) == 3


def test_a_dry_run_changes_nothing(hub, folder):
    done = hub.hf_sgpe("push", folder, "me/tok", "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        f"{hub.address}/me/tok: nothing was sent; no such repository is visible to you, so it would be created"
        in done.stdout
    )
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
    assert hub.writes() == []
    assert list(hub.repositories["me/tok"].revisions) == ["main"]


@pytest.mark.parametrize("repository", ["me/tok", "tok"])
@pytest.mark.parametrize("environment", [{"HF_ENDPOINT": "http://127.0.0.1:9"}, {"HF_HUB_OFFLINE": "1"}])
def test_a_dry_run_without_a_network_shows_the_files_and_fails(hub, folder, repository, environment):
    done = hub.hf_sgpe("push", folder, repository, "--dry-run", "--quiet", **environment)
    assert done.returncode == 2
    assert re.fullmatch(rf"error: {repository}: the repository could not be read \(.*\)\n", done.stderr)
    assert re.search(r"^tokenizer\.json .* not compared$", done.stdout, re.MULTILINE)
    assert f"left out: {', '.join(LEFT_OUT)}" in done.stdout
    assert "nothing was sent, and the repository could not be read\n" in done.stdout
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
    assert "tokenizer.json" in hub.files()


def test_a_new_branch_starts_where_main_is(here, saved):
    main = here.add("me/tok", {"config.json": b"{}"}).at().sha
    push(saved, "me/tok", revision="v2/beta")
    assert list(here.files()) == ["config.json"]
    assert here.files(revision="v2/beta") == {"config.json": b"{}", **contents(saved)}
    assert here.repositories["me/tok"].at("v2/beta").parent == main
    assert push(saved, "me/tok", revision="v2/beta").commit.oid == here.repositories["me/tok"].at("v2/beta").sha
    assert push(saved, "me/tok", revision="same").new_branch
    push(saved, "me/new", revision="v1")
    assert here.files("me/new") == {}
    assert here.files("me/new", "v1") == contents(saved)


def test_a_pull_request_on_ones_own_and_on_somebody_elses_repository(here, saved):
    main = here.add("me/tok", {}).at().sha
    for token, number in ((WRITE, 1), (STRANGER, 2)):
        pushed = push(saved, "me/tok", create_pr=True, token=token)
        assert pushed.url == pushed.commit.pr_url == f"{here.address}/me/tok/discussions/{number}"
        assert here.files(revision=f"refs/pr/{number}") == contents(saved)
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
    assert here.files() == contents(saved)
    assert BPETokenizer.from_pretrained("me/tok").encode(TEXT) == tokenizer.encode(TEXT)
    assert set(changes(push(saved, "me/tok")).values()) == {"unchanged"}
    assert sum(one.startswith("PUT") for one in here.requests) == 1


@pytest.mark.skipif(importlib.util.find_spec("hf_xet") is None, reason="hf_xet is not installed")
def test_large_files_where_the_server_knows_no_xet_are_one_line(hub, saved):
    hub.large = 10_000
    done = hub.hf_sgpe("push", saved, "me/tok", HF_HUB_DISABLE_XET="0")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert "me/tok: the repository was created, but then the connection to the Hub failed (" in done.stderr
    assert hub.files() == {}


def test_what_was_pushed_loads_with_the_same_ids(here, folder, tokenizer):
    push(folder, "me/tok")
    ids = tokenizer.encode(TEXT)
    assert BPETokenizer.from_pretrained("me/tok").encode(TEXT) == ids
    assert here.hf_sgpe("encode", "-t", "me/tok", TEXT).stdout.split() == list(map(str, ids))
    fast = SGPETokenizerFast.from_pretrained("me/tok", revision="main", cache_dir=here.home / "hub")
    assert fast(TEXT)["input_ids"] == ids
    assert fast.to_bpe().metadata == json.loads(json.dumps(tokenizer.metadata))


@pytest.mark.slow
def test_a_process_pushes_and_the_client_remarks_nothing(hub, saved):
    for end in ("created and pushed", "nothing has changed"):
        done = process(*COMMAND, "push", saved, "me/tok", **hub.environment())
        assert done.stdout.endswith(f"{hub.address}/me/tok/commit/{hub.repositories['me/tok'].at().sha}: {end}\n")
        assert done.stderr == ""
    assert hub.files() == contents(saved)


def test_push_to_hub_uploads_tokenizer_and_card_in_one_commit(here, tokenizer, tmp_path):
    fast = SGPETokenizerFast.from_bpe(tokenizer)
    info = fast.push_to_hub("tok", commit_message="Mine", commit_description="all", private=True, tags=["greetings"])
    repository = here.repositories["me/tok"]
    assert repository.private
    assert info.oid == repository.at().sha
    assert len(repository.commits) == 2
    assert repository.at().title == "Mine"
    fast.save_pretrained(tmp_path / "here")
    files = here.files()
    assert {name: files[name] for name in contents(tmp_path / "here")} == contents(tmp_path / "here")
    card = files["README.md"].decode()
    assert is_generated(card)
    assert "greetings" in card.split("---")[1]
    assert "me/tok" in card
    proposed = fast.push_to_hub("me/tok", create_pr=True, tags=["more"], token=WRITE)
    assert proposed.pr_revision == "refs/pr/1"
    assert "more" in here.files(revision="refs/pr/1")["README.md"].decode()


def test_save_pretrained_pushes_the_same_way(here, tokenizer, tmp_path):
    fast = SGPETokenizerFast.from_bpe(tokenizer)
    written = fast.save_pretrained(tmp_path / "tok", push_to_hub=True, private=True, revision="v1", portable=False)
    assert str(tmp_path / "tok" / "tokenizer.json") in written
    files = here.files("me/tok", "v1")
    assert {name: files[name] for name in contents(tmp_path / "tok")} == contents(tmp_path / "tok")
    assert is_generated(files["README.md"].decode())
    assert not (tmp_path / "tok" / "README.md").exists()
    fast.save_pretrained(tmp_path / "tok", push_to_hub=True, repo_id="me/other", commit_message="Mine")
    assert here.repositories["me/other"].at().title == "Mine"
