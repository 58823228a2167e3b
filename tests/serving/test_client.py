"""The client: thin, honest about lost connections, and usable where JAX is not."""

import subprocess
import sys

import numpy as np
import pytest

from rnce.client import RemotePolicy
from rnce.eval.evaluate import evaluate
from rnce.eval.settings import Settings
from rnce.serving.server import Server

ALLOWED = ("numpy", "websockets", "msgpack", "rnce")


def test_it_needs_numpy_websockets_and_msgpack_only():
    """An interpreter in which every other installed package is missing."""
    code = f"""
import sys

class OnlyThese:
    finders = list(sys.meta_path)

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        top = name.split(".")[0]
        if top in {ALLOWED} or top in sys.stdlib_module_names or top.startswith("_"):
            specs = (finder.find_spec(name, path, target) for finder in cls.finders)
            return next(filter(None, specs), None)

for name in list(sys.modules):  # what start-up files of the environment may have brought
    if name.split(".")[0] not in sys.stdlib_module_names and not name.startswith(("_", "rnce")):
        del sys.modules[name]
sys.meta_path[:] = [OnlyThese]
import rnce.client
print(sorted({{name.split(".")[0] for name in sys.modules}} & {{"jax", "gymnasium", "flax", "scipy"}}))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[]"


def test_a_missing_extra_is_named():
    code = "import sys; sys.modules['msgpack'] = None; import rnce.client"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ImportError: serving and its client need websockets and msgpack: pip install 'rnce[serve]'" in result.stderr


def test_no_jax_where_there_is_jax():
    code = "import sys, rnce.client; print('jax' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


def test_a_lost_connection_is_said_and_the_next_episode_has_a_new_one(policy):
    obs = np.full(5, 200.0)
    with Server(policy, port=0, max_batch=1) as first:
        remote = RemotePolicy(port=first.port)
        remote.reset(seed=0)
        remote.act(obs)
    for _ in range(2):
        with pytest.raises(ConnectionError, match=r"connection to ws://127\.0\.0\.1"):
            remote.act(obs)
    with pytest.raises(ConnectionError, match="cannot connect"):
        remote.reset(seed=0)
    with Server(policy, port=first.port, max_batch=1):
        remote.reset(seed=0)
        policy.reset(seed=0)
        np.testing.assert_array_equal(remote.act(obs), policy.act(obs))
        remote.close()
        remote.close()


def test_an_answer_that_does_not_come_ends_the_connection(policy, monkeypatch):
    with Server(policy, port=0, max_batch=1) as server:
        remote = RemotePolicy(port=server.port, timeout=1.0)
        remote.infer(np.full(5, 200.0))
        monkeypatch.setattr("rnce.serving.session.Session.answer", _never)
        with pytest.raises(ConnectionError, match="is lost"):
            remote.infer(np.full(5, 200.0))


async def _never(session, frame):
    import asyncio

    await asyncio.sleep(30)


@pytest.mark.parametrize(
    ("host", "port", "address"),
    [
        ("127.0.0.1", 9, "ws://127.0.0.1:9"),
        ("::1", 9, r"ws://\[::1\]:9"),
        ("ws://127.0.0.1:9/some/path", 8000, "ws://127.0.0.1:9/some/path"),
    ],
)
def test_addresses(host, port, address):
    with pytest.raises(ConnectionError, match=f"cannot connect to {address}: "):
        RemotePolicy(host, port, timeout=2.0)


def test_the_harness_measures_a_remote_policy(server, monkeypatch):
    """`rnce eval rnce.client:RemotePolicy`: one connection for each environment."""
    monkeypatch.setattr(RemotePolicy.__init__, "__defaults__", ("127.0.0.1", server.port, None, 30.0))
    settings = Settings("rnce.client:RemotePolicy", "PushT-v0", (50_000, 50_002), max_steps=10)
    result = evaluate(settings, progress=False)
    assert [episode.error for episode in result.episodes] == [None, None]
