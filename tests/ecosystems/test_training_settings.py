"""The settings for other training programs in the documentation, read by the code of these programs."""

import json
import re
import sys

import pytest
from support.command import process
from support.ecosystems import TRAINING_SETTINGS, needs_training_settings
from support.paths import ROOT

PAGE = (ROOT / "docs" / "training-tools.md").read_text(encoding="utf-8")
AXOLOTL = """
import json, sys, yaml
from axolotl.utils.schemas.config import AxolotlInputConfig
settings = yaml.safe_load(sys.argv[1])
read = AxolotlInputConfig(**settings)
unknown = sorted(settings.keys() - AxolotlInputConfig.model_fields.keys())
print(json.dumps([unknown, read.learning_rate, read.lora_modules_to_save]))
"""
LLAMA_FACTORY = """
import json, sys, yaml
from llamafactory.hparams.parser import _TRAIN_ARGS, get_train_args
from transformers import HfArgumentParser
settings = yaml.safe_load(sys.argv[1]) | {"bf16": False, "use_cpu": True}
HfArgumentParser(_TRAIN_ARGS).parse_dict(settings)
_, _, training, finetuning, _ = get_train_args(settings)
print(json.dumps([[], training.learning_rate, finetuning.additional_target]))
"""


def settings_of(program: str) -> str:
    """Return the block of YAML in a section of the page."""
    section = PAGE.partition(f"\n## {program}\n")[2].partition("\n## ")[0]
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    return block


@needs_training_settings
@pytest.mark.parametrize(("program", "reader"), [("axolotl", AXOLOTL), ("LLaMA-Factory", LLAMA_FACTORY)])
def test_the_program_knows_all_settings(program, reader, tmp_path):
    environment = {"PYTHONPATH": str(TRAINING_SETTINGS), "DISABLE_VERSION_CHECK": "1", "HF_HUB_OFFLINE": "1"}
    done = process(sys.executable, "-c", reader, settings_of(program), cwd=tmp_path, **environment)
    assert json.loads(done.stdout.splitlines()[-1]) == [[], 1e-4, ["embed_tokens", "lm_head"]]
