"""The Hugging Face Hub: fetching the files of a tokenizer, and turning its errors into one line."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from json import JSONDecodeError
from pathlib import Path

from hf_sgpe.errors import SGPEError


class HubUnreachableError(SGPEError):
    """The Hub did not answer: there is no network, the server is out of order for now, or the Hub is switched off."""


# The client itself retries each request for half a minute; with the waits in between this makes some four minutes.
_TRIES = 6
_LOG_IN = "log in by 'hf auth login' or set HF_TOKEN"


def split_name(name: str) -> tuple[str, str | None]:
    """The repository and the revision that a name on the command line means.

    >>> split_name("user/name@v1"), split_name("user/name")
    (('user/name', 'v1'), ('user/name', None))

    Raises:
        SGPEError: there is nothing after the ``@``.
    """
    repo, at, revision = name.partition("@")
    if at and not revision:
        raise SGPEError(f"{name}: name a branch, a tag or a commit after the @")
    return repo, revision or None


def check_name(name: str) -> None:
    """Makes sure that a repository can have a name, ``user/name`` or ``name``, before the Hub is asked.

    Raises:
        SGPEError: it cannot.
    """
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    with hub_errors(f"{name}:"):
        validate_repo_id(name)


def download(
    repo: str,
    filename: str,
    *,
    beside: Iterable[str] = (),
    revision: str | None = None,
    token: bool | str | None = None,
) -> Path:
    """A file of a repository of models, from the cache if it is there unchanged.

    Args:
        repo: ``user/name``.
        filename: Path in the repository.
        beside: Files to have in the same folder, of the same commit, as far as the repository holds them.
        revision: Branch, tag or commit.
        token: As huggingface_hub takes it; None for the one that the user logged in with.

    Raises:
        SGPEError: there is no such file, or the Hub cannot be asked for it.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.errors import LocalEntryNotFoundError, OfflineModeIsEnabled, RemoteEntryNotFoundError

    name = f"{repo}@{revision}" if revision else repo
    with hub_errors(f"{name}: no such file or folder, and"):
        try:
            if not isinstance(try_to_load_from_cache(repo, filename, revision=revision), str):
                # One request; without a network a download would retry for half a minute.
                get_hf_file_metadata(hf_hub_url(repo, filename, revision=revision), token=token)
            path = Path(hf_hub_download(repo, filename, revision=revision, token=token))
        except RemoteEntryNotFoundError:
            raise SGPEError(f"{name}: the repository holds no {filename}") from None
        # The cache has a folder for each commit, and a commit does not change.
        commit = path.parents[filename.count("/")].name
        for other in beside:
            if try_to_load_from_cache(repo, other, revision=commit) is None:
                try:
                    hf_hub_download(repo, other, revision=commit, token=token)
                except RemoteEntryNotFoundError:
                    continue
                except LocalEntryNotFoundError as error:
                    # With the Hub switched off, the files fetched before must do; a failed connection is an error.
                    if not isinstance(error.__cause__, OfflineModeIsEnabled):
                        raise
    return path


def download_model(name: str) -> Path:
    """The folder with a repository's model: its weights, configuration and tokenizer, from the cache where they are there.

    Args:
        name: ``user/name``, or ``user/name@revision``.

    Raises:
        SGPEError: there is no such repository, or the Hub cannot be asked for it.
    """
    from huggingface_hub import snapshot_download

    repo, revision = split_name(name)
    with hub_errors(f"{name}: no such file or folder, and"):
        return Path(snapshot_download(repo, revision=revision, allow_patterns=list(_OF_A_MODEL)))


# Some repositories hold the same weights in several forms.
_OF_A_MODEL = ("*.json", "*.jinja", "*.safetensors", "openvino_*.xml", "openvino_*.bin")


@contextmanager
def hub_errors(start: str) -> Iterator[None]:
    """A block that talks to the Hub: its errors become an `SGPEError` of one line that begins with ``start``.

    Raises:
        SGPEError: the Hub refused something, or the connection failed.
    """
    try:
        yield
    except SGPEError:
        raise
    except Exception as error:  # whatever the HTTP library of the day raises
        if isinstance(error, OSError) and error.filename:
            raise  # of the disk
        kind = HubUnreachableError if _is_unreachable(error) else SGPEError
        raise kind(f"{start} {_reason(error)}") from None


class Patience:
    """Waits before a retry, longer each time, and gives up after several failures in a row."""

    def __init__(self) -> None:
        self._failed = 0

    def wait_after(self, error: Exception) -> None:
        """Waits.

        Raises:
            Exception: ``error`` itself, if a retry cannot help or has not helped.
        """
        self._failed += 1
        if self._failed >= _TRIES or not _may_pass(error):
            raise error
        time.sleep(2**self._failed)

    def renew(self) -> None:
        """To be called after a success."""
        self._failed = 0


def _may_pass(error: BaseException) -> bool:
    """Whether the network failed, or a server that is out of order for now."""
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    if isinstance(error, HfHubHTTPError):
        return error.response.status_code in (408, 429) or error.response.status_code >= 500
    if isinstance(error, OfflineModeIsEnabled):
        return False
    # huggingface_hub has used several HTTP libraries, which all call these errors alike.
    is_of_http = any(kind.__name__ == "RequestError" for kind in type(error).__mro__)
    return is_of_http or isinstance(error, (ConnectionError, TimeoutError))


def _is_unreachable(error: BaseException) -> bool:
    from huggingface_hub.errors import OfflineModeIsEnabled

    error = _unwrapped(error)
    return isinstance(error, OfflineModeIsEnabled) or _may_pass(error)


def _unwrapped(error: BaseException) -> BaseException:
    """The original error: uploads of large files, and the cache, wrap it."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    while isinstance(error, (RuntimeError, LocalEntryNotFoundError)) and error.__cause__:
        error = error.__cause__
    return error


def _reason(error: BaseException) -> str:
    from huggingface_hub import errors

    error = _unwrapped(error)
    for kind, reason in (
        (errors.OfflineModeIsEnabled, "the Hub is switched off (HF_HUB_OFFLINE)"),
        (errors.HFValidationError, "not a name of a Hub repository: write user/name"),
        (errors.LocalTokenNotFoundError, f"the Hub wants a token: {_LOG_IN}"),
        (errors.GatedRepoError, f"the repository is gated: ask for access on its page, and {_LOG_IN}"),
        (errors.RepositoryNotFoundError, f"no such repository on the Hub (or you may not see it: {_LOG_IN})"),
        (errors.RevisionNotFoundError, "the repository has no such revision"),
    ):
        if isinstance(error, kind):
            return reason
    said = (str(error).strip() or type(error).__name__).splitlines()[0]
    if isinstance(error, errors.HfHubHTTPError):
        status = error.response.status_code
        said = " ".join((error.server_message or said).split())
        return {
            401: f"the Hub wants a valid token: {_LOG_IN}",
            403: f"the token does not allow it ({said})",
            412: "the repository has changed in the meantime: try again",
        }.get(status, f"the Hub answers {status} ({said})")
    if isinstance(error, ValueError) and not isinstance(error, JSONDecodeError):
        return " ".join(str(error).split())
    return f"the connection to the Hub failed ({said})"
