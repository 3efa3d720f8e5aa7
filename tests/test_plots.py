"""Figures from traces: the right lines, dots and marks, for many policies and for the odd cases."""

import io

import numpy as np
import pytest
from matplotlib import image
from matplotlib.colors import to_rgb

from driftbandit import Trace
from driftbandit.core import Change
from driftbandit.plots import COLOURS, _cielab, colours, regret_figure
from driftbandit.policies.registry import USUAL

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def trace(policy="dlinucb", seed=0, regret=0.1, rounds=100, shifts=(40, 80), alarms=(45, 90)):
    return Trace(
        policy=policy,
        setting="a",
        seed=seed,
        choices=np.zeros(rounds, dtype=np.int64),
        rewards=np.zeros(rounds),
        regret=np.full(rounds, float(regret)),
        shifts=np.array(shifts, dtype=np.int64),
        changes=tuple(Change(alarm, "spawned", 1, {}) for alarm in alarms),
        seconds=0.1,
    )


def draw(figure):
    """The picture as pixels; drawing is where Matplotlib finds most faults."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=40)
    assert buffer.getvalue().startswith(SIGNATURE)
    pixels = image.imread(io.BytesIO(buffer.getvalue()))
    assert pixels[..., :3].std() > 0.01, "an empty picture"
    return pixels


def axes_of(figure):
    curves, lanes, finals = figure.axes
    return curves, lanes, finals


def dots_of(axes):
    """Colour, filling and place of every final regret, top first."""
    dots = [container.lines[0] for container in axes.containers]
    return [(dot.get_color(), dot.get_markerfacecolor(), float(dot.get_xdata()[0])) for dot in dots]


def curves_of(axes):
    """Data of the labelled lines but the shifts'."""
    lines = [line for line in axes.lines if not line.get_label().startswith(("_", "true shift"))]
    return {line.get_label(): line.get_ydata() for line in lines}


def test_curves_are_means_of_accumulated_regret():
    runs = [trace("dlinucb", 0, 0.1), trace("dlinucb", 1, 0.3), trace("linucb", 0, 0.5, alarms=())]
    figure = regret_figure(runs, "Regret")
    draw(figure)
    curves, lanes, finals = axes_of(figure)
    drawn = curves_of(curves)
    assert set(drawn) == {"dLinUCB", "LinUCB"}
    np.testing.assert_allclose(drawn["dLinUCB"], 0.2 * np.arange(1, 101))
    np.testing.assert_allclose(drawn["LinUCB"], 0.5 * np.arange(1, 101))
    assert figure.get_suptitle() == "Regret"
    assert len(curves.collections) == 1, "a band for the policy with two seeds"
    assert [text.get_text() for text in finals.get_yticklabels()] == ["dLinUCB", "LinUCB"]
    np.testing.assert_allclose([place for *_, place in dots_of(finals)], [20.0, 50.0])
    assert not finals.patches, "no bars, which would start anywhere on a log axis"
    assert [text.get_text() for text in lanes.get_yticklabels()] == ["dLinUCB"]


def test_bands_are_one_sample_standard_deviation():
    figure = regret_figure([trace(seed=0, regret=0.1), trace(seed=1, regret=0.3)], "Regret")
    (band,) = figure.axes[0].collections
    heights = band.get_paths()[0].vertices[:, 1]
    # At the end 10 and 30: 20 ± 10 sqrt(2).
    assert heights.max() == pytest.approx(20.0 + 10.0 * np.sqrt(2.0))


def test_shifts_and_alarms_are_marked():
    runs = [trace(seed=0, alarms=(45, 90)), trace(seed=1, alarms=(50,))]
    curves, lanes, _ = axes_of(regret_figure(runs, "Regret"))
    verticals = [line.get_xdata()[0] for line in curves.lines if len(line.get_xdata()) == 2]
    assert verticals == [40, 80]
    marks = [line for line in lanes.lines if line.get_marker() == "|"]
    assert [sorted(line.get_xdata()) for line in marks] == [[45, 50, 90]]


@pytest.mark.parametrize("extra", [0, 60])
def test_no_two_policies_have_one_colour(extra):
    names = [*USUAL, *(f"own {number}" for number in range(extra))]
    runs = [trace(name, seed, 0.1 + 0.01 * number) for number, name in enumerate(names) for seed in range(2)]
    figure = regret_figure(runs, "Many")
    draw(figure)
    curves, lanes, finals = axes_of(figure)
    labelled = [line for line in curves.lines if not line.get_label().startswith(("_", "true shift"))]
    drawn = {line.get_color() for line in labelled}
    assert len(labelled) == len(drawn) == min(len(names), 16), "more curves cannot be followed"
    dots = dots_of(finals)
    assert len({colour for colour, *_ in dots}) == len(dots) == len(lanes.get_yticklabels()) == len(names)
    assert {colour for colour, filling, _ in dots if filling == colour} == drawn, "filled, if there is a curve"


