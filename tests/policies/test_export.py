"""Exported programs plan what the policy plans, without the package."""

import subprocess
import sys
from functools import cache

import jax
import numpy as np
import pytest
import tiny

from rnce.cli import main
from rnce.eval.bench_speed import start_windows
from rnce.policies import METHODS, Policy, Task, load_policy, pretrained_policies
from rnce.policies.export import plan_from_noise, to_onnx, to_stablehlo, write

TASK = Task("arm", None, {"arm": (2,), "goal": (1,)}, None, action_dim=1, n_ctx=2, n_pred=4, execute=2)

ONNX_NAMES = [f"{task}/{method}" for task in ("pusht", "path-planning") for method in ("nf", "diffusion")]


@cache
def shared(method: str) -> Policy:
    return tiny.untrained(method, TASK, samples=3)


def window() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {"arm": rng.normal(size=(2, 2)).astype(np.float32), "goal": rng.normal(size=(2, 1)).astype(np.float32)}


def expected(policy: Policy, seed: int, number: int, observation: dict | None = None) -> np.ndarray:
    windows = {key: value[None] for key, value in (observation or window()).items()}
    return policy.plan_windows(windows, np.array([seed], np.uint32), np.array([number], np.uint32)).actions[0]


RUN = """
import sys
class NoPackage:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("rnce", "flax", "diffrax", "optax"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NoPackage())
import jax, numpy as np
from jax import export
folder = sys.argv[1]
observation = dict(np.load(folder + "/window.npz"))
for name in sys.argv[2:]:
    plan = export.deserialize(bytearray(open(folder + "/" + name, "rb").read()))
    key = jax.random.fold_in(jax.random.PRNGKey(5), 2)
    np.save(folder + "/" + name + ".npy", plan.call(key, observation))
"""


def test_runs_with_jax_alone_and_gives_the_policys_result(tmp_path):
    """In a process where this package cannot be imported; to the bit."""
    np.savez(tmp_path / "window.npz", **window())  # pyright: ignore[reportArgumentType]
    methods = ("nf", "i-r-nce")
    for method in methods:
        write(shared(method), tmp_path / method)
    subprocess.run([sys.executable, "-c", RUN, str(tmp_path), *methods], check=True)
    for method in methods:
        np.testing.assert_array_equal(np.load(tmp_path / f"{method}.npy"), expected(shared(method), 5, 2))


@pytest.mark.parametrize("method", [method for method in METHODS if method not in ("nf", "i-r-nce")])
def test_every_method_exports(method):
    policy = shared(method)
    exported = jax.export.deserialize(bytearray(to_stablehlo(policy, ("cpu", "cuda", "tpu"))))
    assert exported.platforms == ("cpu", "cuda", "tpu")
    assert [value.shape for value in exported.in_avals] == [(2,), (2, 2), (2, 1)]
    assert [value.shape for value in exported.out_avals] == [(4, 1)]


@pytest.mark.parametrize("method", ["nf", "diffusion"])
def test_noise_in_place_of_a_key_gives_the_same_plan(method):
    policy = shared(method)
    noise = jax.random.normal(jax.random.fold_in(jax.random.key(5), 2), (3, 4))
    found = jax.jit(lambda noise, window: plan_from_noise(policy, noise, window))(noise, window())
    np.testing.assert_allclose(found, expected(policy, 5, 2), rtol=1e-4, atol=1e-4)


def through_onnx(policy: Policy, observation: dict[str, np.ndarray]) -> np.ndarray:
    pytest.importorskip("jax2onnx", reason="jax2onnx is not installed: pip install 'rnce[onnx]'")
    runtime = pytest.importorskip("onnxruntime")
    noise = jax.random.normal(jax.random.fold_in(jax.random.key(5), 2), (policy.samples, policy.task.dim))
    session = runtime.InferenceSession(to_onnx(policy))
    return session.run(["actions"], {"noise": np.asarray(noise), **observation})[0]


@pytest.mark.parametrize("method", ["nf", "diffusion"])
def test_onnx_gives_the_policys_result(method):
    found = through_onnx(shared(method), window())
    np.testing.assert_allclose(found, expected(shared(method), 5, 2), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", [name for name in pretrained_policies() if name in ONNX_NAMES])
def test_shipped_policies_as_onnx(name):
    policy = load_policy(name)
    low, high = policy.task.action_low, policy.task.action_high
    assert low is not None
    assert high is not None
    (observation,) = start_windows(policy, [50_000])
    found = through_onnx(policy, observation)
    wanted = expected(policy, 5, 2, observation)
    np.testing.assert_allclose(found, wanted, atol=1e-3 * np.subtract(high, low).max())


def test_the_command(tmp_path, capsys):
    shared("nf").save(tmp_path / "policy")
    main(["export", str(tmp_path / "policy"), str(tmp_path / "plan.stablehlo"), "--samples", "1"])
    assert "written: " in capsys.readouterr().out
    assert (tmp_path / "plan.stablehlo").stat().st_size > 1000
    for words, message in (
        (["--platforms", "abacus"], "use some of cpu, cuda, rocm, tpu"),
        (["--samples", "0"], "samples=0"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(["export", str(tmp_path / "policy"), str(tmp_path / "other"), *words])
        assert message in capsys.readouterr().err
        assert not (tmp_path / "other").exists()


def test_energies_cannot_become_onnx():
    with pytest.raises(ValueError, match=r"i-r-nce cannot become ONNX: only nf and diffusion"):
        to_onnx(shared("i-r-nce"))
