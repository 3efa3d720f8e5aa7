"""What happened in one run, kept in one Parquet file per trace."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass

import numpy as np

from driftbandit.core import Change, Floats, Ints
from driftbandit.evaluation.stored import loaded_result, save_result

_META = b"driftbandit"


@dataclass(frozen=True, eq=False)
class Trace:
    """One policy in one world: a row per round, and what the policy noticed.

    Attributes
    ----------
    policy, setting : str
        Names of the policy and of the world's settings.
    seed : int
        Seed of the world.
    choices, rewards, regret : arrays of shape (T,)
        Index chosen, reward received and pseudo-regret of each round.
    shifts : array of int
        True first round of each new regime.
    changes : tuple of Change
        What the policy detected; `Change.round` counts rewards learned.
    seconds : float
        Time of the whole run.
    key : str
        Fingerprint of what produced the trace; `compare` repeats a run whose fingerprint does not match.
    detects : bool
        Whether the policy looks for changes at all, even if it found none.
    """

    policy: str
    setting: str
    seed: int
    choices: Ints
    rewards: Floats
    regret: Floats
    shifts: Ints
    changes: tuple[Change, ...]
    seconds: float
    key: str = ""
    detects: bool = False

    def __len__(self) -> int:
        return len(self.choices)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace to a Parquet file, whole or not at all."""
        facts = {
            "rounds": len(self),
            "policy": self.policy,
            "setting": self.setting,
            "seed": self.seed,
            "shifts": self.shifts.tolist(),
            "changes": [asdict(change) for change in self.changes],
            "seconds": self.seconds,
            "key": self.key,
            "detects": self.detects,
        }
        columns = {
            "round": np.arange(len(self), dtype=np.int32),
            "choice": self.choices,
            "reward": self.rewards,
            "regret": self.regret,
        }
        save_result(path, _META, columns, facts)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """Read a trace back.

        Raises
        ------
        ValueError
            If the file is not a whole Parquet file written by `save`.
        """
        with loaded_result(path, _META, "trace") as (table, facts):
            if table.num_rows != facts["rounds"]:
                raise ValueError(f"{table.num_rows} of {facts['rounds']} rounds")
            return cls(
                policy=facts["policy"],
                setting=facts["setting"],
                seed=facts["seed"],
                choices=table["choice"].to_numpy(),
                rewards=table["reward"].to_numpy(),
                regret=table["regret"].to_numpy(),
                shifts=np.array(facts["shifts"], dtype=np.int64),
                changes=tuple(Change(**change) for change in facts["changes"]),
                seconds=facts["seconds"],
                key=facts["key"],
                detects=facts["detects"],
            )
