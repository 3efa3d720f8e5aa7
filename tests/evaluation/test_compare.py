"""`compare`: the same rounds for everyone, the same results on any number of processes, and no run done twice."""

import functools
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from driftbandit import LinUCB, PerScope, RandomChoice, Trace, compare, simulate, synthetic
from driftbandit.environments import World, world
from driftbandit.evaluation.compare import trace_path
from driftbandit.evaluation.fingerprints import run_key

POLICIES = ["dlinucb", "linucb", "lints", "wmducb1", "random"]
WORLDS = {
    "jumps": World(horizon=400, period=150, dim=4, arms=60),
    "clicks": world("table1-clicks", horizon=300, period=150, dim=4, arms=60),
}
SMALL = {"small": World(horizon=60, dim=3, arms=20, pool=4)}


def assert_same_runs(ones, others):
    """Everything but the time agrees, bit for bit."""
    assert len(ones) == len(others)
    for one, other in zip(ones, others, strict=True):
        for name in ("choices", "rewards", "regret", "shifts"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), strict=True)
        for name in ("policy", "setting", "seed", "changes", "key"):
            assert getattr(one, name) == getattr(other, name)


def files_of(out):
    """Modification time of every trace in a folder."""
    return {str(path.relative_to(out)): path.stat().st_mtime_ns for path in Path(out).rglob("*.parquet")}


# ---- what is played -------------------------------------------------------------------------------------------------


def test_one_process_and_two_give_the_same_results():
    one = compare(POLICIES, WORLDS, [0, 1], processes=1)
    two = compare(POLICIES, WORLDS, [0, 1], processes=2)
    assert any(trace.changes for trace in one), "changes are part of what is compared"
    assert_same_runs(one, two)


def test_results_come_by_setting_policy_and_seed():
    traces = compare(["random", "linucb"], {"b": SMALL["small"], "a": SMALL["small"]}, [5, 2], processes=1)
    assert [(trace.setting, trace.policy, trace.seed) for trace in traces] == [
        (setting, policy, seed) for setting in ("b", "a") for policy in ("random", "linucb") for seed in (5, 2)
    ]
    parallel = compare(["random", "linucb"], {"b": SMALL["small"], "a": SMALL["small"]}, [5, 2], processes=2)
    assert_same_runs(traces, parallel)


def test_a_run_is_the_simulation_of_its_world():
    (trace,) = compare(["linucb"], SMALL, [7], processes=1)
    rounds = synthetic(SMALL["small"], 7)
    by_hand = simulate(LinUCB(rounds.dim), rounds)
    np.testing.assert_array_equal(trace.choices, by_hand.choices)
    np.testing.assert_array_equal(trace.regret, by_hand.regret)


def test_a_policys_run_does_not_depend_on_its_company():
    alone = compare(["lints", "random"], SMALL, [1], processes=1)
    company = compare(["ucb1", "random", "dlinucb", "lints"], SMALL, [0, 1], processes=1)
    found = {(trace.policy, trace.seed): trace for trace in company}
    assert_same_runs(alone, [found["lints", 1], found["random", 1]])


def test_seeds_and_policies_draw_differently():
    traces = compare(["random", "lints"], SMALL, [0, 1], processes=1)
    assert len({tuple(trace.choices.tolist()) for trace in traces}) == 4


SEEN = {}


class Recorder(RandomChoice):
    """Remembers every pool, and what each arm of it would have paid is known from the rounds."""

    def __init__(self, name, brief):
        super().__init__(seed=brief.seed)
        self.seen = SEEN.setdefault(name, [])
        self.seen.append(("brief", brief.dim, brief.noise, brief.reward_range, tuple(brief.shifts)))

    def choose(self, features, arms=None):
        self.pool = features.copy(), arms.copy()
        return super().choose(features, arms)

    def learn(self, features, reward, arm=None):
        index = self.pool[1].tolist().index(arm)
        np.testing.assert_array_equal(self.pool[0][index], features)
        self.seen.append((self.pool[0].tobytes(), self.pool[1].tobytes()))
        return super().learn(features, reward, arm)


def build_first(brief):
    return Recorder("first", brief)


def build_second(brief):
    return Recorder("second", brief)


def test_all_policies_see_identical_rounds():
    SEEN.clear()
    settings = WORLDS["jumps"]
    traces = compare({"first": build_first, "second": build_second}, {"jumps": settings}, [3], processes=1)
    assert SEEN["first"] == SEEN["second"]
    assert len(SEEN["first"]) == 1 + 400
    rounds = synthetic(settings, 3)
    assert SEEN["first"][0] == ("brief", 4, 0.05, rounds.reward_range, (150, 300))
    assert SEEN["first"][1 + 200] == (rounds.catalogue[rounds.pools[200]].tobytes(), rounds.arms[200].tobytes())
    assert not np.array_equal(traces[0].choices, traces[1].choices), "each has its own seed"
    for trace in traces:
        np.testing.assert_array_equal(trace.rewards, rounds.rewards[np.arange(400), trace.choices])


