"""In a notebook: figures show themselves and progress is drawn, without a magic line."""

import pytest

nbclient = pytest.importorskip("nbclient", reason="needs nbclient: pip install '.[dev]'")
pytest.importorskip("ipykernel", reason="needs ipykernel: pip install '.[dev]'")
nbformat = pytest.importorskip("nbformat", reason="comes with nbclient")

CELLS = [
    """
from driftbandit import compare, synthetic
from driftbandit.environments import world
from driftbandit.plots import regret_figure

small = {"small": world("table1", horizon=100, arms=50)}
traces = compare(["random"], small, seeds=[0, 1, 2], processes=PROCESSES, progress=True)
""",
    'regret_figure(traces, "Regret")',
    'synthetic("table1", horizon=100)',
]


def outputs(processes):
    cells = [nbformat.v4.new_code_cell(cell.replace("PROCESSES", str(processes))) for cell in CELLS]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, kernel_name="python3", timeout=300).execute()
    return [cell.outputs for cell in notebook.cells]


@pytest.mark.filterwarnings("default")  # those of Jupyter's own packages are not ours to mend
@pytest.mark.parametrize("processes", [1, 2])
def test_figures_and_progress_are_shown(processes):
    played, drawn, printed = outputs(processes)
    (bar,) = [output for output in played if output.output_type == "display_data"]
    assert "<progress" in bar["data"]["text/html"]
    assert bar["data"]["text/plain"].endswith("3/3")
    (figure,) = drawn
    assert figure["data"]["image/png"].startswith("iVBORw0KGgo"), "PNG's signature in base64"
    assert printed[0]["data"]["text/plain"].startswith("Rounds(100 rounds, ")
