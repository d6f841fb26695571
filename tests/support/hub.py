"""A Hub for tests, with the part of the HTTP interface that creates, writes and reads repositories of models.

Repositories of datasets, named ``datasets/user/name`` here, can be read, and Spaces, ``spaces/user/name``, can be pushed to.

Like the real Hub, it has commits, branches and pull requests, private repositories, tokens for reading or writing, large
files outside of git (LFS), and the same error codes. Tests can make requests fail.
"""

import base64
import fnmatch
import hashlib
import json
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from support.command import hf_sgpe

WRITE, READ, STRANGER = "hf_write", "hf_read", "hf_stranger"
# Of the client itself, where it sends large files.
of_the_client = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
TOKENS = {WRITE: ("me", "write"), READ: ("me", "read"), STRANGER: ("you", "write")}


@dataclass
class Commit:
    """The content of a repository at a commit: path → content, and the paths of large files."""

    files: dict[str, bytes] = field(default_factory=dict)
    large: set[str] = field(default_factory=set)
    title: str = "initial commit"
    parent: str = ""

    @property
    def sha(self) -> str:
        parts = [self.parent, self.title, *(f"{path} {git_oid(content)}" for path, content in sorted(self.files.items()))]
        return hashlib.sha1("\n".join(parts).encode()).hexdigest()

    def entry(self, path: str) -> dict[str, Any]:
        content = self.files[path]
        if path not in self.large:
            return {"type": "file", "path": path, "size": len(content), "oid": git_oid(content)}
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256(content)}\nsize {len(content)}\n".encode()
        large = {"oid": sha256(content), "size": len(content), "pointerSize": len(pointer)}
        return {"type": "file", "path": path, "size": len(content), "oid": git_oid(pointer), "lfs": large}


@dataclass
class Repository:
    """A repository: its commits by SHA, oldest first, and the commits of its branches and pull requests."""

    private: bool = False
    commits: dict[str, Commit] = field(default_factory=dict)
    revisions: dict[str, str] = field(default_factory=dict)

    def commit(self, revision: str, commit: Commit) -> str:
        self.commits[commit.sha] = commit
        self.revisions[revision] = commit.sha
        return commit.sha

    def at(self, revision: str = "main") -> Commit | None:
        return self.commits.get(self.revisions.get(revision, revision))


@dataclass
class Fault:
    """A fault of requests whose "METHOD /path" matches a pattern: an error status, or a dropped connection."""

    pattern: str
    status: int | None = None
    sent: int | None = None  # bytes of the answer before the drop; None: drop during the request
    times: int = 1_000_000


@dataclass
class Hub:
    """The state of the server, for tests to read and change; ``requests`` are all received requests, as "METHOD /path"."""

    address: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    large: int = 10 * 2**20  # files of more bytes are large
    faults: list[Fault] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    home: Path = Path("nowhere")  # where clients keep their cache and their token

    def add(self, name: str, files: dict[str, bytes], *, private: bool = False) -> Repository:
        repository = self.repositories[name] = Repository(private)
        large = {path for path, content in files.items() if len(content) > self.large}
        self.objects |= {sha256(files[path]): files[path] for path in large}
        repository.commit("main", Commit(dict(files), large))
        return repository

    def files(self, name: str = "me/tok", revision: str = "main") -> dict[str, bytes]:
        """Return the content of a repository, except files that the real Hub adds."""
        commit = self.repositories[name].at(revision)
        assert commit
        return {path: content for path, content in commit.files.items() if path != ".gitattributes"}

    def writes(self) -> list[str]:
        """Return the requests that can change the Hub."""
        return [one for one in self.requests if not one.startswith(("GET", "HEAD")) and "/paths-info/" not in one]

    def fail(self, pattern: str, **how: int) -> None:
        self.faults.append(Fault(pattern, **how))

    def environment(self, **more: str) -> dict[str, str]:
        """Return environment variables that direct `huggingface_hub` to this Hub, with a write token."""
        found = {"HF_ENDPOINT": self.address, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1", "HF_TOKEN": WRITE}
        found |= {"HF_HOME": str(self.home)} | dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
        return {**os.environ, **found, **more}

    def hf_sgpe(self, *arguments: object, **more: str) -> CompletedProcess[str]:
        """Run the command line in this process against this Hub, without pauses between retries.

        Args:
            *arguments: The arguments of the command line.
            **more: Environment variables.
        """
        with pytest.MonkeyPatch.context() as patch:
            self.patch(patch, **more)
            patch.setattr("time.sleep", lambda seconds: None)
            # In a new process, the command sets variables that silence the client at import.
            for name, value in (("handlers", [logging.NullHandler()]), ("propagate", False)):
                patch.setattr(logging.getLogger("huggingface_hub"), name, value)
            return hf_sgpe(*arguments, code=None)

    def patch(self, monkeypatch: pytest.MonkeyPatch, **more: str) -> None:
        """Direct `huggingface_hub`, and the libraries built on it, in this process to this Hub.

        Args:
            monkeypatch: The fixture that undoes the changes.
            **more: Environment variables; their effects on a new process are applied to this one.
        """
        from huggingface_hub import close_session

        environment = self.environment(**more)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        address, home = environment["HF_ENDPOINT"], environment["HF_HOME"]
        is_offline = environment["HF_HUB_OFFLINE"] == "1"
        changed: dict[str, dict[str, object]] = {
            "huggingface_hub.constants": {
                "ENDPOINT": address,
                "HUGGINGFACE_CO_URL_TEMPLATE": f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}",
                "HF_HUB_CACHE": f"{home}/hub",
                "HF_TOKEN_PATH": f"{home}/token",
                "HF_HUB_OFFLINE": is_offline,
                "HF_HUB_DISABLE_XET": environment["HF_HUB_DISABLE_XET"] == "1",
            },
            "datasets.config": {
                "HF_ENDPOINT": address,
                "HUB_DATASETS_URL": f"{address}/datasets/{{repo_id}}/resolve/{{revision}}/{{path}}",
                "HF_DATASETS_CACHE": Path(home, "datasets"),
                "HF_HUB_OFFLINE": is_offline,
            },
            "transformers.utils.hub": {"_hf_api": None},  # it remembers the address
        }
        for module, values in changed.items():
            for name, value in values.items() if module in sys.modules else ():
                monkeypatch.setattr(sys.modules[module], name, value, raising=False)
        close_session()  # it remembers proxies


