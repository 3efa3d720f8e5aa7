"""What is lost beyond 2,000 features: `python -m driftbandit.benchmarks.sparse`.

Worlds with one-hot or tagged arms for groups of users, whose rewards are linear in thousands of sparse features, and
one with dense features. LinUCB on all features, where it is feasible, LinUCB on features that an `Encoder` has hashed
into fewer columns, and `DiagonalLinUCB` on all features play identical rounds. Prints regret, as mean ± standard
deviation over seeds, and time per round. ``--tune`` prints the regret of the settings tried, on other seeds.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from driftbandit.benchmarks.gathered_linucb import GatheredLinUCB
from driftbandit.benchmarks.options import at_least_one
from driftbandit.core import Floats, Ints, unknown_name
from driftbandit.evaluation.results import Table, number_of
from driftbandit.features import Category, Encoder, Tags
from driftbandit.policies.linear.diagonal_linucb import DiagonalLinUCB
from driftbandit.policies.linear.linucb import LinUCB

FULL, DIAGONAL = "LinUCB, all features", "DiagonalLinUCB"
HASHED = (256, 512, 1024)
ARMS = 10
NOISE = 0.3
WEIGHT = 0.2  # standard deviation of the true weights
TUNING_SEEDS = range(3)
FIRST_SEED = 1000
ALL = 50_000  # more features than any world here has
RIDGE, EXPLORE = (NOISE / WEIGHT) ** 2, NOISE
"""What Bayes' rule asks for. All paths play with it; ``--tune`` compares it with other settings."""

GRID = [(ridge, explore) for ridge in (1.0, RIDGE, 5.0) for explore in (0.1, 0.2, EXPLORE)]
TIMED_DIM = 1_000_000
_EACH = 8  # tags per item
_TOPICS = 25
_FACTORS = 10
_AT_ONCE = 500


@dataclass(frozen=True)
class World:
    """Groups of users who are shown items; every pair of the two is a row of features.

    Attributes
    ----------
    title : str
        What it is.
    groups, items : int
        How many there are.
    tags : int
        Number of tags, of which an item has 8 from one topic; 0 if items are one-hot.
    dense : int
        Number of dense features; 0 if features are sparse.
    rounds : int
        Length of a run.
    full : bool
        Whether LinUCB on all features plays.
    """

    title: str
    groups: int
    items: int
    tags: int = 0
    dense: int = 0
    rounds: int = 5_000
    full: bool = True

    def rows(self, dim: int = ALL) -> Any:
        """Features of all pairs in CSR format, row ``group * items + item``, in at most `dim` columns."""
        if self.dense:
            rng = np.random.default_rng(0)
            common = rng.standard_normal((self.items, _FACTORS)) @ rng.standard_normal((_FACTORS, self.dense))
            rows = common / math.sqrt(_FACTORS) + 0.5 * rng.standard_normal((self.items, self.dense))
            return sparse.csr_array(2.0 * rows / math.sqrt(self.dense))
        groups, items, tags = (tuple(map(str, range(count))) for count in (self.groups, self.items, self.tags))
        own = Tags("tags", tags) if self.tags else Category("item", items)
        encoder = Encoder([Category("group", groups)], [own], dim=dim)
        context, arms = {"group": groups}, {own.name: self._tags() if self.tags else items}
        owners, members = np.divmod(np.arange(self.groups * self.items), self.items)
        pieces = [slice(start, start + _AT_ONCE) for start in range(0, len(owners), _AT_ONCE)]
        encoded = (encoder.encode_many(context, arms, owners[piece], members[piece]) for piece in pieces)
        return sparse.vstack([sparse.csr_array(piece) for piece in encoded], format="csr")

    def _tags(self) -> list[list[str]]:
        rng = np.random.default_rng(0)
        topics = np.array_split(np.arange(self.tags), _TOPICS)
        drawn_topics = rng.integers(_TOPICS, size=self.items)
        return [[str(tag) for tag in rng.permutation(topics[topic])[:_EACH]] for topic in drawn_topics]


WORLDS = {
    "crosses": World("One-hot group, item, and group × item", groups=20, items=70),
    "tags": World("One-hot group, 8 tags per item, and group × tag", groups=4, items=1_000, tags=250),
    "many": World(
        "One-hot group, item, and group × item, too many for LinUCB",
        groups=100,
        items=200,
        rounds=10_000,
        full=False,
    ),
    "dense": World("Dense, correlated features: not for the diagonal", groups=1, items=1_000, dense=100),
}


