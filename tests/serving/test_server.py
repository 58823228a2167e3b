"""The server: the same actions as a local policy, batches, limits, tokens, health."""

import asyncio
import http.client
import logging
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from rnce.cli import main
from rnce.client import RemoteError, RemotePolicy
from rnce.policies.realtime import PlanRequest
from rnce.policies.rows import row_seeds
from rnce.serving.batcher import Batcher
from rnce.serving.server import Limits, Server, is_loopback
from rnce.serving.wire import pack, unpack


def states(steps: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(100, 400, (steps, 5))


@pytest.fixture
def remote(server):
    with RemotePolicy(port=server.port) as made:
        yield made


def ask(socket, message) -> dict | str:
    socket.send(pack(message) if isinstance(message, dict) else message)
    answer = socket.recv(timeout=30)
    return answer if isinstance(answer, str) else unpack(answer)


def test_acts_like_the_local_policy_to_the_bit(remote, policy):
    for seed in (3, 4):
        remote.reset(seed=seed)
        policy.reset(seed=seed)
        for obs in states(18, seed):
            np.testing.assert_array_equal(remote.act(obs), policy.act(obs))


def test_every_plain_message_is_answered_by_a_plan(server, policy):
    """The openpi way: metadata first, then a chunk and its scores for each observation; the history goes on."""
    with connect(server.url) as raw:
        metadata = unpack(raw.recv(timeout=30, decode=False))
        assert metadata["observation"] == {"state": {"shape": [5], "dtype": "<f4"}}
        assert metadata["actions"]["shape"] == [16, 2]
        assert (metadata["env_id"], metadata["execute"], metadata["n_ctx"]) == ("PushT-v0", 8, 2)
        assert ask(raw, {"reset": True, "seed": 7}) == {"reset": True}
        policy.reset(seed=7)
        for number, obs in enumerate(states(3)):
            answer, plan = ask(raw, {"state": obs, "prompt": "push"}), policy.replan(obs)
            assert isinstance(answer, dict)
            np.testing.assert_array_equal(answer["actions"], plan.actions)
            assert answer["scores"] == plan.scores.tolist()
            assert set(answer["server_timing"]) == {"infer_ms", "batch", "late", "prev_total_ms"}
            assert answer["server_timing"]["batch"] == 1, number


def test_a_window_takes_the_place_of_the_history(server, policy):
    first, second = states(2)
    with RemotePolicy(port=server.port) as one, RemotePolicy(port=server.port) as other:
        one.reset(seed=0)
        one.infer(first)
        other.reset(seed=0)
        other.infer(second)
        np.testing.assert_array_equal(one.infer(second)["actions"], other.infer(np.stack([first, second]))["actions"])
        with pytest.raises(RemoteError, match=r"shape \(3, 5\)"):
            other.infer(states(3))


def test_a_new_connection_is_a_new_robot(server, policy):
    obs = states(1)[0]
    with RemotePolicy(port=server.port) as one, RemotePolicy(port=server.port) as other:
        one.reset(seed=1)
        other.reset(seed=1)
        np.testing.assert_array_equal(one.act(obs), other.act(obs))
        one.act(states(1, 5)[0])
        np.testing.assert_array_equal(one.act(obs), (other.act(obs), other.act(obs))[1])


def test_concurrent_requests_share_a_call(server, policy):
    """Eight robots at once: plans of their own, as if alone, and fewer calls than requests."""
    rounds, robots = 6, 8
    barrier = threading.Barrier(robots)

    def drive(robot: int) -> tuple[list[np.ndarray], list[int]]:
        with RemotePolicy(port=server.port) as made:
            made.reset(seed=robot)
            barrier.wait(30)
            answers = [made.infer(obs) for obs in states(rounds, robot)]
        return [answer["actions"] for answer in answers], [answer["server_timing"]["batch"] for answer in answers]

    with ThreadPoolExecutor(robots) as pool:
        results = list(pool.map(drive, range(robots)))
    assert max(size for _, sizes in results for size in sizes) > 1
    for robot, (actions, _) in enumerate(results):
        policy.reset(seed=robot)
        for obs, found in zip(states(rounds, robot), actions):
            np.testing.assert_allclose(found, policy.replan(obs).actions, rtol=1e-4, atol=1e-2)


def test_batches_have_fixed_sizes(policy):
    """Two calls at a time; requests that come meanwhile share the next one; who has gone is left out."""
    shapes, held = [], threading.Event()

    class Watched:
        task = policy.task

        @staticmethod
        def plan_windows(windows, seeds, plans):
            shapes.append((len(seeds), windows["state"].shape))
            assert held.wait(30)
            return policy.plan_windows(windows, seeds, plans)

    def request(i: int) -> PlanRequest:
        window = {"state": np.repeat(states(1, i)[:, None], 2, 1).astype(np.float32)}
        return PlanRequest(window, row_seeds(i, 1), np.zeros(1, np.uint32))

    async def scenario():
        batcher = Batcher(Watched(), 4)  # pyright: ignore[reportArgumentType]
        running = asyncio.create_task(batcher.run())
        firsts = []
        for i in (0, 1):
            firsts.append(asyncio.create_task(batcher.plan(request(i))))
            while len(shapes) <= i:
                await asyncio.sleep(0.001)
        others = [asyncio.create_task(batcher.plan(request(i))) for i in range(2, 8)]
        await asyncio.sleep(0)
        others[0].cancel()
        await asyncio.sleep(0)
        held.set()
        results = await asyncio.gather(*firsts, *others[1:])
        running.cancel()
        return results

    results = asyncio.run(scenario())
    assert [rows for rows, _ in shapes] == [1, 1, 4, 1]
    assert [together for _, together in results] == [1, 1, 4, 4, 4, 4, 1]
    for i, (planned, _) in zip((0, 1, 3, 4, 5, 6, 7), results):
        expected = policy.plan_windows(*request(i))
        np.testing.assert_allclose(planned.plan.actions, expected.actions, rtol=1e-4, atol=1e-2)


WRONG = {
    "nan": ({"state": np.full(5, np.nan)}, "obs['state'] has a value that is not finite; the history is unchanged."),
    "key": ({"stat": np.zeros(5)}, "obs lacks the key 'state'; it has stat."),
    "shape": ({"state": np.zeros(4)}, "obs['state'] has shape (4,); use (5,), or (batch, 5)."),
    "text": ({"state": "left"}, "obs['state'] is not an array of numbers"),
    "nothing": ({}, "obs lacks the key 'state'; it has none."),
    "reset": ({"state": np.zeros(5), "reset": 1}, "reset is '1'; use true or false"),
    "seed": ({"state": np.zeros(5), "reset": True, "seed": -1}, "seed is '-1'; use 0 to 4294967295"),
    "seed alone": ({"state": np.zeros(5), "seed": 1}, "seed came without reset"),
    "a list": (pack([1, 2]), "a msgpack list came; send a map with the observation"),
    "not msgpack": (b"\xc1", "the frame is not msgpack"),
    "a text frame": ("hello", "a text frame came; send a binary one with a msgpack map"),
    "reset with nan": ({"state": np.full(5, np.nan), "reset": True, "seed": 9, "step": True}, "not finite"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_one_line_and_changes_nothing(case, server, policy):
    message, expected = WRONG[case]
    with connect(server.url) as raw:
        raw.recv(timeout=30)
        policy.reset(seed=2)
        first, *rest = states(4)
        answer = ask(raw, {"state": first, "reset": True, "seed": 2, "step": True})
        np.testing.assert_array_equal(answer["action"], policy.act(first))  # pyright: ignore[reportArgumentType]
        complaint = ask(raw, message)
        assert isinstance(complaint, str)
        assert expected in complaint
        assert "\n" not in complaint
        assert "Traceback" not in complaint
        for obs in rest:
            answer = ask(raw, {"state": obs, "step": True})
            np.testing.assert_array_equal(answer["action"], policy.act(obs))  # pyright: ignore[reportArgumentType]


def test_what_the_policy_does_wrong_is_logged_here_and_told_there(policy, monkeypatch, caplog):
    with Server(policy, port=0, max_batch=1) as server, RemotePolicy(port=server.port) as remote:
        monkeypatch.setattr(policy, "plan_windows", lambda *_: 1 / 0)
        for ask in (remote.act, remote.infer):
            with pytest.raises(RemoteError, match=r"^internal error: ZeroDivisionError; the server's log says more$"):
                ask(states(1)[0])
        monkeypatch.undo()
        assert remote.act(states(1)[0]).shape == (2,)
    assert "Traceback" in caplog.text


def test_a_request_that_takes_too_long_is_given_up(policy, monkeypatch):
    plan, held = policy.plan_windows, threading.Event()
    limits = Limits(request=0.3)
    with Server(policy, port=0, max_batch=1, limits=limits) as server, RemotePolicy(port=server.port) as remote:
        monkeypatch.setattr(policy, "plan_windows", lambda *args: held.wait(30) and plan(*args))
        with pytest.raises(RemoteError, match=r"the request took longer than 0.3 s"):
            remote.infer(states(1)[0])
        held.set()
        assert remote.infer(states(1)[0])["actions"].shape == (16, 2)


def test_planning_ahead(policy):
    """A connection that leads acts as the local policy that leads, when its plans come in time."""
    leading = policy.with_options(lead=4)
    leading._plan_batch = policy._plan_batch  # the same program
    with Server(policy, port=0, max_batch=1, lead=4) as server, RemotePolicy(port=server.port) as remote:
        remote.reset(seed=0)
        leading.reset(seed=0)
        for step, obs in enumerate(states(25)):
            np.testing.assert_array_equal(remote.act(obs), leading.act(obs))
            if step % 8 == 4:
                _until(lambda: not server._batcher._waiting)
                time.sleep(0.2)  # a plan of this policy takes a millisecond


def test_late_plans_are_reported(policy, caplog):
    with (
        caplog.at_level(logging.WARNING),
        Server(policy, port=0, max_batch=1, hz=1e9) as server,
        RemotePolicy(port=server.port) as remote,
    ):
        assert remote.infer(states(1)[0])["server_timing"]["late"]
        remote.act(states(1)[0])
        assert (server.timing.plans, server.timing.late) == (2, 2)
    assert "a plan took" in caplog.text


# Who may come in


def healthy(port: int) -> int | None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status
    except ConnectionRefusedError:
        return None
    finally:
        connection.close()


def test_warm_before_it_is_healthy(policy, monkeypatch):
    warmed, held = [], threading.Event()

    def warmup(size):
        warmed.append(size)
        assert held.wait(30)

    monkeypatch.setattr(policy, "warmup", warmup)
    server = Server(policy, port=0, max_batch=6)
    with ThreadPoolExecutor(1) as pool:
        entering = pool.submit(server.__enter__)
        _until(lambda: warmed)
        assert healthy(server.port) is None
        with pytest.raises(ConnectionError, match="refused"):
            RemotePolicy(port=server.port)
        held.set()
        entering.result(30)
    try:
        assert sorted(warmed) == [1, 2, 4, 6]
        assert healthy(server.port) == 200
    finally:
        server.__exit__()


def test_tokens(policy):
    with Server(policy, port=0, max_batch=1, token="open sesame") as server:
        assert healthy(server.port) == 200
        for token in (None, "", "open sesam", "open sesame2"):
            with pytest.raises(ConnectionError, match="401"):
                RemotePolicy(port=server.port, token=token)
        for scheme in ("Api-Key", "Bearer"):
            with connect(server.url, additional_headers={"Authorization": f"{scheme} open sesame"}) as raw:
                assert unpack(raw.recv(timeout=10, decode=False))["policy"] == "pusht/nf"


def test_limits(policy):
    limits = Limits(frame=1000, connections=2, idle=0.5)
    with Server(policy, port=0, max_batch=1, limits=limits) as server:
        with connect(server.url) as one, connect(server.url) as two:
            for opened in (one, two):
                opened.recv(timeout=10)
            with pytest.raises(InvalidStatus, match="503"), connect(server.url):
                pass
            one.send(b"\0" * 1001)
            with pytest.raises(ConnectionClosed, match="1009"):
                one.recv(timeout=10)
            with pytest.raises(ConnectionClosed):  # silence
                two.recv(timeout=10)
        _until(lambda: server._open == 0)
        with RemotePolicy(port=server.port) as remote:
            assert remote.act(states(1)[0]).shape == (2,)


def test_frames_are_as_large_as_observations_need(server):
    assert 2**16 < server._frame_limit < 2**17


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hz": 0}, "hz=0"),
        ({"lead": 9}, "lead=9: use 0 to 8"),
        ({"token": "schlüssel"}, "ASCII"),
        ({"host": "no.such.host.invalid"}, "cannot listen on no.such.host.invalid"),
        ({"port": 70000}, "port=70000: use 0 to 65535"),
    ],
)
def test_bad_arguments_are_named(options, message, policy):
    with pytest.raises((ValueError, OSError), match=message):
        Server(policy, **{"port": 0, **options})
    with pytest.raises(ValueError, match="connections=0"):
        Limits(connections=0)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("x.org", False)],
)
def test_loopback(host, expected):
    assert is_loopback(host) == expected


def test_the_command_warns_about_other_hosts_and_names_a_taken_port(policy, tmp_path, monkeypatch, capsys):
    policy.save(tmp_path / "policy")
    monkeypatch.setattr(Server, "run", lambda self, on_ready: (on_ready(), self.close()))
    main(["serve", str(tmp_path / "policy"), "--host", "0.0.0.0", "--port", "0"])
    printed = capsys.readouterr()
    assert "serving pusht/nf on ws://0.0.0.0:" in printed.out
    assert printed.err.startswith("warning: 0.0.0.0 is not only this machine; any machine that reaches it")
    main(["serve", str(tmp_path / "policy"), "--port", "0"])
    assert capsys.readouterr().err == ""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SystemExit, match="2"):
        main(["serve", str(tmp_path / "policy"), "--port", str(taken.getsockname()[1])])
    assert "cannot listen on 127.0.0.1" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["serve", "rnce.eval.scripted_planners:GridPlanner"])
    assert "cannot be served" in capsys.readouterr().err


def _until(condition, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)
