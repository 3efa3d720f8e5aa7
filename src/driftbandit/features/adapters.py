"""Encoders made elsewhere: a fitted scikit-learn transformer, or a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import Floats

Record = Mapping[str, Any]


@runtime_checkable
class Encodes(Protocol):
    """What takes the place of an `Encoder`."""

    def encode(self, context: Record, arms: Sequence[Record]) -> Floats:
        """Features of the arms for a context, shape (K, d)."""
        ...


class Transformed:
    """A fitted scikit-learn transformer, such as a ColumnTransformer, as an encoder.

    It is shown a table with one row per arm that holds the context's columns and the arm's.

    Parameters
    ----------
    transformer : object with `transform`
        It must be fitted already, and should multiply context and arm columns somewhere, for example with
        PolynomialFeatures: without products, all people see the arms in the same order.
    columns : sequence of str, optional
        The columns to show it, in order, as an array of objects. By default a transformer that was fitted to a
        DataFrame is shown a DataFrame (which needs pandas), and any other a list of dictionaries.

    Examples
    --------
    >>> class Doubled:  # stands for a transformer of scikit-learn
    ...     def transform(self, table):
    ...         return [[2.0 * price] for (price,) in table]
    >>> Transformed(Doubled(), columns=["price"]).encode({"hour": 3}, [{"price": 4.0}, {"price": 5.0}]).tolist()
    [[8.0], [10.0]]
    """

    def __init__(self, transformer: Any, columns: Sequence[str] | None = None) -> None:
        if not hasattr(transformer, "transform"):
            raise ValueError(f"transformer: expected an object with transform, got {transformer!r:.60}")
        self.transformer = transformer
        self.columns = columns

    @property
    def names(self) -> tuple[str, ...]:
        """The transformer's names of its features."""
        return tuple(str(name) for name in self.transformer.get_feature_names_out())

    def encode(self, context: Record, arms: Sequence[Record]) -> Floats:
        """Features of the arms for a context, shape (K, d)."""
        records: Any = [{**context, **arm} for arm in arms]
        if self.columns is not None:
            table = np.empty((len(records), len(self.columns)), dtype=object)
            for row, record in enumerate(records):
                table[row] = [record.get(name) for name in self.columns]
            records = table
        elif hasattr(self.transformer, "feature_names_in_"):
            import pandas  # type: ignore[import-not-found,import-untyped,unused-ignore] # noqa: PLC0415

            records = pandas.DataFrame(records, columns=list(self.transformer.feature_names_in_))
        return _as_features(self.transformer.transform(records))


class Called:
    """A function ``(context, arms) -> (K, d)`` as an encoder."""

    def __init__(self, function: Callable[[Record, Sequence[Record]], ArrayLike]) -> None:
        self.function = function

    def encode(self, context: Record, arms: Sequence[Record]) -> Floats:
        """Features of the arms for a context, shape (K, d)."""
        return _as_features(self.function(context, arms))


def as_encoder(given: Any) -> Encodes:
    """An encoder, whatever was given in its place."""
    if isinstance(given, type):
        raise ValueError(f"encoder: expected an Encoder, a fitted transformer or a function, got the class {given!r}")
    if isinstance(given, Encodes):
        return given
    if hasattr(given, "transform"):
        return Transformed(given)
    if callable(given):
        return Called(given)
    raise ValueError(f"encoder: expected an Encoder, a fitted transformer or a function, got {given!r:.60}")


def _as_features(given: Any) -> Floats:
    if hasattr(given, "toarray"):  # sparse
        given = given.toarray()
    return np.ascontiguousarray(given, dtype=np.float64)