def test_further_colours_can_be_told_from_all_others():
    found = colours(40)
    assert tuple(found[:8]) == COLOURS
    assert found == colours(50)[:40], "adding a policy changes no other policy's colour"
    lab = _cielab(np.array([to_rgb(colour) for colour in found]))
    gaps = np.linalg.norm(lab[:, None] - lab, axis=-1)[np.triu_indices(40, 1)]
    assert gaps.min() > 15.0, "two colours side by side are told apart from about 2.3 on"
    assert colours(0) == []


@pytest.mark.parametrize(
    ("rgb", "lab"), [((1, 1, 1), (100, 0, 0)), ((1, 0, 0), (53.2, 80.1, 67.2)), ((0, 0, 1), (32.3, 79.2, -107.9))]
)
def test_cielab(rgb, lab):
    np.testing.assert_allclose(_cielab(np.array([rgb], dtype=float))[0], lab, atol=0.1)


def test_a_policy_off_the_chart_is_a_hollow_dot():
    runs = [trace("dlinucb", regret=0.1), trace("linucb", regret=0.2), trace("random", regret=5.0)]
    curves, _, finals = axes_of(regret_figure(runs, "Regret"))
    assert set(curves_of(curves)) == {"dLinUCB", "LinUCB"}
    assert [text.get_text() for text in finals.get_yticklabels()] == ["dLinUCB", "LinUCB", "Random"]
    assert [filling == "white" for _, filling, _ in dots_of(finals)] == [False, False, True]
    assert "hollow" in finals.get_title()


def test_error_bars_stay_on_a_log_axis():
    runs = [trace("dlinucb", seed, regret) for seed, regret in enumerate((0.001, 0.001, 0.5))]
    finals = regret_figure(runs, "Regret").axes[2]
    (segment,) = finals.containers[0].lines[2][0].get_segments()
    assert segment[:, 0].min() > 0.0
    np.testing.assert_allclose(segment[:, 0].max(), 16.733 + np.std([0.1, 0.1, 50.0], ddof=1), rtol=1e-3)


ODD = {
    "one policy, one seed": [trace()],
    "no shifts": [trace(shifts=()), trace("linucb", regret=0.2, shifts=(), alarms=())],
    "no changes": [trace(alarms=())],
    "no shifts, no changes": [trace("random", shifts=(), alarms=())],
    "zero regret": [trace(regret=0.0)],
    "all zero regret": [trace("dlinucb", regret=0.0), trace("linucb", regret=0.0)],
    "zero and more": [trace("oracle", regret=0.0), trace("linucb", regret=0.5), trace("random", regret=1.0)],
    "zero with seeds": [trace(regret=0.0, seed=seed) for seed in range(3)],
    "one round": [trace(rounds=1, shifts=(), alarms=())],
    "tiny and huge": [trace("dlinucb", regret=1e-9), trace("random", regret=1e6)],
    "an alarm in the last round": [trace(alarms=(100,))],
}


@pytest.mark.parametrize("case", list(ODD))
def test_odd_cases_are_drawn(case):
    runs = ODD[case]
    figure = regret_figure(runs, "Odd")
    draw(figure)
    curves, lanes, finals = axes_of(figure)
    assert curves_of(curves), "somebody is drawn"
    assert len(dots_of(finals)) == len({run.policy for run in runs})
    detectors = {run.policy for run in runs if run.changes}
    assert len(lanes.get_yticklabels()) == len(detectors)
    if not detectors:
        assert lanes.get_title(loc="left") == "no policy here reports changes"


def test_a_linear_axis_is_not_called_logarithmic():
    finals = regret_figure([trace(regret=0.0)], "Zero").axes[2]
    assert finals.get_xscale() == "linear"
    assert "log" not in finals.get_xlabel()


@pytest.mark.parametrize("name", ["_mine", "cost $", "a$_$b", "ε-greedy <b>"])
def test_policies_of_your_own_may_have_any_name(name):
    figure = regret_figure([trace(name), trace("linucb", regret=0.2)], f"Regret of {name}")
    draw(figure)
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    # A dollar sign may be escaped for Matplotlib; the name must still be there.
    assert name in [label.replace("\\", "") for label in labels]
