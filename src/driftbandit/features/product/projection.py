"""Principal components of the product: few columns that keep most of what varies in a sample."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import eigh

from driftbandit.core import Floats

WIDEST = 512
"""Products beyond this number are hashed into so many columns before they are projected."""

_NAMED = 2


def principal(sample: Floats, dim: int) -> Floats:
    """The `dim` orthonormal directions, shape (columns, dim), that keep most of the sample's squares.

    The mean is not taken off, because it is what most rows have in common and a model needs it too. The largest entry
    of every direction is positive, so that the answer does not depend on the library.

    >>> principal(np.array([[3.0, 4.0], [6.0, 8.0]]), 1).round(3).tolist()
    [[0.6], [0.8]]
    """
    width = sample.shape[1]
    squares = sample.T @ sample / max(len(sample), 1)
    _, vectors = eigh(squares, subset_by_index=[width - dim, width - 1])
    directions = vectors[:, ::-1]
    largest = np.abs(directions).argmax(axis=0)
    signs = np.sign(directions[largest, np.arange(dim)])
    found: Floats = np.ascontiguousarray(directions * signs) + 0.0
    return found


def component_names(components: Floats, names: Sequence[str]) -> tuple[str, ...]:
    """A name for every component: its largest parts.

    >>> component_names(np.array([[0.6], [-0.8], [0.0]]), ["a", "b", "c"])
    ('-0.80 b + 0.60 a',)
    """
    found = []
    for direction in components.T:
        order = np.argsort(-np.abs(direction), kind="stable")
        shown = [place for place in order[:_NAMED].tolist() if direction[place]]
        text = " ".join(
            f"{'-' if direction[p] < 0 else '+'}{abs(direction[p]):.2f} {_bracketed(names[p])}" for p in shown
        )
        text = text.replace(" +", " + ").replace(" -", " - ").removeprefix("+")
        rest = int(np.count_nonzero(direction)) - len(shown)
        found.append(f"{text} + {rest} more" if rest else text)
    return tuple(found)


def _bracketed(name: str) -> str:
    """A name that is itself a sum, in brackets."""
    return f"({name})" if " + " in name or " - " in name else name
