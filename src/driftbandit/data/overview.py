"""All data sets and their state, without opening a file."""

from __future__ import annotations

from pathlib import Path

from driftbandit.data.hetrec import hetrec_forms
from driftbandit.data.shared import PathLike, origin
from driftbandit.data.yahoo import PLAN
from driftbandit.environments.converted import Form
from driftbandit.environments.datasets import DATA_SETS, DataSet, locate, present
from driftbandit.environments.yahoo_converted import form as yahoo_form
from driftbandit.evaluation.results import Table, number_of
from driftbandit.report import Artefact


def overview(data: PathLike | None = None) -> Artefact:
    """All data sets and their state; opens no file."""
    rows, facts = [], {}
    for name, data_set in DATA_SETS.items():
        try:
            folder = locate(name, data)
        except FileNotFoundError:
            state, where = "not here", ""
        else:
            state, where = _state(data_set, folder), str(folder)
        rows.append((name, data_set.title, state, where))
        facts[name] = {"title": data_set.title, "state": state, "folder": where or None, **origin(data_set)}
    return Artefact(
        "data",
        "Data sets",
        text=[f"{name}: {said.source}; {said.terms}." for name, said in DATA_SETS.items()],
        tables=[
            Table(
                "State",
                ("name", "data set", "state", "folder"),
                tuple(rows),
                "`driftbandit data NAME` checks and converts one.",
                numbers=False,
            )
        ],
        data=facts,
    )


def _state(data_set: DataSet, folder: Path) -> str:
    here = present(data_set.name, folder)
    if data_set.name == "yahoo":
        if not here:
            return "no day files"
        made = "made up, " if (folder / PLAN).exists() else ""
        return f"{made}{number_of('day file', len(here))}{_converted([yahoo_form(folder)])}"
    missing = [
        file.name
        for file in data_set.files
        if file.name not in here and not file.only_for and not (file.unless and file.unless in here)
    ]
    return f"missing {', '.join(missing)}" if missing else f"here{_converted(hetrec_forms(data_set.name, folder))}"


def _converted(forms: list[Form]) -> str:
    return ", converted" if any(form.find() for form in forms) else ", not converted"
