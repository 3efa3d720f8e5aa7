"""Many scopes on an NVIDIA GPU: the arrays stay there, and the CPU is asked only where something changed.

What detects a change, retires a member or tries frames on the first rewards of a DriftUCB is rare or early in a scope's
life. Such scopes are fetched, dealt with by the same code as on the CPU, and put back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandit.batch import cuda
from driftbandit.batch.dlinucb import DLinUCBShelf
from driftbandit.batch.driftucb import DriftUCBShelf
from driftbandit.batch.first_rewards import FirstRewards
from driftbandit.batch.shelf import Shelf
from driftbandit.batch.threads import share_out
from driftbandit.core import Change, Floats, Ints
from driftbandit.kernels import many, pcg64
from driftbandit.kernels.driftucb import compact, drift, frames
from driftbandit.kernels.driftucb.scales import ALARM_AGE, ALARM_EVIDENCE, TRIED
from driftbandit.kernels.vector_units.vectors import aligned_zeros
from driftbandit.policies.choosing_memory.driftucb import alarm_of
from driftbandit.state import ChangeLog

_AT_A_TIME = 20_000  # scopes that are fetched at a time


class GpuScopes:
    """The policies of all scopes, on a GPU.

    Parameters
    ----------
    desk : Shelf
        A shelf for one scope, which holds the policy that every scope begins with. Single scopes are put there to be
        looked at.
    size : int
        Number of scopes.
    threads : int
        Threads of the CPU for what is done there.
    dtype : {'float64', 'float32'}
        How the models of LinUCB, LinTS and dLinUCB are stored.
    device : cuda.Device, optional
        The GPU; by default the current one.
    """

    def __init__(
        self, desk: Shelf, size: int, threads: int, dtype: str = "float64", device: cuda.Device | None = None
    ) -> None:
        self._desk, self.size, self._threads = desk, size, threads
        self._gpu = _back_end(desk, dtype, device)
        self.xp = self._gpu.device.xp
        first = desk.arrays()
        self._gpu.fill(self._for_gpu(first), size)
        self.everyone = self.xp.arange(size, dtype=np.int64)
        self.rounds = self.xp.full(size, int(first["rounds"][0]), dtype=np.int64)
        others = first.keys() - {*self._gpu.names, "rounds", "seen"}
        self._others = {name: np.repeat(first[name], size) for name in sorted(others)}
        self._logs: dict[int, ChangeLog] = {}
        self._first_rewards = _FirstRewards(desk, size) if isinstance(desk, DriftUCBShelf) else None

    @property
    def draws(self) -> bool:
        """Whether choosing changes a policy."""
        return self._desk.draws

    def choose(self, scopes: Any, features: Any, offsets: Any) -> Any:
        """The arm that each scope plays; -1 where features are not usable."""
        return self._gpu.choose(scopes, features, offsets)

    def learn(self, scopes: Any, features: Any, rewards: Any) -> tuple[Any, list[tuple[int, Change]]]:
        """Learn one reward of each scope; what became of each, None if nothing but learned, and what they revealed."""
        if self._first_rewards is not None and self._first_rewards.young:
            features = self._first_rewards.as_learned(self.xp, scopes, features)
        return self._conclude(scopes, features, rewards, self._gpu.learn(scopes, features, rewards))

    def step(
        self, scopes: Any, played: Any, rewards: Any, features: Any, offsets: Any
    ) -> tuple[Any, list[tuple[int, Change]], Any]:
        """`learn`, then `choose`, in one go where no scope is young."""
        if self._first_rewards is not None and self._first_rewards.young:
            status, found = self.learn(scopes, played, rewards)
            return status, found, self.choose(scopes, features, offsets)
        status, arms = self._gpu.step(scopes, played, rewards, features, offsets)
        status, found = self._conclude(scopes, played, rewards, status)
        if found and not isinstance(self._desk, DriftUCBShelf):  # it waited for its review before it could choose
            arms = self.choose(scopes, features, offsets)
        return status, found, arms

    def _conclude(self, scopes: Any, features: Any, rewards: Any, status: Any) -> tuple[Any, list[tuple[int, Change]]]:
        """Count what was learned and deal with what it revealed; returns what `learn` returns."""
        xp = self.xp
        if self._first_rewards is not None and self._first_rewards.young:
            self._first_rewards.remember(
                self._gpu, to_host(xp, scopes), to_host(xp, features), to_host(xp, rewards), status, self._threads
            )
        odd = int(xp.count_nonzero(status))
        if scopes is self.everyone and not odd:
            self.rounds += 1
        else:
            self.rounds[scopes] += status >= 0
        if not odd:
            return None, []
        changed = to_host(xp, xp.flatnonzero(status == many.CHANGED))
        owners = to_host(xp, scopes[xp.asarray(changed)])
        revealed = self._alarms(owners) if self._first_rewards is not None else map(self._review, owners.tolist())
        return status, [
            (item, change) for item, some in zip(changed.tolist(), revealed, strict=True) for change in some
        ]

    def _alarms(self, scopes: Ints) -> list[tuple[Change, ...]]:
        """What DriftUCB's alarms in these scopes stand for; nothing else is to be done about them."""
        memos = to_host(self.xp, self._gpu.memo_slots(scopes, ALARM_EVIDENCE, ALARM_AGE + 1))
        rounds = to_host(self.xp, self.rounds[self.xp.asarray(scopes)])
        found: list[tuple[Change, ...]] = []
        for scope, numbers, count in zip(scopes.tolist(), memos, rounds.tolist(), strict=True):
            found.append((alarm_of(numbers, count),))
            log = self._logs.get(scope) or self._logs.setdefault(scope, self._desk.new_log())
            log.append(found[-1][0])
        return found

    # Single scopes on the desk ---------------------------------------------------------------------------------------

    def on_desk(self, scope: int) -> Shelf:
        """Put a scope on the desk, as its number 0."""
        fetched = {name: to_host(self.xp, array) for name, array in self._gpu.take([scope]).items()}
        if isinstance(self._desk, DriftUCBShelf):
            fetched = _with_backlog(fetched, self._desk)
        others = {name: array[scope : scope + 1] for name, array in self._others.items()}
        if self._first_rewards is not None:
            lines = self._first_rewards.lines.of(scope)
            others |= {"seen": lines, "rooms": np.array([len(lines)])}
        rounds = np.array([int(self.rounds[scope])])
        self._desk.take({**fetched, **others, "rounds": rounds})
        if scope in self._logs:
            self._desk.logs[0] = self._logs[scope]
        return self._desk

    def from_desk(self, scope: int) -> None:
        """Take a scope back from the desk."""
        arrays = self._desk.arrays()
        if isinstance(self._gpu, cuda.DLinUCB):
            self._gpu.widen(arrays["banks"].shape[1])
            more = self._gpu.room - arrays["banks"].shape[1]
            wider = ((0, 0), (0, more), (0, 0))
            arrays |= {name: np.pad(arrays[name], wider) for name in ("banks", "ledgers")}
        self._gpu.put([scope], self._for_gpu(arrays))
        for name, array in self._others.items():
            array[scope] = arrays[name][0]
        if self._first_rewards is not None:
            self._first_rewards.put(scope, arrays)
        self.rounds[scope] = int(arrays["rounds"][0])
        if 0 in self._desk.logs:
            self._logs[scope] = self._desk.logs[0]

    def _for_gpu(self, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Those of the desk's arrays that the GPU holds, as it takes them."""
        if isinstance(self._desk, DriftUCBShelf):
            return _settled(arrays["memos"], _unpacked(arrays, self._desk), self._desk)
        return {name: arrays[name] for name in self._gpu.names}

    def _review(self, scope: int) -> tuple[Change, ...]:
        changes = self.on_desk(scope).review(0)
        self.from_desk(scope)
        return changes

    def refresh(self) -> int:
        """Repair models that rounding to float32 made impossible; returns how many there were."""
        return 0 if self._first_rewards is not None else int(self._gpu.refresh())

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays on the GPU."""
        return int(self._gpu.nbytes)


class _FirstRewards:
    """The first rewards of DriftUCB's scopes, kept on the CPU, and the trial of frames on them."""

    def __init__(self, desk: DriftUCBShelf, size: int) -> None:
        first = desk.arrays()
        self._desk = desk
        self.lines = FirstRewards(size, desk.policy.dim + 1)
        self._rules = desk.policy._rules
        self._tried = np.full(size, int(first["memos"][0, TRIED]))
        self._due = np.array([count > 0 and bool(frames.is_due(count)) for count in range(frames.TRIAL + 1)])
        self.young = int((self._tried < frames.TRIAL).sum())
        if self.young and len(first["seen"]):
            for scope in range(size):
                self.lines.put(scope, first["seen"])

    def put(self, scope: int, arrays: dict[str, NDArray[Any]]) -> None:
        """Take over a scope whose memo and first rewards are these."""
        self.young -= int(self._tried[scope] < frames.TRIAL)
        self._tried[scope] = int(arrays["memos"][0, TRIED])
        self.young += int(self._tried[scope] < frames.TRIAL)
        self.lines.put(scope, arrays["seen"])

    def as_learned(self, xp: Any, scopes: Any, features: Any) -> Any:
        """The features as a scope's policy learns them: those of its first rewards in single precision."""
        first = xp.asarray(self._tried < frames.SINGLE)[scopes][:, np.newaxis] & xp.isfinite(features)
        rounded = (features.view(np.int64) + frames.HALF_LOST) & frames.KEPT  # as in `frames.in_single`
        return xp.where(first, rounded.view(np.float64), features)

    def remember(
        self, gpu: cuda.DriftUCB, scopes: Ints, features: Floats, rewards: Floats, status: Any, threads: int
    ) -> None:
        """Remember rewards that the GPU has learned with this `status`; where it is time, try frames."""
        tells = (self._tried[scopes] < frames.TRIAL) & np.isfinite(features).all(axis=1) & features.any(axis=1)
        items = np.flatnonzero(tells)
        if not len(items):
            return
        owners = scopes[items]
        self._make_room(owners)
        became = to_host(gpu.device.xp, status)[items]
        due = (became < 0) | self._due[self._tried[owners] + 1]
        self._write(gpu, owners[~due], features[items[~due]], rewards[items[~due]])
        for start in range(0, int(due.sum()), _AT_A_TIME):
            part = np.flatnonzero(due)[start : start + _AT_A_TIME]
            at = items[part]
            became[part] = self._try_frames(gpu, owners[part], features[at], rewards[at], became[part], threads)
        status[gpu.device.xp.asarray(items)] = gpu.device.xp.asarray(became)
        grown = owners[self._tried[owners] == frames.TRIAL]
        self.young -= len(grown)
        for scope in grown.tolist():
            self.lines.give_back(scope)

    def _make_room(self, scopes: Ints) -> None:
        short = scopes[self._tried[scopes] >= self.lines.rooms[scopes]]
        if len(short):
            self.lines.widen(short)

    def _write(self, gpu: cuda.DriftUCB, scopes: Ints, features: Floats, rewards: Floats) -> None:
        """Remember rewards after which no frames are tried."""
        width = self.lines.width
        at = self.lines.places[scopes] + self._tried[scopes] * width
        self.lines.numbers[at[:, np.newaxis] + np.arange(width)] = np.column_stack([features, rewards])
        self._tried[scopes] += 1
        gpu.add_to_memos(scopes, TRIED, 1.0)

    def _try_frames(
        self, gpu: cuda.DriftUCB, scopes: Ints, features: Floats, rewards: Floats, status: Ints, threads: int
    ) -> Ints:
        """Remember rewards after which frames are tried, on the CPU."""
        xp, lines = gpu.device.xp, self.lines
        fetched = _with_backlog({name: to_host(xp, array) for name, array in gpu.take(scopes).items()}, self._desk)
        memos, banks = fetched["memos"], _unpacked(fetched, self._desk)
        places, rooms = lines.places[scopes], lines.rooms[scopes]
        features, rewards = np.ascontiguousarray(features), np.ascontiguousarray(rewards)

        def run(part: slice) -> None:
            many.remember_in_turn(
                self._rules,
                memos,
                banks,
                lines.numbers,
                places,
                rooms,
                features,
                rewards,
                status,
                part.start,
                part.stop,
            )

        share_out(run, scopes, threads, self._desk.effort)
        gpu.put(scopes, _settled(memos, banks, self._desk))
        self._tried[scopes] = memos[:, TRIED]
        return status


def _with_backlog(arrays: Mapping[str, NDArray[Any]], desk: DriftUCBShelf) -> dict[str, NDArray[Any]]:
    """Arrays of DriftUCB from a GPU, on which no reward waits for young models, as the CPU takes them."""
    more = compact.compact_shape(desk.policy.dim, len(desk.policy.memory))[0] - arrays["banks"].shape[1]
    banks = np.pad(arrays["banks"], ((0, 0), (0, more), (0, 0)))
    return {"memos": np.ascontiguousarray(arrays["memos"]), "banks": banks}


def _unpacked(arrays: Mapping[str, NDArray[Any]], desk: DriftUCBShelf) -> Floats:
    """The banks of DriftUCB, from their compact form."""
    experts, memos = len(desk.policy.memory), arrays["memos"]
    banks = aligned_zeros((len(memos), *drift.bank_shape(desk.policy.dim, experts)))
    many.unpack_all(memos, banks, arrays["banks"], experts)
    return banks


def _settled(memos: Floats, banks: Floats, desk: DriftUCBShelf) -> dict[str, NDArray[Any]]:
    """Memos and banks of DriftUCB as the GPU takes them; their young models learn what waits."""
    experts = len(desk.policy.memory)
    many.settle_all(desk.policy._rules, memos, banks)
    stored = np.empty((len(memos), *compact.compact_shape(desk.policy.dim, experts)))
    many.pack_all(memos, banks, stored, experts)
    return {"memos": memos, "banks": stored[:, : drift.models_of(experts)]}


def to_host(xp: Any, array: Any) -> Any:
    """An array of the CPU."""
    return np.asarray(array) if xp is np or isinstance(array, np.ndarray) else xp.asnumpy(array)


def _back_end(desk: Shelf, dtype: str, device: cuda.Device | None) -> Any:
    """The class of CUDA kernels for the policies of a shelf."""
    dim, state = desk.policy.dim, desk.state
    if isinstance(desk, DriftUCBShelf):
        if dtype != "float64":
            raise ValueError("dtype: expected 'float64' for DriftUCB, whose evidence adds up over many rewards")
        return cuda.DriftUCB(dim, state[0], device=device)
    act, test = state[0], state[1]
    if isinstance(desk, DLinUCBShelf):
        return cuda.DLinUCB(dim, act, test, state[4], dtype=dtype, device=device)
    if desk.draws:
        return cuda.LinTS(dim, act, test, pcg64.TABLES, dtype=dtype, device=device)
    return cuda.LinUCB(dim, act, test, dtype=dtype, device=device)
