"""An engine on a file with a clock that tests turn, and a disk that can be told to fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import numpy as np

from driftbandit.serving.engine import retention
from driftbandit.serving.engine.engine import Engine
from driftbandit.serving.engine.messages import Arm, CatalogueRequest, DecisionRequest, RewardRequest
from driftbandit.serving.log.export import FORMATS, Wanted
from driftbandit.serving.loop.config import LoopConfig
from driftbandit.serving.loop.events import Refused
from driftbandit.serving.stores.sqlite import SQLiteStore

START = 1_700_000_000_000


class World:
    """An engine on a file, with a clock that tests turn."""

    def __init__(self, path: Path, *, vfs: str | None = None, **options: Any) -> None:
        self.now = START
        self.path, self.vfs, self.options = path, vfs, options
        self.open()

    def open(self) -> None:
        self.store = SQLiteStore(self.path, vfs=self.vfs)
        self.engine = Engine(self.store, lambda: self.now, **self.options)
        self.engine.commit()

    def restart(self) -> None:
        """As after a crash: nothing is saved on the way out."""
        self.store.close()
        self.open()

    def loop(self, name: str = "x", version: int | None = None, **config: Any) -> None:
        self.engine.configure(name, LoopConfig(**config), version)
        self.engine.commit()

    def arms(self, features: np.ndarray, name: str = "x") -> list[str]:
        arms = [Arm(f"a{i}", row.tolist()) for i, row in enumerate(features)]
        self.engine.put_arms(name, CatalogueRequest(arms))
        self.engine.commit()
        return [arm.id for arm in arms]

    def decide(
        self, ident: str | None, arms: list[Any] | None = None, scope: str | None = None, name: str = "x"
    ) -> Any:
        if ident is not None:
            self.engine.look_up(name, [ident])
        found = self.engine.decide(name, DecisionRequest(ident, scope, arms))
        self.engine.commit()
        return found

    def reward(self, ident: str, value: float, name: str = "x") -> str:
        self.engine.look_up(name, [ident])
        try:
            return "accepted" if self.engine.reward(name, ident, RewardRequest(value)) else "duplicate"
        except Refused as refusal:
            return str(refusal.status)
        finally:
            self.engine.commit()

    def counts(self, name: str = "x") -> Any:
        return self.engine.parts(name)[0].counts

    def check(self, name: str = "x") -> str:
        live = self.engine.digest(name)
        assert live == self.engine.digest(name, whole_log=True)
        return live


def run(world: World, rounds: int, arms: list[str], seed: int = 0, scopes: int = 5) -> None:
    rng = np.random.default_rng(seed)
    for number in range(rounds):
        world.now += int(rng.integers(0, 2_000))
        pool = [arms[i] for i in rng.permutation(len(arms))[:6]]
        _, answer = world.decide(f"{seed}/{number}", pool, f"user {rng.integers(scopes)}")
        if rng.random() < 0.7:
            world.reward(answer.decision_id, float(rng.random() < 0.5))


def prune(world: World) -> int:
    """Look for old events and let them go; returns the number of the last one that went."""
    world.now += retention._LOOK_MS
    world.engine.refresh()
    while world.engine.busy:
        world.engine.commit()
    return world.store.pruned(1, 0)


def export(world: World, path: Path, kind: str = "ndjson") -> Path:
    """Write the log of loop 1 to a file."""
    path.write_bytes(b"".join(FORMATS[kind](world.store.reader, Wanted("x", 1))))
    return path


class FailingVFS(apsw.VFS):
    """A disk that can be told to fail."""

    def __init__(self) -> None:
        self.broken: str | None = None
        super().__init__("failing", "")

    def xOpen(self, name: Any, flags: Any) -> Any:
        return FailingFile(self, name, flags)


class FailingFile(apsw.VFSFile):
    def __init__(self, vfs: FailingVFS, name: Any, flags: Any) -> None:
        self.vfs = vfs
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        if self.vfs.broken == "full":
            raise apsw.FullError("no space left")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        if self.vfs.broken == "sync":
            raise apsw.IOError("fsync failed")
        super().xSync(flags)