@contextmanager
def running(home: Path = Path("nowhere")) -> Iterator[Hub]:
    """Run an empty Hub, and yield it; its clients keep their cache in ``home``."""
    hub = Hub(home=home)
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    hub.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def changes(pushed: Any) -> dict[str, str]:
    return {file.path: file.change for file in pushed.files}


def git_oid(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        # A client that has waited too long, on a busy machine, closes its connection. That is no error of the program.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Refused(Exception):
    """An error response, with status, code and message as on the real Hub."""


class _Dropped(Exception):
    pass


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    fault: Fault | None

    def _handle(self) -> None:
        url = urlsplit(self.path)
        self.query = parse_qs(url.query)
        request = f"{self.command} {unquote(url.path)}"
        self.hub.requests.append(request)
        self.fault = next((one for one in self.hub.faults if one.times > 0 and re.search(one.pattern, request)), None)
        try:
            self.body = self._read()
            if self.fault and self.fault.status:
                raise _Refused(self.fault.status, "", "out of order")
            # Paths of datasets and Spaces differ from those of models in a prefix, which is part of the name here.
            path = re.sub("^/api/(datasets|spaces)/", r"/api/models/\1/", url.path)
            for methods, pattern, action in _ROUTES:
                if self.command in methods and (match := re.fullmatch(pattern, path)):
                    return action(self, *map(unquote, match.groups(default="")))
            raise _Refused(404, "", "no such address")
        except _Refused as refused:
            status, code, message = refused.args
            headers = {"X-Error-Code": code, "X-Error-Message": message, "X-Repo-Commit": getattr(self, "commit_sha", "")}
            self._answer({"error": message}, status, headers)
        except _Dropped:
            self.close_connection = True

    do_HEAD = do_GET = do_POST = do_PUT = _handle

    def _read(self) -> bytes:
        length = int(self.headers.get("Content-Length", 0))
        if self.fault:
            self.fault.times -= 1
            if self.fault.status is None and self.fault.sent is None:
                self.rfile.read(length // 2)
                raise _Dropped
        return self.rfile.read(length)

    def _answer(self, content: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        if wanted := re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", "") if status == 200 else ""):
            body, status = body[int(wanted[1]) : int(wanted[2]) + 1], 206
        self.send_response(status)
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}
        for name, value in headers.items():
            if value:
                self.send_header(name, value)
        if self.fault and self.fault.sent == 0:
            raise _Dropped
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: self.fault.sent] if self.fault else body)

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _user(self) -> tuple[str, str]:
        """Return the user of a request and the rights of the token; empty without a token."""
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token and token not in TOKENS:
            raise _Refused(401, "", "Invalid credentials in Authorization header")
        return TOKENS.get(token, ("", ""))

    def _found(self, name: str) -> Repository:
        user, _ = self._user()
        repository = self.hub.repositories.get(name)
        if repository is None or (repository.private and user != name.partition("/")[0]):
            raise _Refused(404 if user else 401, "RepoNotFound", "Repository not found")
        return repository

    def _commit_at(self, name: str, revision: str) -> Commit:
        commit = self._found(name).at(revision or "main")
        if commit is None:
            raise _Refused(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        self.commit_sha = commit.sha
        return commit

    def _check_write(self, owner: str | None = None) -> str:
        user, role = self._user()
        if not user:
            raise _Refused(401, "", "Invalid username or password.")
        if role != "write" or owner not in (None, user):
            raise _Refused(403, "", "You don't have the rights to do this: use a token with write access")
        return user

    def _whoami(self) -> None:
        self._answer({"type": "user", "name": self._user()[0] or self._check_write()})

    def _info(self, name: str, revision: str) -> None:
        commit = self._commit_at(name, revision)
        siblings = [{"rfilename": path} for path in sorted(commit.files)]
        private = self.hub.repositories[name].private
        self._answer({"id": name, "sha": commit.sha, "private": private, "siblings": siblings, "tags": []})

    def _tree(self, name: str, revision: str, folder: str) -> None:
        commit = self._commit_at(name, revision)
        below = [path for path in sorted(commit.files) if path.startswith(f"{folder}/" if folder else "")]
        if folder and not below:
            raise _Refused(404, "EntryNotFound", f"{folder} does not exist")
        folders = {"/".join(path.split("/")[:depth]) for path in below for depth in range(1, path.count("/") + 1)}
        entries = [{"type": "directory", "path": path, "size": 0, "oid": git_oid(path.encode())} for path in sorted(folders)]
        found = [*entries, *(commit.entry(path) for path in below)]
        if self.query.get("recursive") != ["True"] and self.query.get("recursive") != ["true"]:
            found = [one for one in found if one["path"].rpartition("/")[0] == folder]
        self._answer([one for one in found if one["path"] != folder])

    def _paths_info(self, name: str, revision: str) -> None:
        commit = self._commit_at(name, revision)
        wanted = parse_qs(self.body.decode())["paths"]
        found = [commit.entry(path) for path in wanted if path in commit.files]
        for path in wanted:
            if any(file.startswith(f"{path}/") for file in commit.files):
                found.append({"type": "directory", "path": path, "size": 0, "oid": git_oid(path.encode())})
        self._answer(found)

    def _resolve(self, name: str, revision: str, path: str) -> None:
        commit = self._commit_at(name, revision)
        if path not in commit.files:
            raise _Refused(404, "EntryNotFound", "Entry not found")
        content, facts = commit.files[path], {"X-Repo-Commit": commit.sha}
        if path in commit.large:
            facts |= {"X-Linked-Etag": f'"{sha256(content)}"', "X-Linked-Size": str(len(content))}
            # Another name of this machine, as the real one sends large files from another host.
            elsewhere = self.hub.address.replace("127.0.0.1", "localhost")
            self._answer(b"", 302, {**facts, "Location": f"{elsewhere}/objects/{sha256(content)}"})
        else:
            self._answer(content, 200, {**facts, "ETag": f'"{git_oid(content)}"'})

    def _object(self, oid: str) -> None:
        if "Authorization" in self.headers:
            raise _Refused(400, "", "a token was sent to where large files are")
        if self.command == "GET":
            return self._answer(self.hub.objects[oid])
        if sha256(self.body) != oid:
            raise _Refused(400, "", "the object has another hash")
        self.hub.objects[oid] = self.body
        return self._answer(b"")

    def _create(self) -> None:
        payload = json.loads(self.body)
        name = f"{payload['organization'] or self._check_write()}/{payload['name']}"
        self._check_write(name.partition("/")[0])
        if payload.get("type") == "space":
            if payload.get("sdk") != "static":
                raise _Refused(400, "", "a Space needs an SDK")
            name = f"spaces/{name}"
        url = {"url": f"{self.hub.address}/{name}"}
        if name in self.hub.repositories:
            return self._answer({**url, "error": "You already created this model repo"}, 409)
        private = payload.get("visibility") == "private" or payload.get("private") is True
        self.hub.add(name, {".gitattributes": b"*.bin filter=lfs diff=lfs merge=lfs -text\n"}, private=private)
        return self._answer(url)

    def _branch(self, name: str, branch: str) -> None:
        repository = self._found(name)
        self._check_write(name.partition("/")[0])
        if branch in repository.revisions:
            raise _Refused(409, "", "Reference already exists")
        repository.revisions[branch] = repository.revisions["main"]
        self._answer({})

    def _validate(self) -> None:
        content = json.loads(self.body)["content"]
        if content.startswith("---\n: broken"):
            return self._answer({"errors": [{"message": "the metadata is no YAML"}], "warnings": []}, 400)
        warnings = [] if content.startswith("---") else [{"message": "empty or missing yaml metadata in repo card"}]
        return self._answer({"errors": [], "warnings": warnings})

    def _preupload(self, name: str, revision: str) -> None:
        commit = self._writable(name, revision)
        ignored = commit.files.get(".gitignore", b"").decode().split()
        files = []
        for file in json.loads(self.body)["files"]:
            path, there = file["path"], commit.files.get(file["path"])
            oid = None if there is None else sha256(there) if path in commit.large else git_oid(there)
            mode = "lfs" if file["size"] > self.hub.large else "regular"
            skipped = any(fnmatch.fnmatch(path, pattern) for pattern in ignored)
            files.append({"path": path, "uploadMode": mode, "shouldIgnore": skipped, "oid": oid})
        self._answer({"files": files})

    def _batch(self, name: str) -> None:
        self._found(name)
        self._check_write()
        objects = json.loads(self.body)["objects"]
        for one in objects:
            if one["oid"] not in self.hub.objects:
                verify = f"{self.hub.address}/{name}.git/info/lfs/objects/verify"
                one["actions"] = {
                    "upload": {"href": f"{self.hub.address}/objects/{one['oid']}"},
                    "verify": {"href": verify},
                }
        self._answer({"transfer": "basic", "objects": objects})

    def _verify(self, name: str) -> None:
        if json.loads(self.body)["oid"] not in self.hub.objects:
            raise _Refused(404, "", "the object has not arrived")
        self._answer({})

    def _commit(self, name: str, revision: str) -> None:
        head = self._writable(name, revision)
        repository, proposed = self.hub.repositories[name], "create_pr" in self.query
        header, *operations = [json.loads(line) for line in self.body.splitlines()]
        if header["value"].get("parentCommit", head.sha) != head.sha:
            raise _Refused(412, "", "A commit has happened since. Please refresh and try again.")
        commit = Commit(dict(head.files), set(head.large), header["value"]["summary"], head.sha)
        for operation in operations:
            value = operation["value"]
            path = value["path"]
            commit.large.discard(path)
            if operation["key"] == "deletedFile":
                del commit.files[path]
            elif operation["key"] == "lfsFile":
                commit.large.add(path)
                commit.files[path] = self.hub.objects[value["oid"]]
            else:
                commit.files[path] = base64.b64decode(value["content"])
        number = 1 + sum(one.startswith("refs/pr/") for one in repository.revisions)
        sha = repository.commit(f"refs/pr/{number}" if proposed else revision, commit)
        page = f"{self.hub.address}/{name}"
        answer = {"success": True, "commitOid": sha, "commitUrl": f"{page}/commit/{sha}"}
        self._answer(answer | ({"pullRequestUrl": f"{page}/discussions/{number}"} if proposed else {}))

    def _writable(self, name: str, revision: str) -> Commit:
        commit = self._commit_at(name, revision)
        # Anybody may propose a change.
        self._check_write(None if "create_pr" in self.query else name.removeprefix("spaces/").partition("/")[0])
        return commit


_REPOSITORY = r"((?:datasets/|spaces/)?[^/]+/[^/]+)"
_MODEL, _NAME, _REVISION = rf"/api/models/{_REPOSITORY}", rf"/{_REPOSITORY}", r"([^/]+)"
_ROUTES: list[tuple[tuple[str, ...], str, Callable[..., None]]] = [
    (("GET",), r"/api/whoami-v2", _Handler._whoami),
    (("GET",), rf"{_MODEL}(?:/revision/{_REVISION})?", _Handler._info),
    (("GET",), rf"{_MODEL}/tree/{_REVISION}(?:/(.+))?", _Handler._tree),
    (("POST",), rf"{_MODEL}/paths-info/{_REVISION}", _Handler._paths_info),
    (("GET", "HEAD"), rf"{_NAME}/resolve/{_REVISION}/(.+)", _Handler._resolve),
    (("GET", "PUT"), r"/objects/(\w+)", _Handler._object),
    (("POST",), r"/api/repos/create", _Handler._create),
    (("POST",), rf"{_MODEL}/branch/{_REVISION}", _Handler._branch),
    (("POST",), r"/api/validate-yaml", _Handler._validate),
    (("POST",), rf"{_MODEL}/preupload/{_REVISION}", _Handler._preupload),
    (("POST",), rf"{_NAME}\.git/info/lfs/objects/batch", _Handler._batch),
    (("POST",), rf"{_NAME}\.git/info/lfs/objects/verify", _Handler._verify),
    (("POST",), rf"{_MODEL}/commit/{_REVISION}", _Handler._commit),
]
