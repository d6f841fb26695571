"""Which engines there are on this machine, which one suits a model, and loading a model on one.

The order is that of the document on tokenizers for large language models: MLX on Apple Silicon, NVIDIA, AMD, OpenVINO on a
GPU of Intel, llama.cpp on the CPU, transformers. What can run a model decides with it: a GGUF file is for llama.cpp alone,
and what transformers wrote is not converted unless nothing here runs it as it is.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Mapping
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
from hf_sgpe.formats.tokenizer_json import read_json
from hf_sgpe.generation import llama_cpp, mlx, openvino
from hf_sgpe.generation.engine import Engine
from hf_sgpe.hub import download_model


class Kind(NamedTuple):
    """An engine: its class, what must be importable, the packages it is made of, and how to get it."""

    class_name: str
    imports: tuple[str, ...]
    packages: tuple[str, ...]
    pip: str


ENGINES = {
    "mlx": Kind(
        "MLXEngine",
        ("mlx.core", "mlx_lm"),
        ("mlx-lm", "mlx"),
        "pip install mlx-lm 'mlx[cpu]' (or the extra [mlx])",
    ),
    "openvino": Kind(
        "OpenVINOEngine",
        ("openvino", "optimum.intel"),
        ("optimum-intel", "openvino"),
        "pip install optimum-intel openvino (or the extra [openvino])",
    ),
    "llama.cpp": Kind(
        "LlamaCppEngine",
        ("llama_cpp",),
        ("llama-cpp-python",),
        "pip install llama-cpp-python gguf (or the extra [llama-cpp])",
    ),
    "transformers": Kind("TransformersEngine", ("torch",), ("transformers", "torch"), "pip install torch"),
}
"""Name → engine."""

_WHY_NOT = {"mlx": mlx.why_not, "openvino": openvino.why_not, "llama.cpp": llama_cpp.why_not}

_RUNS = {
    "gguf": ("llama.cpp",),
    "openvino": ("openvino",),
    "mlx": ("mlx",),
    "transformers": ("mlx", "openvino", "llama.cpp", "transformers"),
}


@dataclass(frozen=True)
class Machine:
    """What there is to choose from; tests put in what is not here.

    Attributes:
        system: As `platform.system` says it.
        machine: As `platform.machine` says it.
        versions: Engine that is installed → its packages with their versions.
        why_not: Engine → why it cannot be used though it is installed, in a few words.
        nvidia: Names of GPUs that PyTorch sees.
        amd: Names of GPUs that PyTorch sees, in its build for ROCm.
        openvino: Devices that OpenVINO sees.
        llama_offloads: Whether llama.cpp is built for a GPU.
    """

    system: str = ""
    machine: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    why_not: Mapping[str, str] = field(default_factory=dict)
    nvidia: tuple[str, ...] = ()
    amd: tuple[str, ...] = ()
    openvino: tuple[str, ...] = ()
    llama_offloads: bool = False

    @property
    def is_apple_silicon(self) -> bool:
        """Whether MLX has a GPU here."""
        return (self.system, self.machine) == ("Darwin", "arm64")

    def has(self, engine: str) -> bool:
        """Whether an engine can be used."""
        return engine in self.versions and engine not in self.why_not


class EngineInfo(NamedTuple):
    """An engine on this machine.

    Attributes:
        name: As `load_engine` takes it.
        version: Of the packages that it is made of; None if it is not installed.
        devices: What it can compute on.
        why_not: Why it cannot be used; empty if it can.
        pip: What installs it.
    """

    name: str
    version: str | None
    devices: tuple[str, ...]
    why_not: str
    pip: str


def available_engines(machine: Machine | None = None) -> list[EngineInfo]:
    """All engines, those that can be used and those that cannot."""
    machine = machine or look()
    gpus = (*machine.nvidia, *machine.amd)
    devices = {
        "mlx": ("Apple GPU",) if machine.is_apple_silicon else ("CPU",),
        "openvino": machine.openvino,
        "llama.cpp": ("CPU", *(gpus or ("GPU",))) if machine.llama_offloads else ("CPU",),
        "transformers": ("CPU", *gpus),
    }
    infos = []
    for name, kind in ENGINES.items():
        found = machine.versions.get(name)
        why_not = machine.why_not.get(name, "" if found else "not installed")
        infos.append(EngineInfo(name, found, () if why_not else devices[name], why_not, kind.pip))
    return infos


def best_engine(model: str | os.PathLike[str], machine: Machine | None = None) -> str:
    """The name of the engine to run a model with here.

    Args:
        model: Its folder or file, or a repository on the Hub.

    Raises:
        SGPEError: there is no such model, or nothing here runs it; the message names the pip command.
    """
    path = find_model(model)
    kind = kind_of_model(path)
    machine = machine or look()
    for name in _preferred(machine, kind):
        if name in _RUNS[kind] and machine.has(name) and not _unfit(path, name):
            return name
    wanted = _RUNS[kind][-1]
    if machine.has(wanted):
        raise SGPEError(f"{path}: nothing here runs it: {wanted} {_unfit(path, wanted)}")
    why_not = machine.why_not.get(wanted, "not installed")
    raise SGPEError(f"{path}: nothing here runs a model of {kind}: {wanted} is {why_not}: {ENGINES[wanted].pip}")


def _preferred(machine: Machine, kind: str) -> Iterator[str]:
    if machine.is_apple_silicon:
        yield "mlx"
    if machine.nvidia or machine.amd:
        # Either has them; a file of GGUF is for the one, a folder for the other.
        yield "llama.cpp" if kind == "gguf" else "transformers"
    if any(device.startswith("GPU") for device in machine.openvino):
        yield "openvino"
    if kind == "gguf":
        yield "llama.cpp"
    # In the end what needs no conversion, then what does.
    yield from ("transformers", "mlx", "openvino", "llama.cpp")


def load_engine(model: str | os.PathLike[str], engine: str | None = None, *, exact: bool = False, **settings: Any) -> Engine:
    """Loads a model.

    Args:
        model: The folder of a model of transformers, OpenVINO or MLX, a GGUF file, or a repository on the Hub.
        engine: One of `ENGINES`; None for `best_engine`.
        exact: Compute in 32 bits, so that all engines give the same tokens but for what rounding decides.
        settings: ``device`` for transformers and OpenVINO; ``n_ctx`` and ``n_gpu_layers`` for llama.cpp.

    Raises:
        SGPEError: there is no such model or engine, it is not installed, it cannot run this model, or has no such setting.
    """
    path = find_model(model)
    engine = best_engine(path) if engine is None else engine
    if engine not in ENGINES:
        raise SGPEError(f"unknown engine {engine!r}: known are {', '.join(ENGINES)}")
    kind = kind_of_model(path)
    if engine not in _RUNS[kind]:
        raise SGPEError(f"{path}: a model of {kind}, which {engine} does not run: {', '.join(_RUNS[kind])} would")
    if reason := _unfit(path, engine):
        raise SGPEError(f"{path}: {engine} {reason}: take another engine")
    made = ENGINES[engine]
    try:
        for name in made.imports:
            import_module(name)
        engine_class = getattr(import_module(f"hf_sgpe.generation.{engine.replace('.', '_')}"), made.class_name)
    except ImportError as error:
        reason = _why_not(made) or ("not installed" if find_spec(made.imports[-1].partition(".")[0]) is None else str(error))
        raise SGPEError(f"{engine}: {' '.join(reason.split())}: {made.pip}") from None
    known = [name for name in signature(engine_class).parameters if name not in ("path", "exact")]
    for name in settings:
        if name not in known:
            raise SGPEError(f"{engine} has no setting {name!r}: it has {', '.join(known) or 'none'}")
    loaded: Engine = engine_class(path, exact=exact, **settings)
    length = loaded.context_length
    if length is not None and (not isinstance(length, int) or length < 1):
        loaded.close()
        raise SGPEError(f"{path}: config.json has a context of {length!r} tokens: it must be a number above 0")
    return loaded


def _unfit(path: Path, engine: str) -> str:
    """Why an engine would, or might, compute something else than the model says, or cannot load it."""
    return _WHY_NOT[engine](path) if engine in _WHY_NOT else ""


def find_model(model: str | os.PathLike[str]) -> Path:
    """Where a model is: a folder or a file, or what was downloaded of a repository on the Hub.

    Raises:
        SGPEError: there is none.
    """
    if not isinstance(model, (str, os.PathLike)) or not os.fspath(model):
        raise SGPEError(f"expected the folder or file of a model, or its name on the Hub, not {model!r}")
    path = Path(model)
    return path if path.exists() else download_model(os.fspath(model))


def kind_of_model(path: Path) -> str:
    """``gguf``, ``openvino``, ``mlx`` (only what no other engine reads) or ``transformers``, after what wrote it.

    Raises:
        SGPEError: it is no model.
    """
    if path.is_file():
        if path.suffix.lower() != ".gguf":
            raise SGPEError(f"{path}: not a model: give a .gguf file, or a folder with config.json")
        return "gguf"
    if (path / "openvino_model.xml").exists():
        return "openvino"
    if not (path / "config.json").exists():
        raise SGPEError(f"{path}: holds no model: there is no config.json in it")
    config = read_json(path / "config.json")
    # What mlx-lm has quantized.
    return "mlx" if "quantization" in config else "transformers"


# ---------------------------------------------------------------- probes


@cache
def look() -> Machine:
    """What is installed, and what hardware it sees. Takes seconds the first time: PyTorch and OpenVINO are asked."""
    versions, why_not = {}, {}
    for name, kind in ENGINES.items():
        try:
            versions[name] = ", ".join(f"{package} {version(package)}" for package in kind.packages)
        except PackageNotFoundError:
            continue
        if reason := _why_not(kind) or _import_error(kind.imports[0]):
            why_not[name] = reason
    nvidia, amd = _gpus() if "transformers" in versions else ((), ())
    usable = {name: name in versions and name not in why_not for name in ENGINES}
    return Machine(
        platform.system(),
        platform.machine(),
        versions,
        why_not,
        nvidia,
        amd,
        _asked(lambda: tuple(import_module("openvino").Core().available_devices), ()) if usable["openvino"] else (),
        _asked(_llama_offloads, False) if usable["llama.cpp"] else False,
    )


def _why_not(kind: Kind) -> str:
    """Which package is installed in a version that an engine's own does not go with."""
    package = kind.packages[0]
    try:
        needs = [Requirement(text) for text in requires(package) or ()]
    except PackageNotFoundError:
        return ""
    for need in needs:
        if need.marker and not need.marker.evaluate({"extra": ""}):
            continue
        try:
            found = version(need.name)
        except PackageNotFoundError:
            continue
        if not need.specifier.contains(found, prereleases=True):
            return f"{package} {version(package)} needs {need.name}{need.specifier}, and {found} is installed"
    return ""


def _import_error(module: str) -> str:
    try:
        import_module(module)
    except Exception as error:  # whatever a library in parts does
        return " ".join(f"does not import ({error})".split())
    return ""


def _gpus() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """GPUs of NVIDIA, and of AMD: PyTorch calls both CUDA."""
    import torch

    names = tuple(torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count()))
    return ((), names) if torch.version.hip else (names, ())


def _llama_offloads() -> bool:
    import llama_cpp

    from hf_sgpe.generation.llama_cpp import silence

    silence()
    return bool(llama_cpp.llama_supports_gpu_offload())


def _asked(question: Callable[[], Any], otherwise: Any) -> Any:
    try:
        return question()
    except Exception:  # a driver that is not there
        return otherwise
