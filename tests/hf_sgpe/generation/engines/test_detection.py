"""Which engine is chosen, with machines put in that are not here."""

import json

import numpy as np
import pytest

from hf_sgpe import SGPEError
from hf_sgpe.generation import GenerationOptions, Machine, available_engines, best_engine, load_engine
from hf_sgpe.generation.engines.detection import ENGINES, add_engine, kind_of_model, look
from hf_sgpe.generation.engines.engine import Engine
from hf_sgpe.generation.engines.mlx import COMPARED as MLX_COMPARED
from hf_sgpe.weights.model_config import transformers_config, uncompared

EVERY = dict.fromkeys(ENGINES, "1.0")
LINUX = Machine(EVERY)
APPLE = {"mlx": ("Apple GPU",), "llama.cpp": ("CPU", "GPU")}
MACHINES = {
    "plain": LINUX,
    "mac": Machine(EVERY, devices=APPLE),
    "old mac": LINUX,
    "nvidia": Machine(EVERY, devices={"transformers": ("CPU", "H200")}),
    "amd": Machine(EVERY, devices={"transformers": ("CPU", "MI300")}),
    "intel": Machine(EVERY, devices={"openvino": ("CPU", "GPU.0", "NPU")}),
    "mac without mlx": Machine({"transformers": "5", "llama.cpp": "1"}, devices={"llama.cpp": ("CPU", "GPU")}),
    "only llama.cpp": Machine({"llama.cpp": "1"}),
    "only openvino": Machine({"openvino": "1"}),
    "broken mlx": Machine(EVERY, {"mlx": "does not import"}),
}


