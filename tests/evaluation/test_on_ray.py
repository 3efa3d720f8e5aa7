"""On a real Ray cluster of two nodes on this machine: the same bytes as locally, whatever happens to a node."""

import functools
import json
import os
import signal
import socket
import subprocess
import sys
import time
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread

import numpy as np
import pyarrow as pa
import pytest

from driftbandit import DLinUCB, LinTS, LinUCB, PerScope, RandomChoice, Trace, compare
from driftbandit.audit.audit import audit
from driftbandit.environments import World
from driftbandit.environments.yahoo import read_yahoo
from driftbandit.environments.yahoo_synthetic import write_synthetic
from driftbandit.evaluation import on_ray
from driftbandit.evaluation.builders import builders_of
from driftbandit.evaluation.logged import shadow_values
from driftbandit.evaluation.replays import Entrant, Stream, replay_all
from driftbandit.evaluation.scope_replay import replay_by_scope
from driftbandit.evaluation.study import Place, play_study
from driftbandit.logs import Events, read_log
from driftbandit.policies.registry import REGISTRY

HERE = Path(__file__).parent
SCRIPT = str(Path(sys.executable).with_name("driftbandit"))
SMALL = World(horizon=200, period=80, dim=3, arms=20, pool=4)
POLICIES = ["dlinucb", "lints", "random"]

