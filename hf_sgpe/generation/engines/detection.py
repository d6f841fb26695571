"""The engines on this machine, the choice of an engine for a model, and the loading of models.

The order of preference comes from the document on tokenizers for large language models: MLX on Apple Silicon, NVIDIA, AMD,
OpenVINO on an Intel GPU, llama.cpp on the CPU, transformers. The rank of an engine is its position in this order. The format
of the model also matters. Only llama.cpp runs a GGUF file. A model in the format of transformers is converted only if no
engine on this machine runs it without conversion.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.folder_contents import no_model
from hf_sgpe.files.hub import download_model
from hf_sgpe.files.json_files import read_json
from hf_sgpe.generation.engines.engine import Engine
from hf_sgpe.generation.engines.llama_cpp import LlamaCppEngine
from hf_sgpe.generation.engines.mlx import MLXEngine
from hf_sgpe.generation.engines.openvino import OpenVINOEngine
from hf_sgpe.generation.engines.transformers import TransformersEngine

ENGINES: dict[str, type[Engine]] = {
    engine.name: engine for engine in (MLXEngine, OpenVINOEngine, LlamaCppEngine, TransformersEngine)
}
"""The classes of the engines, keyed by name. `add_engine` adds a class."""

MODEL_KINDS: dict[str, Callable[[Path], bool]] = {
    "transformers": lambda path: True,
    "mlx": lambda path: "quantization" in read_json(path / "config.json"),  # written by mlx-lm, and readable only by mlx-lm
    "openvino": lambda path: (path / "openvino_model.xml").exists(),
    "gguf": lambda path: path.is_file(),
}
"""Tests of a model's path, keyed by kind of model. If several tests succeed, the last of them decides."""


@dataclass(frozen=True)
class Machine:
    """The installed engines and their devices. Unit tests pass their own `Machine`.

    Attributes:
        versions: Names and versions of the packages of each installed engine, keyed by engine.
        why_not: Short reasons why installed engines cannot be used, keyed by engine.
        devices: The devices on which each engine can compute, keyed by engine. Engines without an entry use the CPU.
    """

    versions: Mapping[str, str] = field(default_factory=dict)
    why_not: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def _has(self, engine: str) -> bool:
        return engine in self.versions and engine not in self.why_not

    def _rank(self, engine: type[Engine]) -> int:
        has_gpu = any(not device.startswith(("CPU", "NPU")) for device in self.devices.get(engine.name, ()))
        return engine.rank_on_gpu if has_gpu and engine.rank_on_gpu is not None else engine.rank


class EngineInfo(NamedTuple):
    """An engine on this machine.

    Attributes:
        name: Name for `load_engine`.
        version: The packages of the engine with their versions, or None if the engine is not installed.
        why_not: Reason why the engine cannot be used, or an empty string.
        pip: Command that installs the engine.
    """

    name: str
    version: str | None
    devices: tuple[str, ...]
    why_not: str
    pip: str


def add_engine(engine: type[Engine]) -> None:
    """Register an engine under its name, which no other engine may have."""
    if engine.name in ENGINES:
        raise SGPEError(f"an engine {engine.name!r} already exists: choose another name")
    ENGINES[engine.name] = engine


def available_engines(machine: Machine | None = None) -> list[EngineInfo]:
    """Return a description of every engine, even if the engine cannot be used on this machine."""
    machine = machine or look()
    infos = []
    for name, engine in ENGINES.items():
        installed = machine.versions.get(name)
        why_not = machine.why_not.get(name, "" if installed else "not installed")
        devices = () if why_not else machine.devices.get(name, ("CPU",))
        infos.append(EngineInfo(name, installed, devices, why_not, engine.pip))
    return infos


def best_engine(model: str | os.PathLike[str], machine: Machine | None = None) -> str:
    """Return the name of the preferred engine for a model on this machine.

    Args:
        model: Folder or file of the model, or a repository on the Hub.

    Raises:
        SGPEError: there is no such model, or no usable engine runs it. If an engine must be installed, the message contains
            the pip command.
    """
    path = find_model(model)
    kind = kind_of_model(path)
    machine = machine or look()
    engines = sorted((engine for engine in ENGINES.values() if kind in engine.runs), key=machine._rank)
    for engine in engines:
        if machine._has(engine.name) and not engine.why_not(path):
            return engine.name
    if not engines:
        raise SGPEError(f"{path}: no engine runs models in the format of {kind}")
    # The engine for the model's own format.
    wanted = min(engines, key=lambda engine: (engine.runs.index(kind), engine.rank))
    if machine._has(wanted.name):
        raise SGPEError(f"{path}: no installed engine runs this model. {wanted.name} {wanted.why_not(path)}")
    why_not = machine.why_not.get(wanted.name, "not installed")
    raise SGPEError(
        f"{path}: no installed engine runs models in the format of {kind}. {wanted.name} is {why_not}: {wanted.pip}"
    )


