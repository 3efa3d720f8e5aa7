"""In a notebook: figures show themselves and progress is drawn, without a magic line; and the example runs."""

from pathlib import Path

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
def test_figures_and_progress_are_shown():
    played, drawn, printed = outputs(2)
    (bar,) = [output for output in played if output.output_type == "display_data"]
    assert "<progress" in bar["data"]["text/html"]
    assert bar["data"]["text/plain"].endswith("3/3")
    (figure,) = drawn
    assert figure["data"]["image/png"].startswith("iVBORw0KGgo"), "PNG's signature in base64"
    assert printed[0]["data"]["text/plain"].startswith("Rounds(100 rounds, ")


EXAMPLE = Path(__file__).parent.parent / "examples" / "your-own-log.ipynb"


def said(notebook):
    """What each cell of code printed or showed, without its pictures and without notes on standard error."""
    found = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            printed = [output["text"] for output in cell.outputs if output.get("name") == "stdout"]
            shown = [output["data"]["text/plain"] for output in cell.outputs if "data" in output]
            found.append("".join(printed + shown))
    return found


@pytest.mark.filterwarnings("default")
def test_the_example_gives_what_it_shows(tmp_path):
    pytest.importorskip("pyarrow", reason="needs pyarrow: pip install '.[data]'")
    shown, played = (nbformat.read(EXAMPLE, as_version=4) for _ in range(2))
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(played, kernel_name="python3", timeout=300, resources=resources).execute()
    again = "run: jupyter execute --inplace examples/your-own-log.ipynb"
    assert said(played) == said(shown), again
    assert list(tmp_path.iterdir()) == [], "it leaves nothing behind"
    assert any("image/png" in output.get("data", {}) for cell in shown.cells for output in cell.get("outputs", []))


def test_the_example_tells_nothing_about_the_machine_it_ran_on():
    shown = nbformat.read(EXAMPLE, as_version=4)
    outputs = [output for cell in shown.cells for output in cell.get("outputs", [])]
    assert {output["output_type"] for output in outputs} == {"stream", "execute_result"}
    assert {output["name"] for output in outputs if output["output_type"] == "stream"} == {"stdout"}
    assert not any("/" in text for text in said(shown)), "no paths"
    assert set(shown.metadata) == {"kernelspec", "language_info"}
    assert EXAMPLE.stat().st_size < 150_000
