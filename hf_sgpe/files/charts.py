"""Charts, drawn with matplotlib."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hf_sgpe.errors import check_matplotlib
from hf_sgpe.files.atomic import atomic_file


@contextmanager
def chart(path: Path, size: tuple[float, float], rows: int = 1, columns: int = 2, **more: Any) -> Iterator[tuple[Any, Any]]:
    """Yield an empty matplotlib figure and its array of axes. After the block, save the figure to ``path`` as PNG or SVG,
    depending on the extension. Equal figures give equal bytes. In SVG, text stays text.
    """
    check_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": path.stem}):
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, **more)
        for axis in axes.flat:
            axis.grid(alpha=0.3)
        yield figure, axes
        form = path.suffix[1:]
        with atomic_file(path) as file:
            figure.savefig(file, format=form, dpi=130, metadata={"Date": None} if form == "svg" else {})
