"""One policy per scope for a whole crowd of scopes, in flat arrays.

`PerScope` keeps a policy object per scope and is asked about one scope at a time. `ManyScopes` keeps the same policies
in a few large arrays and is asked about all of them in one call: a nightly mailing to a million people, a batch of
rewards, the replay of a log. On the CPU its answers are those of `PerScope`, bit for bit.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

from numpy.typing import ArrayLike, NDArray

from driftbandit.batch.checks import as_scopes
from driftbandit.batch.cpu_calls import CpuCalls
from driftbandit.batch.dlinucb import DLinUCBShelf
from driftbandit.batch.driftucb import DriftUCBShelf
from driftbandit.batch.linear import LinearShelf
from driftbandit.batch.shelf import Shelf
from driftbandit.batch.threads import default_threads
from driftbandit.core import Change, Ints, as_count
from driftbandit.policies.choosing_memory.dlinucb import DLinUCB
from driftbandit.policies.choosing_memory.driftucb import DriftUCB
from driftbandit.policies.linear.lints import LinTS
from driftbandit.policies.linear.linucb import LinUCB

if TYPE_CHECKING:
    from driftbandit.batch.gpu_calls import GpuCalls

_SHELVES: dict[type, Callable[[Any, int], Shelf]] = {
    LinUCB: LinearShelf,
    LinTS: LinearShelf,
    DLinUCB: DLinUCBShelf,
    DriftUCB: DriftUCBShelf,
}


class ManyScopes:
    """One policy for each of many scopes, in flat arrays.

    Scopes are numbered from 0; `numpy.unique` with ``return_inverse=True`` and `pandas.factorize` number any names.

    Parameters
    ----------
    policy : LinUCB, LinTS, DLinUCB or DriftUCB
        What every scope begins with; the policy may have learned already. A `DLinUCB` must have ridge members and be
        told the noise.
    size : int
        Number of scopes.
    threads : int, optional
        Threads that work at the same time; by default as many as there are cores. The answers do not depend on it.
    device : {'cpu', 'cuda'}
        Where the arrays are. An NVIDIA GPU needs CuPy (``pip install 'driftbandit[gpu]'``); arguments may then be CuPy
        arrays, and arms come back as such. Its choices are those of the CPU except for ties within 1e-9.
    dtype : {'float64', 'float32'}
        How a GPU stores the models of LinUCB, LinTS and dLinUCB, which it always computes with in double precision.
        'float32' halves memory and traffic; call `refresh` now and then.

    Examples
    --------
    >>> import numpy as np
    >>> from driftbandit import LinUCB
    >>> people = ManyScopes(LinUCB(dim=2), size=1000)
    >>> everyone, pools = np.arange(1000), np.tile(np.eye(2), (1000, 1, 1))
    >>> for _ in range(2):
    ...     arms = people.choose_many(everyone, pools)
    ...     liked = arms == everyone % 2  # odd people like the second arm
    ...     changes = people.learn_many(everyone, pools[everyone, arms], liked.astype(float))
    >>> people.choose_many(everyone, pools)[:6].tolist()
    [0, 1, 0, 1, 0, 1]
    """

    def __init__(
        self,
        policy: LinUCB | LinTS | DLinUCB | DriftUCB,
        size: int,
        *,
        threads: int | None = None,
        device: Literal["cpu", "cuda"] = "cpu",
        dtype: Literal["float64", "float32"] = "float64",
    ) -> None:
        if type(policy) not in _SHELVES:
            known = ", ".join(kind.__name__ for kind in _SHELVES)
            raise ValueError(f"policy: expected one of {known}, got {type(policy).__name__}; use PerScope for others")
        self.size = as_count("size", size)
        self.threads = as_count("threads", default_threads() if threads is None else threads)
        self.dim: int = policy.dim
        if device not in ("cpu", "cuda"):
            raise ValueError(f"device: expected 'cpu' or 'cuda', got {device!r}")
        if dtype not in ("float64", "float32") or (dtype == "float32" and device == "cpu"):
            raise ValueError(f"dtype: expected 'float64', or 'float32' with device='cuda', got {dtype!r}")
        on_gpu = device == "cuda"
        self._shelf = _SHELVES[type(policy)](policy, 1 if on_gpu else self.size)
        bounds = policy.reward_bounds
        self._gpu = _on_gpu(self._shelf, self.size, self.threads, bounds, dtype) if on_gpu else None
        self._on_cpu = CpuCalls(self._shelf, self.threads, bounds)

    @property
    def _calls(self) -> CpuCalls | GpuCalls:
        return self._on_cpu if self._gpu is None else self._gpu

    def __copy__(self) -> Self:
        return copy.deepcopy(self)  # two that share arrays would learn from each other's rewards

    @staticmethod
    def can_hold(policy: object) -> bool:
        """Whether flat arrays can hold copies of this policy."""
        try:
            ManyScopes(policy, 1, threads=1)  # type: ignore[arg-type]
        except ValueError:
            return False
        return True

    @property
    def rounds(self) -> Ints:
        """Rewards that each scope has learned."""
        return self._shelf.rounds.copy() if self._gpu is None else self._gpu.rounds()

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self._shelf.nbytes if self._gpu is None else self._gpu.scopes.nbytes

    def choose_many(
        self, scopes: ArrayLike | None, features: ArrayLike, counts: ArrayLike | None = None, *, pending: ArrayLike = 0
    ) -> Ints:
        """For each decision, the index of the arm to play within its pool.

        Parameters
        ----------
        scopes : array of shape (n,) or None
            Who each decision is for; None for everyone, in order.
        features : array of shape (n, K, dim) or (total, dim)
            The candidates of each decision: K for each, or all pools one below the other.
        counts : array of shape (n,), optional
            Candidates of each decision, if the pools lie one below the other.
        pending : int or array of shape (n,)
            How many of the scope's rewards are still to come; only `DriftUCB` minds.

        Raises
        ------
        ValueError
            If the features of some pool are not usable; then nothing has changed.
        """
        found: Ints = self._calls.choose(scopes, features, counts, pending)
        return found

    def learn_many(self, scopes: ArrayLike | None, features: ArrayLike, rewards: ArrayLike) -> list[tuple[int, Change]]:
        """Learn the rewards of arms that were played; a scope's rewards are learned in the order given.

        Parameters
        ----------
        scopes : array of shape (n,) or None
            Who gave each reward; None for everyone, in order.
        features : array of shape (n, dim)
            Features of the arms that were played.
        rewards : array of shape (n,)
            Their rewards.

        Returns
        -------
        list of (int, Change)
            What was detected: the place of the reward that revealed it, and the change, whose round is the scope's.

        Raises
        ------
        ValueError
            If something is wrong with the arguments; then nothing was learned.
        NotLearned
            If some scopes cannot use their features, which only turns out on the way; everything else was learned.
        """
        return self._calls.learn(scopes, features, rewards)

    def step_many(
        self,
        scopes: ArrayLike | None,
        played: ArrayLike,
        rewards: ArrayLike,
        features: ArrayLike,
        counts: ArrayLike | None = None,
    ) -> tuple[list[tuple[int, Change]], Ints]:
        """Learn the last rewards, then choose the next arms: `learn_many` and `choose_many` for the same scopes.

        This is one pass over the models instead of two, unless a scope occurs twice. On the CPU all pools are checked
        first: where they are larger than the models, two calls take less time.

        Parameters
        ----------
        scopes : array of shape (n,) or None
            Who is meant; None for everyone, in order.
        played : array of shape (n, dim)
            Features of the arms that were played last.
        rewards : array of shape (n,)
            Their rewards.
        features, counts :
            The candidates of the next decisions, as `choose_many` takes them.

        Returns
        -------
        list of (int, Change)
            What was detected, as `learn_many` returns it.
        array of shape (n,)
            The index of the arm to play next, of each pool.

        Raises
        ------
        ValueError
            If something is wrong with the arguments; then nothing was learned.
        NotLearned
            As in `learn_many`; then no arms are returned.
        """
        return self._calls.step(scopes, played, rewards, features, counts)

    def policy_of(self, scope: int) -> Any:
        """The policy of a scope as an object of its own, such as `PerScope.policy_of` returns."""
        number = int(as_scopes([scope], self.size)[0])
        if self._gpu is not None:
            return self._gpu.scopes.on_desk(number).policy_of(0)
        return self._shelf.policy_of(number)

    def put(self, scope: int, policy: Any) -> None:
        """Replace the policy of a scope by a copy of this one, which must have the same settings."""
        number = int(as_scopes([scope], self.size)[0])
        mine = self._shelf.policy
        if type(policy) is not type(mine) or policy.settings() != mine.settings():
            raise ValueError(f"policy: expected a {mine!r} with the same settings, got {policy!r}")
        state = policy.state()
        copy.copy(mine).restore(state)  # or it says what does not fit
        if self._gpu is None:
            self._shelf.put_state(number, state)
        else:
            self._gpu.scopes.on_desk(number).put_state(0, state)
            self._gpu.scopes.from_desk(number)

    def refresh(self) -> int:
        """Repair models that float32 storage has rounded to impossible ones; returns how many there were.

        Costs about a thousand rounds; once every few hundred rounds is plenty. With float64 there is nothing to repair.
        """
        return 0 if self._gpu is None else self._gpu.scopes.refresh()

    def state(self) -> dict[str, NDArray[Any]]:
        """Copy everything learned so far into a few arrays, by name; `numpy.savez` writes them to a file."""
        self._only_on_cpu("state")
        arrays, new = self._shelf.arrays(), self._shelf.packed
        copies = {name: array if name in new else array.copy() for name, array in arrays.items()}
        return {**copies, **self._shelf.log_arrays()}

    def restore(self, state: Mapping[str, ArrayLike]) -> Self:
        """Take back what `state` returned, from an object built with the same policy and size; all or nothing."""
        self._only_on_cpu("restore")
        self._shelf.take(state)
        return self

    def replay(self, scopes: Ints, events: tuple[Any, ...], count: int) -> tuple[Ints, Ints, list[tuple[int, Change]]]:
        """Replay the events of a log, for `driftbandit.evaluation.replay`; see `kernels.many.replay_in_turn`.

        Returns the choices, what became of each event, and the changes with their events.
        """
        self._only_on_cpu("replay")
        return self._on_cpu.replay(scopes, events, count)

    def _only_on_cpu(self, what: str) -> None:
        if self._gpu is not None:
            raise ValueError(f"{what}: expected device='cpu'; fetch single scopes with policy_of")


def _on_gpu(desk: Shelf, size: int, threads: int, bounds: tuple[float, float], dtype: str) -> GpuCalls:
    from driftbandit.batch.gpu_calls import GpuCalls  # noqa: PLC0415 - only those who have a GPU need it
    from driftbandit.batch.on_gpu import GpuScopes  # noqa: PLC0415

    return GpuCalls(GpuScopes(desk, size, threads, dtype), desk.policy.dim, bounds)
