"""Functions that run a notebook in examples/ like a reader, except for its first line, which installs this package."""

import re
from pathlib import Path
from typing import Any

from support.paths import ROOT

EXAMPLES = ROOT / "examples"


def run_notebook(name: str, folder: Path, *replaced: tuple[str, str]) -> list[Any]:
    """Run the code cells of a notebook in a folder, in order, and return their outputs.

    Args:
        replaced: Patterns, and the code that takes their places: a model that is here, smaller numbers. Each must be there.
    """
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert cells[0].source.startswith('%pip install -q "hf-sgpe[')
    cells[0].source = "pass"
    for pattern, new in replaced:
        assert any(re.search(pattern, cell.source) for cell in cells), pattern
        for cell in cells:
            cell.source = re.sub(pattern, lambda _, new=new: new, cell.source)
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    return [output for cell in cells for output in cell.outputs]


def printed(outputs: list[Any]) -> str:
    return "".join(output.text for output in outputs if output.output_type == "stream" and output.name == "stdout")
