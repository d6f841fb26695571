import json

import pytest

from hf_sgpe import SGPEError
from hf_sgpe.files.resuming import check_settings, keep_settings


def test_results_are_not_gone_on_with_under_other_settings(tmp_path):
    check_settings(tmp_path / "new", {"steps": 5, "files": [("a", 1)]})
    keep_settings(tmp_path / "new", {"steps": 5, "files": [("a", 1)]})
    check_settings(tmp_path / "new", {"steps": 5, "files": [("a", 1)]})
    with pytest.raises(SGPEError, match=r"different settings \(steps was 5\)"):
        check_settings(tmp_path / "new", {"steps": 6, "files": [("a", 1)]})
    assert json.loads((tmp_path / "new" / "settings.json").read_text())["steps"] == 5
    (tmp_path / "new" / "settings.json").write_text("{")
    with pytest.raises(SGPEError, match="damaged"):
        check_settings(tmp_path / "new", {})