ray = pytest.importorskip("ray", reason="Ray, the extra 'scale', is not installed")
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray leaves files of its log open
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def cluster():
    """A head with one core and a second node with one core; the driver finds it as users do, by RAY_ADDRESS."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), *sys.path]))  # for the workers
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        soon = {"health_check_period_ms": 500, "health_check_failure_threshold": 3}  # notices a dead node
        head = {"num_cpus": 1, "include_dashboard": False, "_system_config": soon}
        nodes = Cluster(initialize_head=True, head_node_args=head)
        nodes.add_node(num_cpus=1)
        patch.setenv("RAY_ADDRESS", nodes.address)
        yield nodes
        ray.shutdown()
        nodes.shutdown()


def timeless(folder):
    """The bytes of all results in a folder, by path, without the time that they took."""
    found = {}
    for path in sorted(Path(folder).rglob("*.parquet")):
        replace(Trace.load(path), seconds=0.0).save(path.with_suffix(".timeless"))
        found[str(path.relative_to(folder))] = path.with_suffix(".timeless").read_bytes()
    for path in sorted(Path(folder).rglob("*.json")):
        results = json.loads(path.read_text())
        found[str(path.relative_to(folder))] = {name: {**result, "microseconds": 0} for name, result in results.items()}
    return found


# ---- the same results -----------------------------------------------------------------------------------------------


def test_a_comparison_leaves_the_same_bytes(cluster, tmp_path):
    worlds = {"small": SMALL, "noisy": replace(SMALL, noise=0.3)}
    compare(POLICIES, worlds, [0, 1], out=tmp_path / "here", processes=1)
    compare(POLICIES, worlds, [0, 1], out=tmp_path / "there", on="ray")
    here = timeless(tmp_path / "here")
    assert len(here) == 12
    assert timeless(tmp_path / "there") == here


def test_without_a_folder_too(cluster):
    ones, others = (compare(["lints"], {"small": SMALL}, [3], on=on) for on in ("local", "ray"))
    assert [trace.choices.tolist() for trace in ones] == [trace.choices.tolist() for trace in others]


def test_either_resumes_what_the_other_left(cluster, tmp_path, monkeypatch):
    build = functools.partial(REGISTRY["dlinucb"].build, window=20)
    first = {"small": Place(SMALL, [0, 1], {"wary": build})}
    more = {"small": Place(SMALL, [0, 1], {"wary": build, "linucb": REGISTRY["linucb"].build})}
    kept = play_study(first, out=tmp_path, processes=1)
    both = play_study(more, out=tmp_path, on="ray")
    assert both["small", "wary"] == kept["small", "wary"], "kept, with the time that it took"
    monkeypatch.setattr(on_ray, "connected", lambda: pytest.fail("nothing is left to do"))
    assert play_study(more, out=tmp_path, on="ray") == both
    assert play_study(more, out=tmp_path, processes=1) == both


def grouped(seed):
    return PerScope(LinUCB(6, explore=0.1))


def test_replays_find_the_same(cluster, tmp_path):
    write_synthetic(tmp_path / "day", 2000, seed=2, candidates=4)
    log, _ = read_yahoo(tmp_path / "day")
    scopes = np.arange(2000) % 7
    log.save(tmp_path / "log.arrow")
    np.save(tmp_path / "scopes.npy", scopes)
    stream = Stream("made-up", str(tmp_path / "log.arrow"), "1", seed=4)
    entrants = {stream: {"N-LinUCB": Entrant(grouped, str(tmp_path / "scopes.npy")), "again": Entrant(grouped)}}
    here = replay_all(entrants, processes=1)
    there = replay_all(entrants, on="ray")
    split = {("made-up", "N-LinUCB"): replay_by_scope(grouped(0), log, scopes, seed=4, on="ray")}
    for found in (there, split):
        for place, result in found.items():
            np.testing.assert_array_equal(result.matched, here[place].matched, strict=True)
            np.testing.assert_array_equal(result.rewards, here[place].rewards, strict=True)
            assert result.changes == here[place].changes
    assert here[("made-up", "N-LinUCB")].matched.tolist() != here[("made-up", "again")].matched.tolist()


def made_events(count, start):
    rng = np.random.default_rng(start)
    shown = rng.integers(3, size=count)
    return Events(
        features=rng.normal(size=(3 * count, 2)),
        arms=np.tile([0, 1, 2], count),
        offsets=np.arange(0, 3 * count + 1, 3),
        shown=shown,
        propensities=np.full(count, 1 / 3),
        rewards=0.2 + 0.6 * (shown == start // 400) + 0.1 * rng.normal(size=count),
        scopes=rng.integers(2, size=count),
        times=np.arange(start, start + count),
        rows=np.arange(start, start + count),
    )


def test_shadow_values_are_the_same(cluster):
    def field():
        wary, far = DLinUCB(2, noise=0.2, window=20), PerScope(LinUCB(2))
        return {
            "near": LinUCB(2),
            "wary": wary,
            "scoped": far,
            "lints": LinTS(2, seed=1),
            "random": RandomChoice(seed=2),
        }

    batches = [made_events(400, 400 * number) for number in range(3)]
    here = shadow_values(field(), batches)
    sent = field()
    there = shadow_values(sent, batches, on_ray=[name for name in sent if name != "near"])
    assert [*there] == [*here]
    assert here["wary"].changes
    for name, value in here.items():
        for part in ("weights", "rewards", "predicted", "expected"):
            np.testing.assert_array_equal(getattr(there[name].sample, part), getattr(value.sample, part), strict=True)
        np.testing.assert_array_equal(there[name].accepted, value.accepted)
        assert there[name].changes == value.changes
    assert (sent["near"].rounds, sent["wary"].rounds) == (1200, 0), "copies learned elsewhere"


def test_an_audit_tunes_the_same(cluster):
    shown = ["tea", "cup"] * 400
    table = pa.table(
        {
            "arms": [["tea", "cup"]] * 800,
            "arm": shown,
            "propensity": [0.5] * 800,
            "reward": [float(arm == "cup") for arm in shown],
        }
    )
    grid = REGISTRY["linucb"].variants[0].builders(REGISTRY["linucb"])
    found = {}
    for on in ("local", "ray"):
        result = audit(read_log(table), builders_of(["linucb"]), grids={"tuned": grid}, on=on)
        found[on] = [*map(repr, result.tuned), *map(repr, result.policies)]
        assert result.learned["linucb"].rounds == 800
    assert found["ray"] == found["local"]
    with pytest.raises(ValueError, match=r"^on: expected 'local' or 'ray', got 'moon'"):
        audit(read_log(table), builders_of(["linucb"]), on="moon")


def test_what_jobs_share_is_put_once(cluster, monkeypatch):
    put = []
    monkeypatch.setattr(ray, "put", lambda thing, put_=ray.put: put.append(thing) or put_(thing))
    worlds = {"small": SMALL, "noisy": replace(SMALL, noise=0.3)}
    compare(["random"], worlds, range(4), on="ray")
    assert len(put) == 2 + 2, "two worlds, the policies, and what is done with them"


# ---- nodes that die, and other trouble ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Build:
    """Builds LinUCB; on the node named in the file `victim` never ends, on others once a job is trapped there."""

    folder: str

    def __call__(self, brief):
        if ray.is_initialized() and ray.get_runtime_context().worker.mode == ray.WORKER_MODE:
            trapped = ray.get_runtime_context().get_node_id() == Path(self.folder, "victim").read_text()
            if trapped:
                Path(self.folder, f"trapped-{os.getpid()}").touch()
            while trapped or not list(Path(self.folder).glob("trapped-*")):
                time.sleep(0.01)
        return LinUCB(brief.dim)


def test_jobs_of_a_node_that_dies_are_run_again(cluster, tmp_path):
    victim = cluster.add_node(num_cpus=1)
    (tmp_path / "victim").write_text(victim.node_id)
    policies = {"linucb": Build(str(tmp_path)), "random": REGISTRY["random"].build}
    places = {"small": Place(SMALL, range(8), policies)}

    def kill():
        while not list(tmp_path.glob("trapped-*")):
            time.sleep(0.01)
        cluster.remove_node(victim, allow_graceful=False)

    killer = Thread(target=kill)
    killer.start()
    play_study(places, out=tmp_path / "there", on="ray")
    killer.join()
    assert list(tmp_path.glob("trapped-*")), "the node died with a job in hand"
    play_study(places, out=tmp_path / "here", processes=1)
    here = timeless(tmp_path / "here")
    assert len(here) == 8
    assert timeless(tmp_path / "there") == here


def dies(brief):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_job_that_kills_every_worker_ends_in_an_error(cluster, monkeypatch):
    monkeypatch.setattr(on_ray, "RETRIES", 0)
    with pytest.raises(ChildProcessError, match=r"^Ray lost a job and running it again up to 0 times did not help: "):
        compare({"deadly": dies}, {"small": SMALL}, [0], on="ray")


class OwnError(Exception):
    """An error of a user."""


def build_broken(brief):
    raise OwnError("this builder is broken", brief.dim)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:{free}", "no Ray cluster answers at 127.0.0.1:{free}"),
        ("ray://[::1]:{free}", "no Ray cluster answers"),
        ("127.0.0.1:70000", "no Ray cluster answers"),
        ("a-machine", "expected HOST:PORT, got 'a-machine'"),
        (":6379", "expected HOST:PORT"),
    ],
)
def test_an_address_where_nobody_answers_is_said_at_once(address, message):
    """Ray itself tries for a quarter of an hour, and then names an address that nobody typed."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    here = os.environ | {"RAY_ADDRESS": address.format(free=free)}
    command = [SCRIPT, "compare", "--policies", "random", "--seeds", "1", "--horizon", "50", "--on", "ray"]
    result = subprocess.run(command, capture_output=True, text=True, env=here, timeout=120, check=False)
    assert result.returncode == 2, result.stderr
    assert message.format(free=free) in result.stderr
    assert "Traceback" not in result.stderr


