"""From named things to a (K, d) array: what a policy sees of a context and its arms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from driftbandit.core import Floats, as_dim, unknown_name
from driftbandit.features.columns.base import Column
from driftbandit.features.columns.inference import as_columns, column_from_json, fitted, name_of
from driftbandit.features.product.crosses import Crosses
from driftbandit.features.product.plan import Plan
from driftbandit.features.sample import Sample
from driftbandit.features.tables import columns_of

FORMAT = 1
"""Version of what `to_json` returns."""

_SIDES = ("context", "arms")


class Encoder:
    """Turns a context and arms, both dictionaries, into an array of features, one row per arm.

    An arm's features are a constant, its own columns, the context's columns, and all products of a context column and
    an arm column. Only these products let a linear policy rank the arms differently for different people. The context's
    own columns rank nothing, since they add the same to every arm; they are kept because they explain rewards, so that
    a change of who is asking does not look like a change of taste.

    Everything is settled once, by `fit` or by declaring it, and then never changes: a running standardisation would
    itself be a drift.

    Parameters
    ----------
    context, arms : sequence of columns or names, optional
        The columns of either side: `Number`, `Category`, `Tags`, `Cycle`, `Vector`, `Flag`, or a name, whose kind `fit`
        finds out. By default `fit` takes all columns of the sample (of arms, all but 'id').
    crosses : 'all', 'none' or sequence of (str, str)
        Which context columns are multiplied with which arm columns.
    dim : int, optional
        Most features an arm may have; the attribute `dim` is how many it has. By default the whole product if that is
        at most 128 columns, else 64.
    reduce : {'hash', 'project'}
        What to do if the product is larger: hash it, with signs, or take its principal components in the sample that
        `fit` is given.
    context_only : bool
        Whether the context's own columns are kept.

    Examples
    --------
    >>> from driftbandit.features import Category, Number
    >>> encoder = Encoder(
    ...     context=[Category("device", ["phone", "laptop"])],
    ...     arms=[Category("genre", ["rock", "jazz"]), Number("price", low=0, high=20)],
    ... )
    >>> features = encoder.encode({"device": "phone"}, [{"genre": "jazz", "price": 5}, {"genre": "rock"}])
    >>> features.shape
    (2, 35)
    >>> [name for name, value in zip(encoder.names, features[0]) if value][3:]
    ['device=phone', 'device=phone × genre=jazz', 'device=phone × price']

    Or let a sample decide:

    >>> sample = [({"hour": 8}, [{"id": 1, "genre": "rock"}, {"id": 2, "genre": "jazz"}])]
    >>> Encoder().fit(sample)
    Encoder(context=[hour: cycle], arms=[genre: category], dim=15)
    """

    def __init__(
        self,
        context: Sequence[Column | str] | None = None,
        arms: Sequence[Column | str] | None = None,
        *,
        crosses: Crosses = "all",
        dim: int | None = None,
        reduce: Literal["hash", "project"] = "hash",
        context_only: bool = True,
    ) -> None:
        if reduce not in ("hash", "project"):
            raise ValueError(f"reduce: expected 'hash' or 'project', got {reduce!r}")
        if dim is not None:
            as_dim(dim)
        # Kept as they came, which is what scikit-learn's `clone` expects.
        self._settings: dict[str, Any] = {
            "context": context,
            "arms": arms,
            "crosses": crosses,
            "dim": dim,
            "reduce": reduce,
            "context_only": context_only,
        }
        self._fitted = False
        self._plan: Plan | None = None
        declared = [as_columns(side, self._settings[side]) for side in _SIDES]
        ready = [[one for one in side or () if isinstance(one, Column) and not one.needs] for side in declared]
        if reduce == "hash" and ready == declared:
            self._plan = self._planned(*ready)

    # What it is ----------------------------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """Whether everything is settled, by `fit` or because it was declared."""
        return self._plan is not None

    @property
    def dim(self) -> int:
        """Number of features of an arm."""
        return self._ready().dim

    @property
    def names(self) -> tuple[str, ...]:
        """A readable name for every feature.

        A hashed feature is named after the first products that fall into it, a projected one after its largest parts.
        """
        return self._ready().names

    @property
    def columns(self) -> dict[str, tuple[Column, ...]]:
        """The user's columns of the 'context' and the 'arms', with all that was declared and learned about them."""
        plan = self._ready()
        return {side: getattr(plan, side).columns for side in _SIDES}

    def __repr__(self) -> str:
        if self._plan is None:
            shown = [f"{name}={value!r}" for name, value in self._settings.items() if value is not None]
            return f"Encoder({', '.join(shown)})"
        sides = [f"{side}=[{', '.join(f'{one.name}: {one.kind}' for one in self.columns[side])}]" for side in _SIDES]
        return f"Encoder({', '.join(sides)}, dim={self.dim})"

    # Settling ------------------------------------------------------------------------------------------------------

    def fit(self, sample: Any, y: object = None, *, arms: Any = None) -> Self:
        """Learn kinds, vocabularies, centres and scales from a sample, once.

        Parameters
        ----------
        sample : sequence of (context, arms) pairs, or a table
            Decisions, each a context and the arms that could be shown (dictionaries, or a dictionary of them by id); or
            a table of contexts, if `arms` is a table too; or a table of both, one row per arm, if the columns of both
            sides are declared. A table is a list of dictionaries, a dictionary of lists, or a DataFrame.
        y : ignored
            Accepted because scikit-learn passes it.
        arms : table, optional
            The arms, one row each.

        Returns
        -------
        Encoder
            This one.

        Raises
        ------
        ValueError
            If it was fitted before: features that a policy has learned from must not change their meaning. Make a new
            encoder instead, with ``Encoder(**encoder.get_params())``.
        """
        self._refuse_if_fitted("fit")
        declared = [as_columns(side, self._settings[side]) for side in _SIDES]
        names = [None if side is None else [name_of(one) for one in side] for side in declared]
        drawn = Sample.read(sample, arms, *names)
        context = drawn.context if declared[0] is None else declared[0]
        items = [name for name in drawn.arms if name != "id"] if declared[1] is None else declared[1]
        self._plan = self._planned(
            [fitted(one, drawn.context, "context") for one in context],
            [fitted(one, drawn.arms, "arms") for one in items],
            sample=drawn,
        )
        self._fitted = True
        return self

    def _planned(self, context: Sequence[Column], arms: Sequence[Column], **more: Any) -> Plan:
        return Plan(**{**self._settings, "context": context, "arms": arms, **more})

    def _ready(self) -> Plan:
        if self._plan is None:
            declared = [one for side in _SIDES for one in as_columns(side, self._settings[side]) or ()]
            needs = [
                f"{name_of(one)} needs {'a kind' if isinstance(one, str) else one.needs}"
                for one in declared
                if isinstance(one, str) or one.needs
            ]
            raise ValueError(
                f"encoder: expected one that is fitted to a sample or fully declared; {'; '.join(needs) or 'call fit'}"
            )
        return self._plan

    def _refuse_if_fitted(self, method: str) -> None:
        if self._fitted:
            raise ValueError(
                f"{method}: this encoder was fitted and stays as it is; make another: Encoder(**encoder.get_params())"
            )

    # Encoding ------------------------------------------------------------------------------------------------------

    def encode(self, context: Mapping[str, Any], arms: Sequence[Mapping[str, Any]]) -> Floats:
        """Features of the arms for a context, one row per arm, shape (K, dim).

        Columns that were not declared or fitted are ignored, and columns that are absent are missing.
        """
        return (self._plan or self._ready()).encode(context, arms)

    def encode_many(self, contexts: Any, arms: Any, owners: ArrayLike, members: ArrayLike) -> Floats:
        """Features of many pairs of a context and an arm at once, shape (m, dim).

        Parameters
        ----------
        contexts, arms : table
            Columns by name (lists or arrays, in which None and NaN are missing), or any other table that `fit` takes.
        owners, members : array of int, shape (m,)
            Row r of the answer is for context owners[r] and arm members[r].

        Examples
        --------
        >>> from driftbandit.features import Flag, Number
        >>> encoder = Encoder([Flag("member")], [Number("price", 0, 2)])
        >>> features = encoder.encode_many({"member": [True, False]}, {"price": [2.0, 0.0]}, [0, 0, 1], [0, 1, 1])
        >>> features[:, encoder.names.index("member × price")].tolist()
        [1.0, -1.0, 1.0]
        """
        return self._ready().encode_many(contexts, arms, owners, members)

    # As scikit-learn expects ---------------------------------------------------------------------------------------

    def transform(self, table: Any) -> Floats:
        """Features of a table that holds the columns of both sides, one row per arm, shape (n, dim)."""
        plan = self._ready()
        columns, count = columns_of(table, "X", [*plan.context.names, *plan.arms.names])
        every = np.arange(count)
        return plan.encode_many(columns, columns, every, every)

    def fit_transform(self, table: Any, y: object = None) -> Floats:
        """Fit, then transform the same table."""
        return self.fit(table, y).transform(table)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """The names as an array."""
        return np.array(self.names, dtype=object)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments, as they were given."""
        return dict(self._settings)

    def set_params(self, **params: Any) -> Self:
        """Set some of the constructor's arguments; not after `fit`."""
        if params:
            self._refuse_if_fitted("set_params")
            if unknown := sorted(params.keys() - self._settings.keys()):
                raise ValueError(unknown_name("set_params", unknown, self._settings))
            vars(self).update(vars(type(self)(**{**self._settings, **params})))
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return self.is_ready

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags, TransformerTags  # noqa: PLC0415 - only scikit-learn asks

        return Tags(estimator_type=None, target_tags=TargetTags(required=False), transformer_tags=TransformerTags())

    # As a value ----------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Everything, as a dictionary that JSON can hold; `from_json` takes it back."""
        described = dict(self._settings)
        for side in _SIDES:
            columns = as_columns(side, described[side]) if self._plan is None else self.columns[side]
            if columns is not None:
                described[side] = [one if isinstance(one, str) else one.to_json() for one in columns]
        if not isinstance(described["crosses"], str):
            described["crosses"] = [list(pair) for pair in described["crosses"]]
        components = [] if self._plan is None else self._plan.components.tolist()
        return {"format": FORMAT, **described, "fitted": self._fitted, "components": components}

    @classmethod
    def from_json(cls, described: Mapping[str, Any]) -> Self:
        """The encoder that `to_json` described; it encodes bit for bit as that one did.

        Examples
        --------
        >>> import json
        >>> from driftbandit.features import Category, Flag
        >>> encoder = Encoder([Flag("member")], [Category("genre")])
        >>> Encoder.from_json(json.loads(json.dumps(encoder.to_json()))) == encoder
        True
        """
        try:
            given = dict(described)
            version, was_fitted, components = (given.pop(name) for name in ("format", "fitted", "components"))
            if version != FORMAT:
                raise ValueError(f"it has format {version!r}; this version reads {FORMAT}")
            for side in _SIDES:
                if given[side] is not None:
                    given[side] = [one if isinstance(one, str) else column_from_json(one) for one in given[side]]
            encoder = cls(**given)
            encoder._fitted = bool(was_fitted)
            if encoder._fitted and encoder._plan is None:
                matrix = np.array(components, dtype=np.float64)
                encoder._plan = encoder._planned(given["context"], given["arms"], components=matrix)
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            problem = error if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            raise ValueError(f"encoder: expected what Encoder.to_json returned ({problem})") from error
        return encoder

    def __getstate__(self) -> dict[str, Any]:
        plan = self._plan
        return {**vars(self), "_plan": plan and (plan.context.columns, plan.arms.columns, plan.components)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if state["_plan"] is not None:
            context, arms, components = state["_plan"]
            self._plan = self._planned(context, arms, components=components)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Encoder) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]
