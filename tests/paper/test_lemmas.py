"""Theorems and lemmas against simulations: the worlds are what they claim, and the verdicts follow the figures."""

import math

import numpy as np
import pytest

from driftbandit.paper import lemmas, worlds_of_lemmas
from driftbandit.paper.worlds_of_lemmas import DIM, LEAST_CHANGE, early, out_of_date


def test_all_arms_that_count_as_changed_change_enough():
    rng = np.random.default_rng(0)
    before, after = 0.5 * np.eye(DIM)[0], -0.5 * np.eye(DIM)[0]
    for share in (1.0, 0.5):
        pools = np.concatenate([worlds_of_lemmas._pool(rng, share) for _ in range(200)])
        np.testing.assert_allclose(np.linalg.norm(pools, axis=1), 1.0)
        changes = np.abs(pools @ (after - before))
        assert np.mean(changes >= LEAST_CHANGE) == pytest.approx(share, abs=0.05)
        assert np.all((changes >= LEAST_CHANGE) | (changes == 0.0))


def test_early_detection_by_hand():
    rng = np.random.default_rng(3)
    misses = rng.random(300) < 0.2
    found = [0, 0]
    for t in range(300):
        recent = misses[max(0, t - 49) : t + 1]
        square = math.log(1.0 / 0.3) / (2.0 * len(recent))
        for k, width in enumerate((math.sqrt(square), square)):
            found[k] += np.mean(recent) > 0.2 + width
    assert early(0.2, 0.3, 50, 3, rounds=300) == pytest.approx((found[0] / 300, found[1] / 300))


def test_a_window_that_is_too_short_finds_nothing():
    assert out_of_date(0.01, 1.0, 0, delta=1e-5, window_delta=1e-9, window=5)[0] == 0.0


def test_every_claim_gets_a_figure_and_a_verdict():
    artefact = lemmas.run(seeds=range(2))
    assert [claim["verdict"] for claim in artefact.data["claims"]] == ["holds"] * 5
    assert artefact.tables[-1].title == "Verdict"
    assert len(artefact.tables) == 6


def test_a_bound_that_fails_is_called_so(monkeypatch):
    monkeypatch.setattr(lemmas, "early", lambda *_: (0.2, 0.2))
    monkeypatch.setattr(lemmas, "contaminated", lambda *_: (0.5, 0.02))
    verdicts = [claim["verdict"] for claim in lemmas.run(seeds=[0]).data["claims"]]
    assert verdicts == ["holds", "does not hold", "does not hold", "holds", "holds"]
