"""Loading from the Hub: the real client against a local server over HTTP."""

import json

import pytest
from support.command import hf_sgpe
from support.hub import READ, STRANGER

from hf_sgpe import BPETokenizer, SGPEError
from hf_sgpe.files.hub import download, download_model

TEXT = "ශ්‍රී ලංකාව, hello"


@pytest.fixture(scope="module")
def files(saved):
    return {name: (saved / name).read_bytes() for name in ("tokenizer.json", "tokenizer_config.json")}


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    """The files of another tokenizer."""
    folder = tmp_path_factory.mktemp("others")
    BPETokenizer.train_from_iterator(["hello"], 260).save(folder)
    return {name: (folder / name).read_bytes() for name in ("tokenizer.json", "tokenizer_config.json")}


def asked(hub, method="GET"):
    """What was asked for, by the last part of the path, in order."""
    return [one.rpartition("/")[2] for one in hub.requests if one.startswith(method) and "/resolve/" in one]


def test_a_tokenizer_and_what_lies_beside_it(here, files, tokenizer):
    here.add("me/tok", {**files, "chat_template.jinja": b"{{ messages }}", "README.md": b"# mine"})
    loaded = BPETokenizer.from_pretrained("me/tok")
    assert loaded.encode(TEXT) == tokenizer.encode(TEXT)
    assert loaded.metadata == json.loads(json.dumps(tokenizer.metadata))
    assert loaded.roles == tokenizer.roles
    assert loaded.chat_template == "{{ messages }}"
    assert asked(here) == ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"]


def test_commands_take_the_name_of_a_repository(here, files, tokenizer, tmp_path, sample):
    here.add("me/tok", files)
    here.add("me/bare", {"tokenizer.json": files["tokenizer.json"]})
    (tmp_path / "si.txt").write_text(sample["si"][:2000], encoding="utf-8")
    for name in ("me/tok", "me/bare"):
        assert hf_sgpe("encode", "-t", name, TEXT).stdout == f"{' '.join(map(str, tokenizer.encode(TEXT)))}\n"
    assert "hybrid" in hf_sgpe("info", "me/tok").stdout
    assert "me/tok" in hf_sgpe("evaluate", "-t", "me/tok", tmp_path / "si.txt").stdout


def test_a_model_comes_with_the_files_of_its_tokenizer(here):
    vocabularies = ["merges.txt", "qwen.tiktoken", "tekken.json", "tokenizer.model", "vocab.json"]
    here.add("me/model", dict.fromkeys([*vocabularies, "model.safetensors", "pytorch_model.bin", "README.md"], b"content"))
    loaded = sorted(file.name for file in download_model("me/model").iterdir())
    assert loaded == ["merges.txt", "model.safetensors", *vocabularies[1:]]


def test_what_is_in_the_cache_is_not_fetched_again(here, files):
    here.add("me/tok", files)
    path = download("me/tok", "tokenizer.json", also=("tokenizer_config.json", "chat_template.jinja"))
    here.requests.clear()
    assert download("me/tok", "tokenizer.json", also=("tokenizer_config.json", "chat_template.jinja")) == path
    assert asked(here) == []
    assert asked(here, "HEAD") == ["tokenizer.json"]


def test_a_name_may_carry_a_revision(here, files, others, tokenizer):
    repository = here.add("me/tok", files)
    first = repository.at().sha
    here.add("me/other", others)
    newer = here.repositories["me/other"].at()
    repository.commit("v2/beta", newer)
    old, new = tokenizer.encode(TEXT), BPETokenizer.from_pretrained("me/other").encode(TEXT)
    assert old != new
    for name, ids in (
        ("me/tok", old),
        ("me/tok@main", old),
        (f"me/tok@{first}", old),
        ("me/tok@v2/beta", new),
        (f"me/tok@{newer.sha}", new),
    ):
        assert BPETokenizer.from_pretrained(name).encode(TEXT) == ids
    assert BPETokenizer.from_pretrained("me/tok", revision="v2/beta").encode(TEXT) == new
    assert here.hf_sgpe("encode", "-t", "me/tok@v2/beta", TEXT).stdout == " ".join(map(str, new)) + "\n"


def test_a_tokenizer_for_transformers_may_carry_a_revision(here, files, others, tokenizer):
    pytest.importorskip("transformers")
    from hf_sgpe.weights.model_loading import load_tokenizer

    repository = here.add("me/tok", others)
    here.add("me/other", files)
    repository.commit("v2", here.repositories["me/other"].at())
    assert load_tokenizer("me/tok@v2")(TEXT)["input_ids"] == tokenizer.encode(TEXT)
    assert load_tokenizer("me/tok")(TEXT)["input_ids"] != tokenizer.encode(TEXT)
    with pytest.raises(SGPEError, match=r"me/tok@v3: .* revision"):
        load_tokenizer("me/tok@v3")


def test_a_folder_comes_before_a_repository_whatever_its_name(saved, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "me").mkdir()
    (tmp_path / "me" / "tok@v2").symlink_to(saved)
    assert BPETokenizer.from_pretrained("me/tok@v2").vocab_size == 4000