@pytest.fixture
def model(tmp_path):
    def made(kind):
        if kind == "gguf":
            path = tmp_path / "model.gguf"
            path.touch()
            return path
        quantized = {"quantization": {"bits": 4, "group_size": 64}} if kind == "mlx" else {}
        (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", **quantized}))
        (tmp_path / "model.safetensors").touch()
        if kind == "openvino":
            (tmp_path / "openvino_model.xml").touch()
        return tmp_path

    return made


@pytest.mark.parametrize(
    ("machine", "folder", "file"),
    [
        ("plain", "transformers", "llama.cpp"),
        ("mac", "mlx", "llama.cpp"),
        ("old mac", "transformers", "llama.cpp"),
        ("nvidia", "transformers", "llama.cpp"),
        ("amd", "transformers", "llama.cpp"),
        ("intel", "openvino", "llama.cpp"),
        ("mac without mlx", "transformers", "llama.cpp"),
        ("only llama.cpp", "llama.cpp", "llama.cpp"),
        ("only openvino", "openvino", None),
        ("broken mlx", "transformers", "llama.cpp"),
    ],
)
def test_the_best_engine_follows_hardware_and_model(model, machine, folder, file):
    assert best_engine(model("transformers"), MACHINES[machine]) == folder
    if file:
        assert best_engine(model("gguf"), MACHINES[machine]) == file
    else:
        with pytest.raises(SGPEError, match=r"model\.gguf: .* llama\.cpp is not installed"):
            best_engine(model("gguf"), MACHINES[machine])


@pytest.mark.parametrize("kind", ["mlx", "openvino"])
def test_the_files_of_an_engine_run_on_it_only(model, kind):
    path = model(kind)
    assert kind_of_model(path) == kind
    assert best_engine(path, LINUX) == kind
    with pytest.raises(SGPEError, match=f"{kind}: use {kind}"):
        load_engine(path, "transformers")
    with pytest.raises(SGPEError, match=f"{kind} is not installed: pip install"):
        best_engine(path, Machine({"transformers": "5"}))


YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0, "original_max_position_embeddings": 64}
ROPE_OF_LAYERS = {name: {"rope_type": "default", "rope_theta": 1e4} for name in ("sliding_attention", "full_attention")}


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"model_type": "gpt2"}, "models of type 'gpt2'"),
        ({"model_type": "gpt_neox"}, "models of type 'gpt_neox'"),
        ({"model_type": "gpt_oss"}, "models of type 'gpt_oss'"),
        ({"model_type": "gemma2", "sliding_window": 16}, "models of type 'gemma2'"),
        ({"model_type": "gemma3_text", "rope_parameters": ROPE_OF_LAYERS}, "models of type 'gemma3_text'"),
        ({"model_type": "llama", "hidden_act": "gelu"}, "'llama' with hidden_act 'gelu'"),
        ({"model_type": "olmo2", "hidden_act": "gelu"}, "'olmo2' with hidden_act 'gelu'"),
        ({"model_type": "starcoder2"}, "'starcoder2' with hidden_act 'gelu_pytorch_tanh'"),
        ({"model_type": "starcoder2", "hidden_act": "gelu", "sliding_window": 8}, "with sliding_window 'all layers'"),
        ({"model_type": "mistral"}, "with sliding_window 'all layers'"),  # transformers takes 4096 of 131072
        ({"model_type": "phi3", "sliding_window": 8}, "with sliding_window 'all layers'"),
        ({"model_type": "mixtral", "sliding_window": 8}, "with sliding_window 'all layers'"),
        (
            {"model_type": "qwen2", "sliding_window": 8, "use_sliding_window": True, "max_window_layers": 1},
            "with sliding_window 'some layers'",
        ),
        ({"model_type": "cohere2", "sliding_window_pattern": 2}, "with sliding_window 'every other layer'"),
        ({"model_type": "llama", "sliding_window": 8}, "with sliding_window 'all layers'"),
        ({"model_type": "llama", "layer_types": ["full_attention"] * 32}, "with sliding_window None"),
        ({"model_type": "llama", "rope_traditional": True}, "with rope_traditional True"),
        ({"model_type": "llama", "a_field_of_tomorrow": 1}, "with a_field_of_tomorrow 1"),
        ({"model_type": "llama", "quantization_config": {"quant_method": "fp8"}}, "with quantization_config"),
        (
            {"model_type": "llama", "rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}},
            "with partial_rotary_factor 0.5",
        ),
        (
            {"model_type": "llama", "rope_parameters": {**YARN, "attention_factor": 2.0}},
            r"with rope 'yarn\(attention_factor, factor, original_max_position_embeddings\)'",
        ),
        ({"model_type": "llama", "rope_parameters": {**YARN, "truncate": False}}, r"with rope 'yarn\(.*truncate\)'"),
        ({"model_type": "llama", "rope_scaling": {"type": "dynamic", "factor": 2.0}}, r"with rope 'dynamic\(factor\)'"),
        ({"model_type": "phi", "partial_rotary_factor": "half"}, "with partial_rotary_factor 'half'"),
        ({"model_type": "llama", "rope_parameters": YARN}, ""),
        ({"model_type": "qwen2", "sliding_window": 8, "use_sliding_window": False, "max_position_embeddings": 64}, ""),
        ({"model_type": "mistral", "sliding_window": 4096, "max_position_embeddings": 4096}, ""),
        ({"model_type": "mistral", "sliding_window": None}, ""),
        ({"model_type": "llama", "hidden_act": "silu", "rope_parameters": {"rope_theta": 1e6}}, ""),
        ({"model_type": "llama", "rope_theta": 5e5, "rope_scaling": None, "pretraining_tp": 1}, ""),
        ({"model_type": "olmo3", "sliding_window": 8, "rope_parameters": ROPE_OF_LAYERS}, "with rope "),
        ({"model_type": "granite", "embedding_multiplier": 12.0}, ""),
    ],
)
def test_mlx_is_not_given_what_it_was_not_compared_on(model, config, reason):
    path = model("transformers")
    (path / "config.json").write_text(json.dumps(config))
    assert best_engine(path, MACHINES["mac"]) == ("transformers" if reason else "mlx")
    if reason:
        with pytest.raises(SGPEError, match=f"mlx .*{reason}.*: choose another engine"):
            load_engine(path, "mlx")


