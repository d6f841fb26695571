"""Downloads from the Hugging Face Hub, with one-line errors."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from json import JSONDecodeError
from pathlib import Path

from hf_sgpe.errors import SGPEError


class HubUnreachableError(SGPEError):
    """An error for a Hub that does not answer: no network, a temporary failure of the server, or offline mode."""


class NoSuchFileError(SGPEError):
    """An error for a repository that does not have the requested file."""


# The client retries each request for half a minute. With the waits between them, all tries take about four minutes.
_TRIES = 6
_LOG_IN = "log in with 'hf auth login' or set HF_TOKEN"


def split_name(name: str) -> tuple[str, str | None]:
    """Split a name from the command line, ``repository`` or ``repository@revision``, into repository and revision."""
    repo, at, revision = name.partition("@")
    if at and not revision:
        raise SGPEError(f"{name}: give a branch, a tag or a commit after the @")
    return repo, revision or None


def public_name(name: str, *, of_folder: bool = False) -> str:
    """Return a name that may be published: only the last part of a local path, because local paths are private.

    Args:
        of_folder: Whether a file has the name of its folder.
    """
    if not name or not Path(name).exists():
        return name
    path = Path(name).resolve()
    return path.parent.name if of_folder and path.is_file() else path.name


def check_name(name: str) -> None:
    """Check that ``name`` is a valid repository name, without a request to the Hub."""
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    with hub_errors(f"{name}:"):
        validate_repo_id(name)


def download(
    repo: str,
    filename: str,
    *,
    also: Iterable[str] = (),
    revision: str | None = None,
    token: bool | str | None = None,
    cache_dir: str | Path | None = None,
) -> Path:
    """Return the local path of a file from a model repository. If the current version of the file is not in the cache,
    download it.

    Args:
        also: Other files of the same commit to download into the same folder. Files that do not exist are skipped.
        token: See huggingface_hub. None uses the token of ``hf auth login``.
        cache_dir: Cache folder; None for the cache of huggingface_hub.

    Raises:
        NoSuchFileError: the repository has no file ``filename``.
        HubUnreachableError: the Hub does not answer, and the file is not in the cache.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.errors import LocalEntryNotFoundError, OfflineModeIsEnabled, RemoteEntryNotFoundError

    name = f"{repo}@{revision}" if revision else repo
    with hub_errors(f"{name}: no such file or folder, and"):
        try:
            if not isinstance(try_to_load_from_cache(repo, filename, cache_dir=cache_dir, revision=revision), str):
                # Without a network, this fails at once. A download would be retried for half a minute.
                get_hf_file_metadata(hf_hub_url(repo, filename, revision=revision), token=token)
            path = Path(hf_hub_download(repo, filename, cache_dir=cache_dir, revision=revision, token=token))
        except RemoteEntryNotFoundError:
            raise NoSuchFileError(f"{name}: the repository holds no {filename}") from None
        # The cache has a folder for each commit. Commits do not change, so a file that a commit lacks is looked up only
        # once.
        commit = path.parents[filename.count("/")].name
        for other in also:
            if try_to_load_from_cache(repo, other, cache_dir=cache_dir, revision=commit) is None:
                try:
                    hf_hub_download(repo, other, cache_dir=cache_dir, revision=commit, token=token)
                except RemoteEntryNotFoundError:
                    continue
                except LocalEntryNotFoundError as error:
                    # In offline mode, the cached files are enough. Otherwise a failed connection is an error.
                    if not isinstance(error.__cause__, OfflineModeIsEnabled):
                        raise
    return path


def names_in(repo: str, *, revision: str | None = None, token: bool | str | None = None) -> list[str]:
    """Return the paths of the files in a repository. If they cannot be listed, return an empty list."""
    from huggingface_hub import HfApi

    try:
        with hub_errors(f"{repo}:"):
            return list(HfApi(token=token).list_repo_files(repo, revision=revision))
    except SGPEError:
        return []


def download_model(name: str) -> Path:
    """Return the local folder of a model, with weights, configuration and tokenizer. Download files that are not in the
    cache.

    Args:
        name: ``user/name``, or ``user/name@revision``.
    """
    from huggingface_hub import snapshot_download

    repo, revision = split_name(name)
    with hub_errors(f"{name}: no such file or folder, and"):
        return Path(snapshot_download(repo, revision=revision, allow_patterns=list(_MODEL_FILES)))