def build_calm(brief, explore=0.01):
    return LinUCB(brief.dim, explore=explore)


@pytest.mark.parametrize("processes", [1, 2])
def test_builders_of_your_own(processes, tmp_path):
    traces = compare({"calm": build_calm}, SMALL, [0, 1], processes=processes, out=tmp_path)
    rounds = synthetic(SMALL["small"], 1)
    assert [trace.policy for trace in traces] == ["calm", "calm"]
    np.testing.assert_array_equal(traces[1].choices, simulate(LinUCB(3, explore=0.01), rounds).choices)


def build_per_scope(brief):
    return PerScope(LinUCB(brief.dim))


@pytest.mark.parametrize("processes", [1, 2])
def test_scoped_policies_play_beside_others(processes):
    traces = compare({"scoped": build_per_scope, "plain": build_plain}, SMALL, [0], processes=processes)
    np.testing.assert_array_equal(traces[0].choices, traces[1].choices)


def build_plain(brief):
    return LinUCB(brief.dim)


def test_builders_may_be_partial_functions():
    (trace,) = compare({"bold": functools.partial(build_calm, explore=2.0)}, SMALL, [0], processes=1)
    expected = simulate(LinUCB(3, explore=2.0), synthetic(SMALL["small"], 0))
    np.testing.assert_array_equal(trace.choices, expected.choices)


PARTIAL_KEY = """
import functools
import mine
from driftbandit.environments import World
from driftbandit.evaluation.fingerprints import run_key

print(run_key(World(), 0, "mine", functools.partial(mine.build, explore=2.0)))
"""


def test_the_fingerprint_of_a_partial_function_outlives_the_process(tmp_path):
    # An address in memory, say, would be another one tomorrow, and no run would ever be found again.
    (tmp_path / "mine.py").write_text("def build(brief, explore):\n    raise NotImplementedError\n")
    command = [sys.executable, "-c", PARTIAL_KEY]
    keys = [subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stdout for _ in range(2)]
    assert len(keys[0].strip()) == 64
    assert keys[0] == keys[1]


def bound_to(explore):
    return lambda brief: LinUCB(brief.dim, explore=explore)


def test_a_builder_bound_to_another_value_is_run_again(tmp_path):
    compare({"mine": bound_to(0.01)}, SMALL, [0], processes=1, out=tmp_path)
    (trace,) = compare({"mine": bound_to(3.0)}, SMALL, [0], processes=1, out=tmp_path)
    expected = simulate(LinUCB(3, explore=3.0), synthetic(SMALL["small"], 0))
    np.testing.assert_array_equal(trace.choices, expected.choices)


def test_builders_that_cannot_travel_are_named():
    mine = {"mine": lambda brief: LinUCB(brief.dim)}
    with pytest.raises(ValueError, match=r"^policies: the builder of 'mine' .*processes=1"):
        compare(mine, SMALL, [0, 1], processes=2)
    assert len(compare(mine, SMALL, [0, 1], processes=1)) == 2


def test_environments_that_cannot_travel_are_named():
    @dataclass(frozen=True)
    class Local:
        def rounds(self, seed):
            return SMALL["small"].rounds(seed)

    with pytest.raises(ValueError, match=r"^settings: 'own' cannot be sent .*processes=1"):
        compare(["random"], {"own": Local()}, [0, 1], processes=2)
    assert len(compare(["random"], {"own": Local()}, [0, 1], processes=1)) == 2


def test_numpy_numbers_are_numbers():
    traces = compare(["random"], {"small": world(horizon=np.int64(60))}, np.arange(2), processes=1)
    assert_same_runs(traces, compare(["random"], {"small": world(horizon=60)}, [0, 1], processes=1))


# ---- resuming -------------------------------------------------------------------------------------------------------

NAMES = ["linucb", "random"]
SEEDS = [0, 1, 2]


@pytest.fixture
def finished(tmp_path):
    """A finished comparison: its folder, its traces, and the times of its files, set back so that a rewrite shows."""
    traces = compare(NAMES, SMALL, SEEDS, out=tmp_path, processes=1)
    for path in tmp_path.rglob("*.parquet"):
        os.utime(path, ns=(10**18, 10**18))
    return tmp_path, traces, files_of(tmp_path)