@pytest.mark.parametrize("config", [{"model_type": "model_of_tomorrow"}, {"model_type": "llama", "hidden_size": "x"}])
def test_a_configuration_that_transformers_cannot_read_is_named(model, config):
    path = model("transformers")
    (path / "config.json").write_text(json.dumps(config))
    for ask in (lambda: best_engine(path, MACHINES["mac"]), lambda: load_engine(path, "mlx")):
        with pytest.raises(SGPEError, match=r"config\.json: transformers cannot read") as caught:
            ask()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", MLX_COMPARED)
def test_no_other_value_of_any_field_is_taken_for_compared(model, kind):
    path = model("transformers")
    row = MLX_COMPARED[kind]
    (path / "config.json").write_text(json.dumps({"model_type": kind}))
    config = transformers_config(path)
    first = {name: values[0] for name, values in row.items() if name not in ("rope", "sliding_window")}
    config |= {**first, "rope_parameters": {"rope_theta": 1e4, "rope_type": "default"}}
    if row.get("sliding_window") == (None,):
        config["sliding_window"] = None
    config.pop("partial_rotary_factor" if "partial_rotary_factor" not in row else "", None)
    assert uncompared(config, MLX_COMPARED) == ""
    for name in first:
        assert uncompared({**config, name: "another"}, MLX_COMPARED).endswith(f" with {name} 'another'")
    assert uncompared({**config, "another": None}, MLX_COMPARED).endswith(" with another None")
    assert uncompared({**config, "model_type": "another"}, MLX_COMPARED).endswith("models of type 'another'")


def test_an_mlx_model_that_mlx_does_not_support_is_refused(model):
    path = model("mlx")
    (path / "config.json").write_text(json.dumps({"model_type": "gemma2", "quantization": {"bits": 4, "group_size": 64}}))
    with pytest.raises(SGPEError, match=r"mlx .* 'gemma2'$"):
        best_engine(path, MACHINES["mac"])


def test_mlx_is_not_given_files_of_weights_that_are_no_part_of_the_model(model):
    path = model("transformers")
    (path / "config.json").write_text('{"model_type": "llama"}')
    (path / "model_old.safetensors").touch()
    with pytest.raises(SGPEError, match=r"model_old\.safetensors"):
        load_engine(path, "mlx")
    assert best_engine(path, MACHINES["mac"]) == "transformers"


def test_arguments_that_name_no_model_are_refused():
    for wrong in (None, 5, b"x", ""):
        with pytest.raises(SGPEError, match="expected the folder or file of a model, or its name on the Hub, not"):
            load_engine(wrong)


def test_why_an_engine_cannot_be_used_is_said(model):
    machine = Machine(EVERY, {"openvino": "optimum-intel 2.2.0 needs transformers<5.6"})
    infos = {info.name: info for info in available_engines(machine)}
    assert infos["openvino"].why_not == "optimum-intel 2.2.0 needs transformers<5.6"
    assert infos["openvino"].devices == ()
    assert infos["mlx"].devices == ("CPU",)
    with pytest.raises(SGPEError, match=r"openvino is optimum-intel 2\.2\.0 needs"):
        best_engine(model("openvino"), machine)
    nothing = available_engines(Machine())
    assert {info.why_not for info in nothing} == {"not installed"}
    assert all(info.pip.startswith("pip install") and info.version is None for info in nothing)


@pytest.mark.parametrize(
    ("machine", "devices"),
    [
        ("mac", {"mlx": ("Apple GPU",), "llama.cpp": ("CPU", "GPU")}),
        ("nvidia", {"transformers": ("CPU", "H200"), "mlx": ("CPU",), "llama.cpp": ("CPU",)}),
        ("intel", {"openvino": ("CPU", "GPU.0", "NPU")}),
    ],
)
def test_devices_are_shown(machine, devices):
    infos = {info.name: info.devices for info in available_engines(MACHINES[machine])}
    assert devices.items() <= infos.items()


def test_this_machine_is_looked_at():
    machine = look()
    assert set(machine.versions) <= set(ENGINES)
    assert [info.name for info in available_engines()] == list(ENGINES)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "no config.json"),
        ({"config.json": "{"}, "config.json: damaged|not valid JSON"),
    ],
)
def test_folders_and_files_that_are_no_model_are_refused(tmp_path, files, message):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(SGPEError, match=message):
        best_engine(tmp_path, LINUX)


