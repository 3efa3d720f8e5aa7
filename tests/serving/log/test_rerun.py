"""A log that is run again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from driftbandit.serving.log.export import Wanted, ndjson
from driftbandit.serving.log.rerun import read_export, rerun_log

from ..world import World, run


def test_a_rerun_notices_a_log_that_was_tampered_with(world: World, tmp_path: Path) -> None:
    world.loop(dim=4, policy="linucb", window=1.0)
    run(world, 30, world.arms(np.random.default_rng(1).standard_normal((10, 4))))
    text = b"".join(ndjson(world.store.reader, Wanted("x", world.engine.number("x"))))
    other = tmp_path / "other.ndjson"
    other.write_bytes(text.replace(b'"value":1.0', b'"value":0.0'))
    found = rerun_log(read_export(other))
    assert found.identical < found.decisions == 30
    other.write_bytes(b"\n".join(text.split(b"\n")[2:]))
    with pytest.raises(ValueError, match="does not start at its beginning"):
        rerun_log(read_export(other))
    other.write_bytes(b'{"kind": 3}')
    with pytest.raises(ValueError, match="row 1 is no event of a log"):
        rerun_log(read_export(other))