def test_files_are_of_one_commit_even_if_somebody_pushes_in_between(here, files, others, monkeypatch):
    import huggingface_hub

    repository = here.add("me/tok", files)
    here.add("me/other", others)
    fetch = huggingface_hub.hf_hub_download

    def fetch_and_push(*arguments, **options):
        path = fetch(*arguments, **options)
        repository.commit("main", here.repositories["me/other"].at())
        return path

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fetch_and_push)
    path = download("me/tok", "tokenizer.json", also=["tokenizer_config.json"])
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == files


def test_large_files_come_from_where_they_lie_without_the_token(here, files, tokenizer):
    here.large = 10_000
    repository = here.add("me/tok", files)
    assert repository.at().large == {"tokenizer.json"}
    assert BPETokenizer.from_pretrained("me/tok").encode(TEXT) == tokenizer.encode(TEXT)
    assert sum(request.startswith("GET /objects/") for request in here.requests) == 1


def test_a_private_repository_needs_the_token_of_its_owner(hub, files, tokenizer):
    hub.add("me/secret", files, private=True)
    assert hub.hf_sgpe("encode", "-t", "me/secret", TEXT, HF_TOKEN=READ).stdout.split() == [
        str(id) for id in tokenizer.encode(TEXT)
    ]
    for token in ("", STRANGER):
        done = hub.hf_sgpe("encode", "-t", "me/secret", TEXT, HF_TOKEN=token, HF_HOME=str(hub.home / token / "else"))
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "no such repository on the Hub, or it is private: log in" in done.stderr


def test_what_was_loaded_once_is_there_without_the_hub(hub, files):
    hub.add("me/tok", files)
    loaded = hub.hf_sgpe("encode", "-t", "me/tok", TEXT)
    assert loaded.returncode == 0, loaded.stderr
    offline = hub.hf_sgpe("encode", "-t", "me/tok", TEXT, HF_HUB_OFFLINE="1")
    unreachable = hub.hf_sgpe("encode", "-t", "me/tok", TEXT, HF_ENDPOINT="http://127.0.0.1:9")
    assert loaded.stdout == offline.stdout == unreachable.stdout


@pytest.mark.parametrize(
    ("name", "environment", "message"),
    [
        ("me/nothing", {}, "me/nothing: no such file or folder, and no such repository on the Hub"),
        ("me/tok@v9", {}, "me/tok@v9: no such file or folder, and the repository has no such revision"),
        ("me/empty", {}, "me/empty: the repository holds no tokenizer.json"),
        ("me/tok@", {}, "me/tok@: give a branch, a tag or a commit after the @"),
        ("me/no/such", {}, "me/no/such: no such file or folder, and not the name of a Hub repository: write user/name"),
        (
            "me/tok",
            {"HF_TOKEN": "hf_wrong"},
            "me/tok: no such file or folder, and the Hub requires a valid token: log in with",
        ),
        ("me/tok", {"HF_HUB_OFFLINE": "1"}, "me/tok: no such file or folder, and the Hub is switched off (HF_HUB_OFFLINE)"),
        ("me/tok", {"HF_ENDPOINT": "http://127.0.0.1:9"}, "and the connection to the Hub failed ([Errno"),
        ("me/broken", {}, "not valid JSON"),
    ],
)
def test_each_failure_is_one_line(hub, files, name, environment, message):
    hub.add("me/tok", files)
    hub.add("me/empty", {"README.md": b"# nothing here"})
    hub.add("me/broken", {"tokenizer.json": files["tokenizer.json"][:999]})
    done = hub.hf_sgpe("encode", "-t", name, TEXT, **environment)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert message in done.stderr


@pytest.mark.parametrize("pattern", ["HEAD .*tokenizer.json", "GET .*tokenizer.json", "HEAD .*tokenizer_config.json"])
def test_a_connection_that_drops_is_one_line(hub, files, pattern):
    hub.add("me/tok", files)
    hub.fail(pattern, sent=0)
    done = hub.hf_sgpe("encode", "-t", "me/tok", TEXT)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert "me/tok: no such file or folder, and the connection to the Hub failed (" in done.stderr
    assert not list(hub.home.rglob("*.incomplete"))
    hub.faults.clear()
    assert hub.hf_sgpe("encode", "-t", "me/tok", TEXT).returncode == 0


def test_a_download_that_drops_in_the_middle_goes_on(here, files, tokenizer, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    here.add("me/tok", files)
    here.fail("GET .*tokenizer.json", sent=1000, times=2)
    assert BPETokenizer.from_pretrained("me/tok").encode(TEXT) == tokenizer.encode(TEXT)
    assert asked(here).count("tokenizer.json") == 3


def test_a_server_in_trouble_and_two_revisions_are_named(here, files):
    here.add("me/tok", files)
    here.fail("HEAD .*tokenizer.json", status=503)
    with pytest.raises(SGPEError, match=r"me/tok: .* Hub answers 503 \("):
        BPETokenizer.from_pretrained("me/tok")
    with pytest.raises(SGPEError, match=r"me/tok@v1: two revisions .* revision='v2'"):
        BPETokenizer.from_pretrained("me/tok@v1", revision="v2")


def test_a_cache_that_cannot_be_written_is_named(here, files):
    here.add("me/tok", files)
    here.home.mkdir()
    (here.home / "hub").write_text("a file")
    with pytest.raises(OSError, match="home/hub"):
        BPETokenizer.from_pretrained("me/tok")
