"""The models of a server: finding them in folders, loading them, and loading them again if their files have changed."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.hub import public_name
from hf_sgpe.generation.engines.detection import find_model
from hf_sgpe.serving.requests import Served


@dataclass(frozen=True)
class _Loaded:
    path: str
    fingerprint: tuple[tuple[str, int, int], ...]
    served: Served


class ModelFolders:
    """The models that are named on the command line.

    Args:
        given: Paths of models, folders with several models, or repositories on the Hub.
        name: Name of a single model in the API, instead of the last part of its path.
    """

    def __init__(self, given: Sequence[str], load: Callable[[str, str], Served], name: str | None = None) -> None:
        self._given = given
        self._load = load
        self._name = name
        self._loaded: dict[str, _Loaded] = {}
        self.found()

    def found(self) -> dict[str, str]:
        """Return a dict from the names of all models to their paths."""
        names = {one.path: name for name, one in self._loaded.items()}
        listed = [path for given in self._given for path in _models_in(given, names)]
        if self._name is not None and len(listed) > 1:
            raise SGPEError(f"--name names one model, and there are {len(listed)}: rename the folders of the models instead")
        paths: dict[str, str] = {}
        for path in listed:
            name = self._name or names.get(path) or public_name(path)  # a path that no longer exists keeps its name
            if name in paths and Path(path).resolve() == Path(paths[name]).resolve():
                raise SGPEError(f"the model {path} is given twice: leave one out")
            if name in paths:
                raise SGPEError(f"{path} and {paths[name]} have the same name, {name}: rename one of them")
            paths[name] = path
        return paths

    def load(self) -> list[Served]:
        """Load and return all models. If one of them cannot be loaded, free the memory of the others."""
        try:
            for name, path in self.found().items():
                self._loaded[name] = self._load_one(path, name, is_more=bool(self._loaded))
        except BaseException:
            self.close()
            raise
        return [one.served for one in self._loaded.values()]

    def reload(self, say: Callable[[str], None]) -> list[Served]:
        """Load new and changed models, and return all models. The caller must close those that were replaced or removed."""
        try:
            found = self.found()
        except SGPEError as error:
            say(f"error: {error}; the models stay as they are")
            return [one.served for one in self._loaded.values()]
        loaded: dict[str, _Loaded] = {}
        for name, path in found.items():
            before = self._loaded.get(name)
            if before is not None and before.path == path and before.fingerprint == _fingerprint_of(path):
                loaded[name] = before
                continue
            try:
                loaded[name] = self._load_one(path, name, is_more=True)
            except Exception as error:
                reason = " ".join(str(error).split())
                if before is None:
                    say(f"error: {reason}; {name} is not served")
                else:
                    say(f"error: {reason}; {name} stays as it was")
                    loaded[name] = before
            else:
                say(f"{'loaded' if before is None else 'reloaded'} {name}")
        if not loaded:
            say("error: no model is left; the models stay as they are")
            loaded = self._loaded
        for name in self._loaded.keys() - loaded.keys():
            say(f"removed {name}")
        self._loaded = loaded
        return [one.served for one in self._loaded.values()]

    def close(self) -> None:
        """Free the memory of all models."""
        gc.freeze()  # each engine searches for garbage when it is closed, which would delay the end of a server
        try:
            for one in self._loaded.values():
                one.served.generator.close()
        finally:
            gc.unfreeze()
        self._loaded = {}

    def _load_one(self, path: str, name: str, *, is_more: bool) -> _Loaded:
        fingerprint = _fingerprint_of(path)
        if is_more:
            check_memory(path)
        return _Loaded(path, fingerprint, self._load(path, name))


def _fingerprint_of(path: str) -> tuple[tuple[str, int, int], ...]:
    """Return the name, size and time of change of each file of a model, if it is local."""
    return tuple((file.name, status.st_size, status.st_mtime_ns) for file, status in _files_of(path))


def check_memory(path: str) -> None:
    """Check that there is enough memory for the weights of a model, if the system reports its memory."""
    needed = sum(status.st_size for file, status in _files_of(os.fspath(find_model(path))) if file.suffix in _WEIGHTS)
    available = _available_memory()
    if available is not None and needed > available:
        raise SGPEError(
            f"{path}: the weights need {needed / 1e9:,.1f} GB of memory, and {available / 1e9:,.1f} GB are available: serve "
            "fewer or smaller models"
        )


def _models_in(given: str, known: Collection[str]) -> list[str]:
    """Return the models in the folder ``given``, or ``given`` itself if it is no folder of models. Existing paths in
    ``known`` count as models even if their files are broken.
    """
    folder = Path(given)
    if not folder.is_dir() or given in known or _is_model(folder):
        return [given]
    return [os.fspath(path) for path in sorted(folder.iterdir()) if os.fspath(path) in known or _is_model(path)] or [given]


def _is_model(path: Path) -> bool:
    if path.is_dir():
        return any((path / name).is_file() for name in ("config.json", "openvino_model.xml"))
    return path.suffix.lower() == ".gguf"


def _files_of(path: str) -> Iterator[tuple[Path, os.stat_result]]:
    model = Path(path)
    for file in sorted(model.iterdir()) if model.is_dir() else [model] if model.exists() else []:
        with suppress(OSError):  # the file was removed in the meantime
            if file.is_file():
                yield file, file.stat()


def _available_memory() -> int | None:
    """Return how many bytes of memory programs can still use, if the system reports this."""
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]) << 10
    with suppress(ImportError):
        import psutil

        return int(psutil.virtual_memory().available)
    return None


_WEIGHTS = (".safetensors", ".bin", ".gguf", ".npz", ".pt", ".pth")