def test_an_error_is_the_same_as_locally(cluster):
    with pytest.raises(OwnError) as error:
        compare({"broken": build_broken}, {"small": SMALL}, [0, 1], on="ray")
    assert error.value.args == ("this builder is broken", 3)


def build_slow(brief):
    if brief.seed == zlib.crc32(b"slow/0"):
        raise OwnError("the others need not go on")
    time.sleep(3600)


def wait_until_idle():
    deadline = time.monotonic() + 30
    on_ray.connected()
    while ray.available_resources().get("CPU") != 2:
        assert time.monotonic() < deadline, "jobs were left running"
        time.sleep(0.05)


def test_an_error_cancels_what_is_left(cluster):
    with pytest.raises(OwnError):
        compare({"slow": build_slow}, {"small": SMALL}, [1, 0, 2], on="ray")
    wait_until_idle()


def test_processes_on_this_machine_leave_ray_alone(cluster):
    assert on_ray.connected().is_initialized()
    with pytest.raises(OwnError):  # whereupon the worker processes are ended
        compare({"broken": build_broken}, {"small": SMALL}, [0, 1], processes=2)
    assert len(compare(["random"], {"small": SMALL}, [0, 1], on="ray")) == 2


def test_other_code_on_another_machine_is_refused(cluster, monkeypatch):
    monkeypatch.setattr(on_ray, "_made_of", lambda: "driftbandit of long ago")
    with pytest.raises(
        ValueError, match=r"has other code than the machine that sent the job: .*, not driftbandit of lo"
    ):
        compare(["random"], {"small": SMALL}, [0], on="ray")


def test_ctrl_c_cancels_what_is_left_and_keeps_what_is_done(cluster, tmp_path):
    args = ["compare", "--on", "ray", "--policies", "linucb", "--horizon", "10000", "--seeds", "400"]
    process = subprocess.Popen(
        [SCRIPT, *args, "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        while len(list(tmp_path.rglob("*.parquet"))) < 2:
            assert process.poll() is None, "it must not end before it is stopped"
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGINT)
        stdout, stderr = process.communicate(timeout=30)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert process.returncode == 130, stderr
    assert stdout == ""
    assert stderr.splitlines() == ["stopped; the same command continues where it was"]
    kept = list(tmp_path.rglob("*.parquet"))
    assert 2 <= len(kept) < 200
    for path in kept:
        Trace.load(path)
    wait_until_idle()