def test_wrong_names_are_refused(model, tmp_path):
    path = model("transformers")
    with pytest.raises(SGPEError, match=r"vllm.*mlx, openvino, llama\.cpp, transformers"):
        load_engine(path, "vllm")
    with pytest.raises(SGPEError, match=r"notes\.txt is not a model"):
        (tmp_path / "notes.txt").touch()
        load_engine(tmp_path / "notes.txt")
    with pytest.raises(SGPEError, match="Hub is switched off"):
        load_engine("nobody/nothing")
    pytest.importorskip("torch")
    with pytest.raises(SGPEError, match=r"n_ctx: transformers .* llama\.cpp$"):
        load_engine(path, "transformers", n_ctx=5)


def test_a_missing_engine_is_one_line_with_the_command(model, monkeypatch):
    monkeypatch.setattr(ENGINES["mlx"], "imports", ("no_such_package",))
    monkeypatch.setattr(ENGINES["mlx"], "packages", ("no-such-package",))
    with pytest.raises(SGPEError, match=r"pip install mlx-lm 'mlx\[cpu\]'"):
        load_engine(model("transformers"), "mlx")


def test_versions_that_do_not_go_together_are_named(monkeypatch):
    from importlib.metadata import PackageNotFoundError

    from hf_sgpe.generation.engines import detection

    needs = ["transformers<5.6,>=4.51", "no-such-package", "black==1; extra == 'quality'", "numpy"]
    found = {"optimum-intel": "2.2.0", "transformers": "5.23.0", "numpy": "2.0"}

    def version(name):
        if name not in found:
            raise PackageNotFoundError(name)
        return found[name]

    monkeypatch.setattr(detection, "requires", lambda name: needs)
    monkeypatch.setattr(detection, "version", version)
    engine = ENGINES["openvino"]
    expected = "optimum-intel 2.2.0 needs transformers<5.6,>=4.51, but 5.23.0 is installed"
    assert detection._version_conflict(engine) == expected
    found["transformers"] = "5.5.4"
    assert detection._version_conflict(engine) == ""


class Counting(Engine):
    """Goes on from 7 with 8, 9, …"""

    name = "counting"
    imports = ("json",)
    packages = ("pytest",)
    pip = "pip install counting"
    runs = ("numbers",)

    def __init__(self, path, *, step=1, exact=False):
        super().__init__()
        self.step, self.vocab_size, self.context_length, self.stop_ids = step, 1000, None, frozenset()

    def _go_on(self, ids, options, stop_ids, watch):
        yield from range(ids[-1] + self.step, 1000, self.step)

    def _logits(self, ids):
        yield np.eye(1000, k=self.step, dtype=np.float32)[ids]

    def _release(self):
        pass


def test_an_engine_added_from_outside_appears_everywhere(model, monkeypatch, capsys):
    from hf_sgpe.cli.engines import engines
    from hf_sgpe.generation.engines import detection

    monkeypatch.setitem(detection.MODEL_KINDS, "numbers", lambda path: path.name == "numbers")
    available_engines()  # what it remembers of this machine is of the other engines
    add_engine(Counting)
    try:
        path = model("transformers") / "numbers"
        path.mkdir()
        (path / "config.json").write_text("{}")
        assert "counting" in [info.name for info in available_engines() if not info.why_not]
        engines(as_json=True)
        assert '"pip install counting"' in capsys.readouterr().out
        assert best_engine(path) == "counting"
        with load_engine(path, step=2) as engine:
            assert list(engine.generate([7], GenerationOptions(max_new_tokens=3))) == [9, 11, 13]
        with pytest.raises(SGPEError, match=r"device: counting"):
            load_engine(path, device="cpu")
        with pytest.raises(SGPEError, match="numbers: use counting"):
            load_engine(path, "transformers")
        with pytest.raises(SGPEError, match="an engine 'counting'"):
            add_engine(Counting)
    finally:
        del ENGINES["counting"]