def load_engine(model: str | os.PathLike[str], engine: str | None = None, *, exact: bool = False, **settings: Any) -> Engine:
    """Load a model.

    Args:
        model: Folder of a model in the format of transformers, OpenVINO or MLX; a GGUF file; or a repository on the Hub.
        engine: Name of one of `available_engines`; None means `best_engine`.
        exact: Compute in 32 bits, so that all engines generate the same tokens. Results can still differ where rounding
            decides between two tokens.
        settings: ``device`` for transformers and OpenVINO; ``n_ctx`` and ``n_gpu_layers`` for llama.cpp; ``keep_prefixes``
            for all engines except OpenVINO.
    """
    path = find_model(model)
    name = best_engine(path) if engine is None else engine
    if name not in ENGINES:
        raise SGPEError(f"unknown engine {name!r}: choose from {', '.join(ENGINES)}")
    chosen, kind = ENGINES[name], kind_of_model(path)
    if kind not in chosen.runs:
        suited = ", ".join(other.name for other in ENGINES.values() if kind in other.runs)
        raise SGPEError(f"{path}: {name} does not run models in the format of {kind}: use {suited}")
    if reason := chosen.why_not(path):
        raise SGPEError(f"{path}: {name} {reason}: choose another engine")
    try:
        for module in chosen.imports:
            import_module(module)
    except ImportError as error:
        is_there = find_spec(chosen.imports[-1].partition(".")[0]) is not None
        reason = _version_conflict(chosen) or (str(error) if is_there else "not installed")
        raise SGPEError(f"{name}: {' '.join(reason.split())}: {chosen.pip}") from None
    for setting in settings:
        if setting not in _settings_of(chosen):
            others = [other.name for other in ENGINES.values() if kind in other.runs and setting in _settings_of(other)]
            remedy = "leave it out" + (f", or use {' or '.join(others)}" if others else "")
            raise SGPEError(f"{setting}: {name} has no such setting: {remedy}")
    loaded = chosen(path, exact=exact, **settings)  # type: ignore[call-arg]  # each has its own constructor
    length = loaded.context_length
    if length is not None and (not isinstance(length, int) or length < 1):
        loaded.close()
        raise SGPEError(f"{path}: config.json has a context of {length!r} tokens: change it to a number above 0")
    return loaded


def _settings_of(engine: type[Engine]) -> list[str]:
    return [setting for setting in signature(engine).parameters if setting not in ("path", "exact")]


def find_model(model: str | os.PathLike[str]) -> Path:
    """Return the local folder or file of a model. A repository on the Hub is downloaded first."""
    if not isinstance(model, (str, os.PathLike)) or not os.fspath(model):
        raise SGPEError(f"expected the folder or file of a model, or its name on the Hub, not {model!r}")
    path = Path(model)
    return path if path.exists() else download_model(os.fspath(model))


def kind_of_model(path: Path) -> str:
    """Return the file format of a model, one of `MODEL_KINDS`. Most formats are named after the library that writes them."""
    if path.is_file() and path.suffix.lower() != ".gguf":
        raise SGPEError(f"{path} is not a model: give a .gguf file, or a folder with config.json")
    if path.is_dir() and not any((path / name).exists() for name in ("openvino_model.xml", "config.json")):
        raise no_model(path)
    return next(kind for kind, is_of_kind in reversed(MODEL_KINDS.items()) if is_of_kind(path))


# ---------------------------------------------------------------- this machine


def look() -> Machine:
    """Return the engines on this machine. The first call takes seconds, because it imports PyTorch and OpenVINO to list
    devices.
    """
    return _look_for(tuple(ENGINES.values()))


@cache
def _look_for(engines: tuple[type[Engine], ...]) -> Machine:
    versions, why_not, devices = {}, {}, {}
    for engine in engines:
        name = engine.name
        try:
            versions[name] = ", ".join(f"{package} {version(package)}" for package in engine.packages)
        except PackageNotFoundError:
            continue
        if reason := _version_conflict(engine) or _import_error(engine):
            why_not[name] = reason
            continue
        with suppress(Exception):  # a missing driver
            devices[name] = engine.devices()
    return Machine(versions, why_not, devices)


def _version_conflict(engine: type[Engine]) -> str:
    """Return a description of the first package whose version does not fit the requirements of an engine's main package, or
    an empty string.
    """
    package = next(iter(engine.packages), "")
    try:
        needs = [Requirement(text) for text in requires(package) or ()] if package else []
    except PackageNotFoundError:
        return ""
    for need in needs:
        if need.marker and not need.marker.evaluate({"extra": ""}):
            continue
        try:
            installed = version(need.name)
        except PackageNotFoundError:
            continue
        if not need.specifier.contains(installed, prereleases=True):
            return f"{package} {version(package)} needs {need.name}{need.specifier}, but {installed} is installed"
    return ""


def _import_error(engine: type[Engine]) -> str:
    try:
        for module in engine.imports[:1]:
            import_module(module)
    except Exception as error:  # a broken library may raise any exception
        return " ".join(f"does not import ({error})".split())
    return ""