@dataclass(frozen=True)
class Rounds:
    """What is shown in a run: rows of features, their expected rewards, and the rewards, each of shape (rounds, 10)."""

    pools: Ints
    means: Floats
    rewards: Floats


def drawn(world: World, rows: Any, seed: int) -> Rounds:
    """One run, given the rows of all features; popular groups come more often."""
    rng = np.random.default_rng(seed)
    theta = WEIGHT * rng.standard_normal(rows.shape[1])
    often = 1.0 / np.sqrt(np.arange(1, world.groups + 1))
    groups = rng.choice(world.groups, size=world.rounds, p=often / often.sum())
    items = np.argsort(rng.random((world.rounds, world.items)), axis=1)[:, :ARMS]
    pools = groups[:, np.newaxis] * world.items + items
    means = (rows @ theta)[pools]
    return Rounds(pools, means, means + NOISE * rng.standard_normal(means.shape))


class Player(Protocol):
    """Plays rows of a table of features."""

    def choose(self, rows: Ints) -> int: ...

    def learn(self, row: int, reward: float) -> None: ...


class ByRow:
    """A policy that is handed rows of a dense or sparse table."""

    def __init__(self, policy: Any, table: Any) -> None:
        self._policy, self._table = policy, table

    def choose(self, rows: Ints) -> int:
        return int(self._policy.choose(self._table[rows]))

    def learn(self, row: int, reward: float) -> None:
        self._policy.learn(_one(self._table, row), reward)


def _one(table: Any, row: int) -> Any:
    return table[[row]] if sparse.issparse(table) else table[row]


def regret(player: Player, rounds: Rounds) -> float:
    """Expected reward lost in a run by not playing the best arm shown."""
    total = 0.0
    for pool, means, rewards in zip(rounds.pools, rounds.means, rounds.rewards, strict=True):
        index = player.choose(pool)
        player.learn(int(pool[index]), float(rewards[index]))
        total += float(means.max() - means[index])
    return total


class Paths:
    """The ways to play a world, with the tables of features that they need."""

    def __init__(self, world: World) -> None:
        self.rows = world.rows()
        self._is_dense = world.dense > 0
        self.tables = {FULL: self.rows} if world.full else {}
        self.tables[DIAGONAL] = self.rows
        if not world.dense:
            self.tables |= {f"LinUCB, hashed to {dim:,}": world.rows(dim) for dim in HASHED}

    def player(self, path: str, ridge: float = RIDGE, explore: float = EXPLORE) -> Player:
        """A fresh player."""
        table = self.tables[path]
        build = DiagonalLinUCB if path == DIAGONAL else LinUCB
        if path != DIAGONAL and not self._is_dense:
            return GatheredLinUCB(table, ridge, explore)
        policy = build(table.shape[1], ridge=ridge, explore=explore)
        return ByRow(policy, table.toarray() if self._is_dense else table)


@dataclass(frozen=True)
class Line:
    """A path: how many features it has, and its regret for every seed."""

    path: str
    features: int
    regrets: list[float]


def measure(world: World, seeds: Sequence[int]) -> list[Line]:
    """Regret of every path and of random choice on the same rounds."""
    paths = Paths(world)
    lines = [Line(path, table.shape[1], []) for path, table in paths.tables.items()]
    chance = Line("random", 0, [])
    for seed in seeds:
        rounds = drawn(world, paths.rows, seed)
        for line in lines:
            line.regrets.append(regret(paths.player(line.path), rounds))
        chance.regrets.append(float((rounds.means.max(axis=1) - rounds.means.mean(axis=1)).sum()))
    return [*lines, chance]


def tuning(world: World, seeds: Iterable[int] = TUNING_SEEDS) -> Iterator[tuple[str, float, float, float]]:
    """Path, ridge, exploration and mean regret, for every path and setting of `GRID`."""
    paths = Paths(world)
    runs = [drawn(world, paths.rows, seed) for seed in seeds]
    for path in paths.tables:
        for ridge, explore in GRID:
            mean = float(np.mean([regret(paths.player(path, ridge, explore), run) for run in runs]))
            yield path, ridge, explore, mean


