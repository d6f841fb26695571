import pytest

from hf_sgpe.files.charts import chart


def test_a_chart_is_the_same_each_time(tmp_path):
    pytest.importorskip("matplotlib")
    made = []
    for _ in range(2):
        with chart(tmp_path / "x.svg", (4, 2)) as (_, axes):
            axes[0][0].plot([1, 2], [3, 4], label="a")
            axes[0][0].legend()
        made.append((tmp_path / "x.svg").read_bytes())
    assert made[0] == made[1]
    assert b"<text" in made[0]
