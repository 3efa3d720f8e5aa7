"""The catalogue of arms, and pools: the arms among which a decision chooses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from driftbandit.core import Floats, Ints
from driftbandit.serving.loop.encoding import NamedFeatures, numbers_only
from driftbandit.serving.loop.events import Decided, NamedDecision, Record, Refused
from driftbandit.serving.loop.randomness import arm_number, arm_numbers

MAX_ARMS = 10_000
"""How many arms a pool or a catalogue may have in a request."""

_KEPT = 4096
_KEPT_BYTES = 16 << 20
"""How many pools are kept, and with how many bytes."""


class Catalogue:
    """The arms of a loop.

    Parameters
    ----------
    ids : list of str
        Ids of the arms.
    features : bytes or None
        Features as float64, arm after arm; None if the arms have none.
    records : list of dict, optional
        Features by name, for a loop with an encoder.

    Attributes
    ----------
    rows : dict
        The row of each id.
    """

    def __init__(self, ids: list[str], features: bytes | None, records: list[Record] | None = None) -> None:
        self.ids = ids
        self.records = records
        self.encoded = features
        self.rows = {name: row for row, name in enumerate(ids)}
        dim = 0 if features is None or not ids else len(features) // 8 // len(ids)
        self.features: Floats | None = (
            None if features is None else np.frombuffer(features).reshape(len(ids), dim).copy()
        )


class Pool:
    """The arms among which a decision chooses.

    Attributes
    ----------
    ids : tuple of str or None
        Ids as the request gave them; None stands for the whole catalogue.
    names : sequence of str
        The ids, also where the request gave none.
    features, numbers : array or None
        What policies know the arms by.
    own : bytes or None
        Features that came with the request, for the log; None if they are the catalogue's, or came by name.
    context, records : dict, list of dict or None
        Features that came by name, for the log: the context's, and the arms' unless they are the catalogue's.
    vote, voted_at : int
        The policy's choice from this pool, and how many rewards the loop had learned by then. A policy that draws
        nothing at random and does not mind what is pending chooses the same again until it learns more, so it need
        not be asked again.
    """

    __slots__ = ("context", "features", "ids", "names", "numbers", "own", "records", "vote", "voted_at")

    def __init__(
        self,
        ids: tuple[str, ...] | None,
        names: Sequence[str],
        features: Floats | None,
        numbers: Ints | None,
        own: bytes | None = None,
        context: Record | None = None,
        records: list[Record] | None = None,
    ) -> None:
        self.ids = ids
        self.names = names
        self.features = features
        self.numbers = numbers
        self.own = own
        self.context = context
        self.records = records
        self.vote = self.voted_at = -1

    @property
    def nbytes(self) -> int:
        """Bytes in memory, about: an id has a dozen letters or so."""
        arrays = (0 if array is None else array.nbytes for array in (self.features, self.numbers))
        return 80 * len(self.names) + sum(arrays)


class Pools:
    """Makes pools from the arms of requests, and keeps them, since requests repeat their arms.

    Parameters
    ----------
    catalogue : Catalogue or None
        The arms that requests may name by id.
    dim : int or None
        How many features an arm has; None if the loop uses none.
    numbered : bool
        Whether some policy knows arms by number.
    named : NamedFeatures, optional
        The loop's encoder; without one, features are arrays of numbers.
    number : callable
        Says by which number policies know an arm.

    Attributes
    ----------
    known : dict
        Pools by their ids, None for the whole catalogue. Pools with features or a context of their own are not kept.

    Examples
    --------
    >>> pools = Pools(Catalogue(["a", "b"], np.eye(2).tobytes()), 2, numbered=False)
    >>> pools.of(["b"]).features
    array([[0., 1.]])
    >>> pools.of(["c"])
    Traceback (most recent call last):
    driftbandit.serving.loop.events.Refused: arms: 'c' is not in the catalogue
    """

    __slots__ = ("_bytes", "_catalogue", "_dim", "_named", "_number", "_numbered", "_records", "known")

    def __init__(
        self,
        catalogue: Catalogue | None,
        dim: int | None,
        *,
        numbered: bool,
        named: NamedFeatures | None = None,
        number: Callable[[str], int] = arm_number,
    ) -> None:
        self._catalogue = catalogue
        self._dim = dim
        self._numbered = numbered
        self._named = named
        self._number = number
        self._records: list[Record] | None = None
        self.known: dict[tuple[str, ...] | None, Pool] = {}
        self._bytes = 0

    def of(
        self,
        arms: Sequence[str] | None,
        features: Floats | list[Record] | None = None,
        context: Record | None = None,
    ) -> Pool:
        """The pool of these arms, with features of their own or the catalogue's; None is the whole catalogue.

        A loop with an encoder takes features by name, and needs a context.

        Raises
        ------
        Refused
            If the loop cannot use these arms.
        """
        if self._named is not None:
            return self._by_name(self._named, arms, features, context)
        if context is not None:
            raise Refused(422, "context: this loop has no encoder in its settings, so it takes no context")
        if (rows := numbers_only(features)) is not None:
            return self._with_features(tuple(arms or ()), rows)
        ids = None if arms is None else tuple(arms)
        pool = self.known.get(ids)
        if pool is None:
            pool = self._whole() if ids is None else self._by_id(ids)
            size = pool.nbytes if ids is not None else 0
            if len(self.known) >= _KEPT or self._bytes + size > _KEPT_BYTES:
                self.known.clear()
                self._bytes = 0
            if size <= _KEPT_BYTES:
                self.known[ids] = pool
                self._bytes += size
        return pool

    def again(self, event: Decided) -> Pool:
        """The pool of a logged decision."""
        if isinstance(event, NamedDecision):
            return self.of(event.arms, event.records, event.context)
        features: Floats | None = None
        if event.features is not None:
            features = np.frombuffer(event.features).reshape(len(event.arms or ()), -1).copy()
        return self.of(event.arms, features)

    def _by_name(
        self,
        named: NamedFeatures,
        arms: Sequence[str] | None,
        features: Floats | list[Record] | None,
        context: Record | None,
    ) -> Pool:
        if context is None:
            raise Refused(422, "context: expected an object of columns, since this loop has an encoder, got nothing")
        ids = None if arms is None else tuple(arms)
        if ids is not None:
            _check_ids(ids)
        records = self._found(named, ids) if features is None else named.records(ids or (), features)
        names = self._catalogue.ids if ids is None else ids  # type: ignore[union-attr]
        encoded = named.encode(context, records)
        given = features if isinstance(features, list) else None
        return Pool(ids, names, encoded, self._numbers(names), context=context, records=given)

    def _found(self, named: NamedFeatures, ids: tuple[str, ...] | None) -> list[Record]:
        """Columns of arms that are given by id."""
        catalogue = self._catalogue
        if ids is not None and named.ids_suffice:
            return named.records(ids, None)
        if catalogue is None or catalogue.records is None:
            raise Refused(422, "arms: this loop has no catalogue of arms with features by name")
        if self._records is None:
            self._records = named.records(catalogue.ids, catalogue.records)
        if ids is None:
            return self._records
        rows, records = catalogue.rows, self._records
        try:
            return [records[rows[arm]] for arm in ids]
        except KeyError as error:
            raise _not_there(error) from error

    def _with_features(self, ids: tuple[str, ...], features: Floats) -> Pool:
        _check_ids(ids)
        if self._dim is None:
            raise Refused(422, "arms: this loop has no features (dim), so arms are given by id")
        if features.shape[1] != self._dim:
            raise Refused(422, f"arms: expected {self._dim} features per arm, got {features.shape[1]}")
        return Pool(ids, ids, features, self._numbers(ids), features.tobytes())

    def _whole(self) -> Pool:
        catalogue = self._catalogue
        if catalogue is None:
            raise Refused(422, "arms: expected a list, since this loop has no catalogue")
        self._check_dim(catalogue)
        return Pool(None, catalogue.ids, catalogue.features, self._numbers(catalogue.ids))

    def _by_id(self, ids: tuple[str, ...]) -> Pool:
        _check_ids(ids)
        if self._dim is None:
            return Pool(ids, ids, None, self._numbers(ids))
        catalogue = self._catalogue
        if catalogue is None:
            raise Refused(422, "arms: ids need a catalogue with features, and this loop has none")
        self._check_dim(catalogue)
        rows = catalogue.rows
        try:
            at = [rows[arm] for arm in ids]
        except KeyError as error:
            raise _not_there(error) from error
        features = catalogue.features.take(at, axis=0)  # type: ignore[union-attr]
        return Pool(ids, ids, features, self._numbers(ids))

    def _numbers(self, ids: Sequence[str]) -> Ints | None:
        return arm_numbers(ids, self._number) if self._numbered else None

    def _check_dim(self, catalogue: Catalogue) -> None:
        have = None if catalogue.features is None else catalogue.features.shape[1]
        if self._dim is not None and have != self._dim:
            raise Refused(422, f"arms: the catalogue has {have} features per arm, the loop {self._dim}")


def _not_there(error: KeyError) -> Refused:
    return Refused(422, f"arms: {error.args[0][:200]!r} is not in the catalogue")


def _check_ids(ids: tuple[str, ...]) -> None:
    if not 0 < len(ids) <= MAX_ARMS:
        raise Refused(422, f"arms: expected 1 to {MAX_ARMS:,} ids, got {len(ids)}")
    check_different(ids)


def check_different(ids: Sequence[str]) -> None:
    """Refuse a list in which an id comes twice.

    >>> check_different(["a", "b", "a"])
    Traceback (most recent call last):
    driftbandit.serving.loop.events.Refused: arms: expected different ids, got 'a' more than once
    """
    if len(set(ids)) < len(ids):
        seen: set[str] = set()
        twice = next(name for name in ids if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise Refused(422, f"arms: expected different ids, got {twice[:200]!r} more than once")