def regret_table(world: World, lines: Sequence[Line]) -> Table:
    """Mean ± standard deviation of every line, and by how much it is above the first line on the same rounds."""
    first = np.array(lines[0].regrets)
    cells = []
    for line in lines:
        regrets = np.array(line.regrets)
        more = "–" if line is lines[0] else f"{_spread(100.0 * (regrets / first - 1.0), sign='+')} %"
        cells.append((line.path, f"{line.features:,}" if line.features else "–", _spread(regrets), more))
    title = f"{world.title}: {lines[0].features:,} features, {world.rounds:,} rounds, {number_of('seed', len(first))}"
    return Table(title, ("path", "features", "regret", f"more than {lines[0].path}"), tuple(cells))


def _spread(values: Floats, sign: str = "") -> str:
    """Mean ± standard deviation."""
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return f"{np.mean(values):{sign},.0f} ± {deviation:,.0f}"


def timings(world: World, rounds: int = 100) -> dict[str, tuple[int, float]]:
    """Bytes of memory and microseconds per choose + learn of the package's policies, the best of three runs in turns.

    Pools and rows are cut out of the tables beforehand.
    """
    all_rows = world.rows()
    run = drawn(world, all_rows, FIRST_SEED)
    wide = sparse.csr_array((all_rows.data, all_rows.indices, all_rows.indptr), (all_rows.shape[0], TIMED_DIM))
    tables = {
        f"{DIAGONAL}, {wide.shape[1]:,} sparse features": wide,
        f"{DIAGONAL}, {all_rows.shape[1]:,} sparse features": all_rows,
        f"{DIAGONAL}, {all_rows.shape[1]:,} dense features": all_rows.toarray(),
        **{f"LinUCB, {dim:,} dense features": world.rows(dim).toarray() for dim in HASHED},
        f"LinUCB, {all_rows.shape[1]:,} dense features": all_rows.toarray(),
    }
    best: dict[str, tuple[int, float]] = {}
    for _ in range(3):
        for name, table in tables.items():
            dim = table.shape[1]
            policy = DiagonalLinUCB(dim) if name.startswith(DIAGONAL) else LinUCB(dim)
            size = sum(array.nbytes for array in policy.state().values())
            pools = [table[pool] for pool in run.pools[:rounds]]
            rows = [[_one(table, row) for row in pool] for pool in run.pools[:rounds].tolist()]
            started = time.perf_counter()
            for pool, own, rewards in zip(pools, rows, run.rewards, strict=False):
                index = policy.choose(pool)
                policy.learn(own[index], float(rewards[index]))
            taken = 1e6 * (time.perf_counter() - started) / rounds
            best[name] = (size, min(taken, best.get(name, (0, math.inf))[1]))
    return best


def time_table(times: Mapping[str, tuple[int, float]]) -> Table:
    """Memory and time of every policy, and its time as a multiple of the first one's."""
    unit = next(iter(times.values()))[1]
    cells = tuple(
        (name, f"{size / 1e6:,.2f} MB", f"{taken:,.0f}", f"{taken / unit:,.1f}")
        for name, (size, taken) in times.items()
    )
    return Table("Time and memory", ("policy", "memory", "µs per round", "times the first"), cells)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", default=",".join(WORLDS), help="some of %(default)s")
    parser.add_argument("--seed", type=int, default=FIRST_SEED, help="first seed")
    parser.add_argument("--seeds", type=at_least_one, default=10, help="how many")
    parser.add_argument("--rounds", type=at_least_one, help="rounds per run, by default as many as the world has")
    parser.add_argument("--tune", action="store_true", help="print the regret of all settings on the tuning seeds")
    given = parser.parse_args()
    names = given.worlds.split(",")
    if unknown := [name for name in names if name not in WORLDS]:
        parser.error(unknown_name("worlds", unknown, WORLDS))
    for name in names:
        world = replace(WORLDS[name], rounds=given.rounds or WORLDS[name].rounds)
        if given.tune:
            print(f"{world.title}:\n", flush=True)
            for path, ridge, explore, mean in tuning(world):
                print(f"{path}, ridge {ridge:g}, explore {explore:g}: {mean:,.0f}", flush=True)
            continue
        table = regret_table(world, measure(world, range(given.seed, given.seed + given.seeds)))
        print(f"{table.title}:\n\n{table.markdown()}\n", flush=True)
    if not given.tune:
        print(f"Time and memory, 10 arms:\n\n{time_table(timings(WORLDS['crosses'])).markdown()}")


if __name__ == "__main__":
    main()
