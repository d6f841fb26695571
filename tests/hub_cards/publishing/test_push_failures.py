import pytest
from support.hub import READ, changes, contents, of_the_client

from hf_sgpe import SGPEError
from hub_cards.publishing.uploading import push


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
        ("me/tok", {"HF_TOKEN": READ}, "me/tok: the token does not permit this request (You don't have the rights"),
        ("me/there", {"HF_TOKEN": READ}, "me/there: the token does not permit this request (You don't have the rights"),
        ("you/tok", {}, "you/tok: the token does not permit this request (You don't have the rights"),
        ("you/secret", {}, "you/secret: the token does not permit this request"),
        ("me/no/such", {}, "me/no/such: not the name of a Hub repository: write user/name"),
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
def test_an_interrupted_push_is_not_reported_as_done(here, folder, pattern, how):
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
    assert here.files()["tokenizer.json"] == (folder / "tokenizer.json").read_bytes()


@of_the_client
def test_an_upload_that_drops_once_goes_on(here, saved, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    here.large = 10_000
    here.fail("PUT ", times=1)
    push(saved, "me/tok")
    assert here.files() == contents(saved)


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
    assert here.files() == {"README.md": b"by hand"}


def test_what_the_repository_ignores_is_named(here, folder):
    here.add("me/tok", {".gitignore": b"*.html\n*.svg\n"})
    with pytest.raises(
        SGPEError, match=r"me/tok: the repository's \.gitignore excludes index\.html, pictures/compression\.svg"
    ):
        push(folder, "me/tok")


def test_a_revision_that_cannot_be_made_is_missing(here, saved):
    here.add("me/tok", {})
    with pytest.raises(SGPEError, match="me/tok: the repository has no such revision"):
        push(saved, "me/tok", revision="refs/pr/7", dry_run=True)
    with pytest.raises(SGPEError, match="me/new: no such repository on the Hub"):
        push(saved, "me/new", revision="refs/pr/1")
    assert list(here.repositories) == ["me/tok"]