# Some repositories also have the weights in other formats. Those are not downloaded.
_MODEL_FILES = (
    *("*.json", "*.jinja", "*.safetensors", "openvino_*.xml", "openvino_*.bin"),
    *("merges.txt", "*.tiktoken", "*.model"),  # vocabularies that are not in a JSON file
)

PUBLISHED_MODEL_FILES = (
    *("config.json", "generation_config.json", "model*.safetensors", "model.safetensors.index.json"),
    *("preprocessor_config.json", "processor_config.json", "transplant.json", "LICENSE*", "NOTICE*"),
    *("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json", "vocab.txt"),
)
"""Name patterns of the model files to upload. Checkpoints, settings and logs are not uploaded."""


@contextmanager
def hub_errors(start: str) -> Iterator[None]:
    """Convert Hub errors of the ``with`` block into an `SGPEError` with a one-line message that begins with ``start``."""
    try:
        yield
    except SGPEError:
        raise
    except Exception as error:  # the HTTP library and its errors depend on the version of huggingface_hub
        if isinstance(error, OSError) and error.filename:
            raise  # an error of the disk, not of the Hub
        from huggingface_hub.errors import LocalEntryNotFoundError, OfflineModeIsEnabled

        # Large-file uploads and the cache wrap the original error in other errors.
        cause: BaseException = error
        while isinstance(cause, (RuntimeError, LocalEntryNotFoundError)) and cause.__cause__:
            cause = cause.__cause__
        is_unreachable = isinstance(cause, OfflineModeIsEnabled) or _is_temporary(cause)
        raise (HubUnreachableError if is_unreachable else SGPEError)(f"{start} {_reason(cause)}") from None


class Patience:
    """A policy for retries: each wait is twice as long as the previous one."""

    def __init__(self) -> None:
        self._failures = 0

    def wait_after(self, error: Exception) -> None:
        """Wait after a failure, before the next try. If a retry cannot help, or after too many retries, raise ``error``."""
        self._failures += 1
        if self._failures >= _TRIES or not _is_temporary(error):
            raise error
        time.sleep(2**self._failures)

    def renew(self) -> None:
        """Reset the count of failures after a success."""
        self._failures = 0


def _is_temporary(error: BaseException) -> bool:
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    if isinstance(error, HfHubHTTPError):
        return error.response.status_code in (408, 429) or error.response.status_code >= 500
    if isinstance(error, OfflineModeIsEnabled):
        return False
    # huggingface_hub uses requests or httpx, depending on its version. Both have an error class with this name.
    is_http_error = any(kind.__name__ == "RequestError" for kind in type(error).__mro__)
    return is_http_error or isinstance(error, (ConnectionError, TimeoutError))


def _reason(error: BaseException) -> str:
    from huggingface_hub import errors

    for kind, reason in (
        (errors.OfflineModeIsEnabled, "the Hub is switched off (HF_HUB_OFFLINE)"),
        (errors.HFValidationError, "not the name of a Hub repository: write user/name"),
        (errors.LocalTokenNotFoundError, f"the Hub requires a token: {_LOG_IN}"),
        (errors.GatedRepoError, f"the repository is gated: ask for access on its page, and {_LOG_IN}"),
        (errors.RepositoryNotFoundError, f"no such repository on the Hub, or it is private: {_LOG_IN}"),
        (errors.RevisionNotFoundError, "the repository has no such revision"),
    ):
        if isinstance(error, kind):
            return reason
    message = (str(error).strip() or type(error).__name__).splitlines()[0]
    if isinstance(error, errors.HfHubHTTPError):
        status = error.response.status_code
        message = " ".join((error.server_message or message).split())
        return {
            401: f"the Hub requires a valid token: {_LOG_IN}",
            403: f"the token does not permit this request ({message})",
            412: "the repository has changed in the meantime: try again",
        }.get(status, f"the Hub answers {status} ({message})")
    if isinstance(error, ValueError) and not isinstance(error, JSONDecodeError):
        return " ".join(str(error).split())
    return f"the connection to the Hub failed ({message})"