def rewritten(finished):
    """Resume and return the traces, and the files that were written again."""
    out, _, before = finished
    traces = compare(NAMES, SMALL, SEEDS, out=out, processes=1)
    after = files_of(out)
    assert after.keys() >= before.keys()
    return traces, {name for name, when in after.items() if before.get(name) != when}


def name_of(policy, seed):
    return str(Path("traces", "small", policy, f"{seed}.parquet"))


def test_a_file_for_every_run(finished):
    out, traces, before = finished
    assert set(before) == {name_of(policy, seed) for policy in NAMES for seed in SEEDS}
    stored = [Trace.load(trace_path(str(out), "small", policy, seed)) for policy in NAMES for seed in SEEDS]
    assert_same_runs(stored, traces)
    assert not [path for path in out.rglob("*") if "partial" in path.name]


def test_nothing_is_run_twice(finished):
    traces, again = rewritten(finished)
    assert again == set()
    assert_same_runs(traces, finished[1])
    assert [trace.seconds for trace in traces] == [trace.seconds for trace in finished[1]]


def test_a_deleted_trace_is_run_again(finished):
    (finished[0] / name_of("random", 1)).unlink()
    traces, again = rewritten(finished)
    assert again == {name_of("random", 1)}
    assert_same_runs(traces, finished[1])


def test_a_truncated_trace_is_run_again(finished):
    path = finished[0] / name_of("linucb", 2)
    path.write_bytes(path.read_bytes()[:500])
    traces, again = rewritten(finished)
    assert again == {name_of("linucb", 2)}
    assert_same_runs(traces, finished[1])


@pytest.mark.parametrize("content", [b"", b"not parquet at all"])
def test_a_file_that_is_no_trace_is_run_again(finished, content):
    (finished[0] / name_of("linucb", 0)).write_bytes(content)
    traces, again = rewritten(finished)
    assert again == {name_of("linucb", 0)}
    assert_same_runs(traces, finished[1])


def test_a_trace_of_another_run_is_run_again(finished):
    # A whole, valid trace whose fingerprint does not match: seed 0 in the place of seed 1.
    out = finished[0]
    (out / name_of("random", 1)).write_bytes((out / name_of("random", 0)).read_bytes())
    traces, again = rewritten(finished)
    assert again == {name_of("random", 1)}
    assert_same_runs(traces, finished[1])


def test_other_settings_are_run_again(finished):
    out = finished[0]
    changed = {"small": World(horizon=60, dim=3, arms=20, pool=4, noise=0.5)}
    traces = compare(NAMES, changed, SEEDS, out=out, processes=1)
    assert_same_runs(traces, compare(NAMES, changed, SEEDS, processes=1))
    assert set(files_of(out).values()).isdisjoint({10**18})


def test_more_seeds_run_only_the_new_ones(finished):
    out, traces, before = finished
    more = compare(NAMES, SMALL, [0, 1, 2, 3], out=out, processes=1)
    after = files_of(out)
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) == {name_of(policy, 3) for policy in NAMES}
    assert_same_runs([trace for trace in more if trace.seed != 3], traces)


def test_fresh_runs_everything_again(finished):
    out, traces, _ = finished
    again = compare(NAMES, SMALL, SEEDS, out=out, processes=1, fresh=True)
    assert set(files_of(out).values()).isdisjoint({10**18})
    assert_same_runs(again, traces)


def test_resuming_on_two_processes(finished):
    out, traces, before = finished
    for seed in (0, 2):
        (out / name_of("random", seed)).unlink()
    again = compare(NAMES, SMALL, SEEDS, out=out, processes=2)
    assert_same_runs(again, traces)
    after = files_of(out)
    assert {name for name in after if after[name] != before[name]} == {name_of("random", 0), name_of("random", 2)}


def test_the_fingerprint_tells_runs_apart():
    settings = SMALL["small"]
    keys = [
        run_key(settings, 0, "linucb", None),
        run_key(settings, 1, "linucb", None),
        run_key(settings, 0, "random", None),
        run_key(settings, 0, "linucb", build_calm),
        run_key(settings, 0, "linucb", build_first),
        run_key(settings, 0, "linucb", functools.partial(build_calm, explore=1.0)),
        run_key(settings, 0, "linucb", functools.partial(build_calm, explore=2.0)),
        run_key(World(horizon=60, dim=3, arms=20, pool=4, noise=0.06), 0, "linucb", None),
    ]
    assert len(set(keys)) == len(keys)
    assert run_key(settings, 0, "linucb", None) == keys[0]


def test_settings_whose_names_look_alike_as_files_are_kept_apart(tmp_path):
    settings = {"0.1, 0.9": SMALL["small"], "0.1/ 0.9": World(horizon=70, dim=3, arms=20, pool=4)}
    first = compare(["random"], settings, [0], out=tmp_path, processes=1)
    before = files_of(tmp_path)
    assert len(before) == 2
    assert_same_runs(compare(["random"], settings, [0], out=tmp_path, processes=1), first)
    assert files_of(tmp_path) == before, "both are found again"


