import sys

import pytest


def test_transplanting_and_measuring_models_need_no_accelerate(monkeypatch):
    pytest.importorskip("torch", reason="models are of PyTorch: pip install torch")
    from hf_sgpe import SGPEError
    from trainers.language_models.training_runs import require_pytorch

    monkeypatch.setitem(sys.modules, "accelerate", None)
    require_pytorch(to_train=False)
    with pytest.raises(SGPEError, match="training language models needs accelerate"):
        require_pytorch()
    monkeypatch.setattr("trainers.language_models.training_runs.find_spec", lambda name: None if name == "torch" else name)
    with pytest.raises(SGPEError, match=r"pip install torch .*\[train\]"):
        require_pytorch(to_train=False)
