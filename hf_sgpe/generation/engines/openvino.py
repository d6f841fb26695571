"""Generation with OpenVINO and optimum-intel, on Intel CPUs, GPUs and NPUs."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from packaging.version import Version

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.json_files import read_json
from hf_sgpe.generation.engines.conversion import load_converted
from hf_sgpe.generation.engines.engine import loading
from hf_sgpe.generation.engines.transformers import TransformersEngine, load_whole
from hf_sgpe.terminal.progress import without_remarks

MODEL_FILE = "openvino_model.xml"


class OpenVINOEngine(TransformersEngine):
    """A causal language model that OpenVINO runs. optimum-intel adds the generation methods of transformers.

    When a folder in the format of transformers is loaded for the first time, it is converted without quantization. The
    conversion is cached. Prefixes of earlier texts are always computed again, because OpenVINO stores keys and values inside
    the model, where they cannot be cropped.

    Args:
        path: Folder of the model, in the format of OpenVINO or transformers.
        device: OpenVINO's name for the device: ``CPU``, ``GPU``, ``NPU`` or ``AUTO``. None: a GPU if there is one, otherwise
            the CPU.
        exact: Compute in 32 bits, including the cache of keys and values, if the device supports it.
    """

    name = "openvino"
    imports = ("openvino", "optimum.intel")
    packages = ("optimum-intel", "openvino")
    pip = "pip install optimum-intel openvino (or the extra [openvino])"
    runs = ("openvino", "transformers")
    rank = 12
    rank_on_gpu = 2

    def __init__(self, path: Path, *, device: str | None = None, exact: bool = False) -> None:
        super().__init__(path, device=device, exact=exact, keep_prefixes=0)

    def _length_of_embeddings(self) -> int:
        return 0  # a converted model has only logits

    @classmethod
    def devices(cls) -> tuple[str, ...]:
        import openvino

        return tuple(openvino.Core().available_devices)

    @classmethod
    def why_not(cls, path: Path) -> str:
        """Return why optimum-intel cannot convert a model, or an empty string.

        optimum-intel traces the code of transformers, so a converted model computes the same results as transformers.
        """
        if (path / MODEL_FILE).exists():
            return ""
        kind = read_json(path / "config.json").get("model_type")
        try:
            with _without_telemetry(), without_remarks():
                import optimum.exporters.openvino  # noqa: F401 (registers the supported types)
                from optimum.exporters.tasks import TasksManager
        except Exception:  # `load_engine` reports a missing or broken package
            return ""
        try:
            exporter = TasksManager.get_exporter_config_constructor(
                "openvino", model_type=kind, task="text-generation-with-past", library_name="transformers"
            ).func
        except (KeyError, ValueError):
            return f"cannot convert models of type {kind!r}"
        newest, installed = getattr(exporter, "MAX_TRANSFORMERS_VERSION", None), version("transformers")
        if newest is not None and Version(installed) > Version(str(newest)):
            return f"converts models of type {kind!r} only with transformers up to {newest}, but {installed} is installed"
        return ""

    def _load(self, path: Path, device: str | None, exact: bool) -> Any:
        import openvino

        with _without_telemetry():
            from optimum.intel import OVModelForCausalLM

        devices = openvino.Core().available_devices
        device = device or ("GPU" if any(name.startswith("GPU") for name in devices) else "CPU")
        if device != "AUTO" and device not in {*devices, *(name.partition(".")[0] for name in devices)}:
            raise SGPEError(f"unknown device {device!r}: OpenVINO has {', '.join(devices)} and AUTO on this machine")
        config = {"EXECUTION_MODE_HINT": "ACCURACY"} if exact else {}
        # By default optimum-intel quantizes large models, which changes their answers.
        options = {"device": device, "ov_config": config, "quantization_config": None}
        logging.getLogger("nncf").setLevel(logging.ERROR)
        logging.getLogger("openvino.frontend.pytorch.utils").setLevel(logging.CRITICAL)  # it is about an optional wrapper
        logging.getLogger("optimum").setLevel(logging.ERROR)

        def load(folder: Path) -> Any:
            return OVModelForCausalLM.from_pretrained(str(folder), export=False, **options)

        with loading(path), without_remarks():
            return load(path) if (path / MODEL_FILE).exists() else load_converted(path, "openvino", _convert, load)

    def _release(self) -> None:
        self._model = None


def _convert(source: Path, target: Path) -> None:
    from optimum.intel import OVModelForCausalLM

    load_whole(source)
    with _without_telemetry():
        model = OVModelForCausalLM.from_pretrained(source, export=True, load_in_8bit=False, compile=False)
        model.save_pretrained(target)


@contextmanager
def _without_telemetry() -> Iterator[None]:
    """Disable the telemetry of OpenVINO's converter and of nncf in the ``with`` block."""
    before = os.environ.get("CI")
    os.environ["CI"] = "true"
    try:
        yield
    finally:
        if before is None:
            del os.environ["CI"]
        else:
            os.environ["CI"] = before