def test_a_renamed_setting_keeps_its_new_name(tmp_path):
    compare(["random"], {"a b": SMALL["small"]}, [0], out=tmp_path, processes=1)
    (trace,) = compare(["random"], {"a_b": SMALL["small"]}, [0], out=tmp_path, processes=1)
    assert trace.setting == "a_b"


@pytest.mark.parametrize("name", ["..", "../../outside", "a/b"])
def test_names_never_lead_out_of_the_folder(tmp_path, name):
    out = tmp_path / "deep" / "er" / "out"
    inside = (out / "traces").resolve()
    for path in (trace_path(str(out), name, "random", 0), trace_path(str(out), "small", name, 0)):
        assert inside in path.resolve().parents


INTERRUPTED = """
import sys
from driftbandit.environments import World
from driftbandit.evaluation.compare import compare

compare(["linucb", "adts"], {"long": World(horizon=2500)}, range(24), out=sys.argv[1], processes=2)
"""


def test_a_killed_run_is_taken_up_where_it_was(tmp_path):
    out = tmp_path / "out"
    process = subprocess.Popen([sys.executable, "-c", INTERRUPTED, str(out)], start_new_session=True)
    try:
        while len(files_of(out)) < 5:
            assert process.poll() is None, "it must not end before it is killed"
            time.sleep(0.002)
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # its own session: the script and its two workers, nothing else
        process.wait()
    survived = files_of(out)
    assert 5 <= len(survived) < 48, "killed in the middle"
    for name in survived:
        Trace.load(out / name)  # whole, or not there
    settings = {"long": World(horizon=2500)}
    traces = compare(["linucb", "adts"], settings, range(24), out=out, processes=2)
    after = files_of(out)
    assert len(after) == 48
    assert {name: after[name] for name in survived} == survived, "what was finished is not run again"
    assert_same_runs(traces, compare(["linucb", "adts"], settings, range(24), processes=2))


# ---- bad input ------------------------------------------------------------------------------------------------------


def test_unknown_policies_are_named_beside_the_known_ones():
    meant = re.escape("policies: unknown 'linucbb' (did you mean 'linucb'?), 'nobody'; expected some of ")
    with pytest.raises(ValueError, match=f"{meant}.*dlinucb, .*oracle"):
        compare(["linucb", "linucbb", "nobody"], SMALL, [0], processes=1)


@pytest.mark.parametrize(("policies", "settings", "seeds"), [([], SMALL, [0]), (NAMES, {}, [0]), (NAMES, SMALL, [])])
def test_nothing_to_play_is_an_error(policies, settings, seeds):
    with pytest.raises(ValueError, match="at least one policy, one setting and one seed"):
        compare(policies, settings, seeds, processes=1)


@pytest.mark.parametrize("seed", [-1, 0.5, "1", None])
def test_bad_seeds_are_refused_before_anything_runs(seed, tmp_path):
    with pytest.raises(ValueError, match=r"^seeds: expected a whole number of at least 0, got "):
        compare(NAMES, SMALL, [0, seed], out=tmp_path, processes=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("processes", [0, -2, 1.5])
def test_bad_numbers_of_processes_are_refused(processes):
    with pytest.raises(ValueError, match=r"^processes: expected a whole number of at least 1, got "):
        compare(NAMES, SMALL, [0], processes=processes)


def test_what_is_neither_here_nor_ray_is_refused():
    with pytest.raises(ValueError, match=r"^on: expected 'local' or 'ray', got 'moon'"):
        compare(NAMES, SMALL, [0], on="moon")


def build_broken(brief):
    raise RuntimeError("this builder is broken")


@pytest.mark.parametrize("processes", [1, 2])
def test_a_failing_policy_does_not_fail_silently(processes):
    with pytest.raises(RuntimeError, match="this builder is broken"):
        compare({"broken": build_broken}, SMALL, [0, 1], processes=processes)


def build_with_an_option(brief):
    return LinUCB(brief.dim, alpha=0.5)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_builder_that_makes_a_mistake_is_named(processes):
    with pytest.raises(ValueError, match=r"the builder of 'mine' failed on a Brief: .*unexpected keyword.*'alpha'"):
        compare({"mine": build_with_an_option}, SMALL, [0, 1], processes=processes)


def test_impossible_worlds_say_so_from_any_process():
    with pytest.raises(ValueError, match="shift: no theta in 204,800 draws"):
        compare(["random"], {"far": World(horizon=60, period=30, shift=1.5)}, [0, 1], processes=2)
