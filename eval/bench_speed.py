"""Speed of training and planning, as ratios taken in one run: what share of the machine, how long a plan takes."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from rnce.eval.peer_networks import N_OBS, OBS, diffusion_policies
from rnce.eval.tables import markdown
from rnce.policies import Policy
from rnce.policies.checkpoint import Checkpoint, context_shapes
from rnce.policies.data import Noise, TrainingSet, batch, draw
from rnce.policies.export import flow_of
from rnce.policies.methods import init, make_keys
from rnce.policies.recipe import Phase, Recipe, Stage
from rnce.policies.samplers import flow as flows
from rnce.policies.task import Task, fit_normalizer
from rnce.policies.train import Run, block_function, make_run

MATMUL = 2048
STEPS = 20  # in a block


def seconds_per_call(function: Callable[[], Any], budget: float = 2.0) -> np.ndarray:
    """Wall times of repeated calls after one to compile, for about `budget` seconds."""
    jax.block_until_ready(function())
    times, began = [], time.monotonic()
    while len(times) < 3 or time.monotonic() - began < budget:
        start = time.perf_counter()
        jax.block_until_ready(function())
        times.append(time.perf_counter() - start)
    return np.array(times)


def matmul_speed(budget: float = 1.0) -> float:
    """Floating-point operations per second of a large float32 matrix product."""
    a = jax.random.normal(jax.random.key(0), (MATMUL, MATMUL))
    product = jax.jit(lambda a: a @ a)
    return 2 * MATMUL**3 / float(np.median(seconds_per_call(lambda: product(a), budget)))


def evaluations(recipe: Recipe, phase: Phase) -> int:
    """Network evaluations that one step of a phase differentiates: examples, times and candidates."""
    settings = recipe.method
    if phase.loss == "rank":
        return phase.batch_size * settings.times * (settings.negatives + 1)
    return phase.batch_size * settings.draws


def train_speed(task: Task, recipe: Recipe, data: TrainingSet, budget: float = 2.0) -> list[dict[str, Any]]:
    """For every phase of a recipe: evaluations a second and the share of the machine's matmul speed.

    Timed are blocks of the training loop itself, with its batches and its optimiser. Operations are those that XLA
    counts in the compiled gradient, the optimiser's left out. Matrix products are timed before and after, so that a
    busy machine slows both.
    """
    run = make_run(task, recipe, data)
    rows = []
    phases = {(phase.trains, phase.loss): phase for stage in recipe.stages for phase in stage.phases}
    for phase in phases.values():
        flops = _flops(run, phase)
        before = matmul_speed(budget / 2)
        seconds = _seconds_per_step(run, phase, budget)
        peak = 0.5 * (before + matmul_speed(budget / 2))
        rows.append(
            {
                "trains": phase.trains,
                "loss": phase.loss,
                "step_ms": 1e3 * seconds,
                "evaluations_per_second": evaluations(recipe, phase) / seconds,
                "gflops": flops / seconds / 1e9,
                "matmul_gflops": peak / 1e9,
                "share": flops / seconds / peak,
            }
        )
    return rows


def _seconds_per_step(run: Run, phase: Phase, budget: float) -> float:
    """A block is one compiled call of many steps, as in training: single large calls also wait for memory."""
    rounds = max(1, STEPS // phase.steps_per_round)
    stage = Stage("bench", rounds, (phase,))
    block, state = block_function(run, stage, rounds), run.enter(stage, run.start())

    def call() -> dict[str, jax.Array]:
        nonlocal state
        state, metrics = block(state, run.data, jnp.asarray(0))  # the state is donated
        return metrics

    return float(np.median(seconds_per_call(call, budget))) / (rounds * phase.steps_per_round)


def _flops(run: Run, phase: Phase) -> float:
    """Of one gradient.

    XLA counts the body of a loop once; the proposal's passes over its grid are loops, so their rounds are added.
    """
    quiet = Noise(jnp.zeros(()), run.recipe.reflect)
    loss = run.method.losses[phase.loss]

    def gradient(params: Any, key: jax.Array) -> Any:
        x, y = batch(run.data, run.task, run.normalizer, draw(run.data, key, phase.batch_size), quiet)
        keys = make_keys(key, phase.batch_size)
        objective = lambda trained: loss(params | {phase.trains: trained}, x, y, keys)[0]  # noqa: E731
        return jax.grad(objective)(params[phase.trains])

    all_params = init(run.method, jax.random.key(0))
    analysis = jax.jit(gradient).lower(all_params, jax.random.key(1)).compile().cost_analysis() or {}
    flops = float(analysis.get("flops", 0.0))
    if phase.loss != "rank" or "proposal" not in run.method.networks:
        return flops
    settings = run.recipe.method
    network = run.method.networks["proposal"]
    params = all_params["proposal"]
    code = network.encode(params, {name: jnp.zeros(shape) for name, shape in context_shapes(run.task).items()})
    prepared = network.prepare(params, code, jnp.ones(()))  # outside of the loops

    def cost(evaluate: Callable, points: int) -> float:
        program = jax.jit(lambda prepared, points: jax.vmap(lambda y: evaluate(params, prepared, y))(points))
        compiled = program.lower(prepared, jnp.zeros((points, run.task.dim))).compile()
        return float((compiled.cost_analysis() or {}).get("flops", 0.0))

    # Forwards for K negatives, backwards for m positives: two evaluations a Heun step, a divergence a coarse time.
    moves, divergences = (
        sum(cost(evaluate, points) for points in (settings.negatives, settings.times))
        for evaluate in (network.run, network.run_with_divergence)
    )
    steps, coarse = (settings.cells + 1) * settings.substeps, settings.cells + 2
    return flops + phase.batch_size * (2 * (steps - 1) * moves + (coarse - 1) * divergences)


def untrained(task: Task, recipe: Recipe) -> Policy:
    """A policy with fresh weights: as fast as a trained one."""
    context = context_shapes(task)
    size = int(np.prod(context.get("features", (1,))))
    rng = np.random.default_rng(0)
    normalizer = fit_normalizer(rng.normal(size=(64, size)), rng.normal(size=(4 * task.dim, task.dim)), 0.1)
    method = recipe.method.create(context, task.event_shape)
    params = jax.tree.map(np.asarray, init(method, jax.random.key(0)))
    return Policy(Checkpoint(task, recipe.method_name, recipe.method, params, normalizer, recipe.samples))


def plan_latency(policy: Policy, environments: Sequence[int] = (1, 64), budget: float = 3.0) -> list[dict[str, Any]]:
    """p50 and p95 of a whole plan (observation in, chunk out), for one and for many environments."""
    rows = []
    rng = np.random.default_rng(0)
    for count in environments:
        obs = {
            key: rng.uniform(0.1, 1.0, (count, *shape)).astype(np.float32)
            for key, shape in policy.task.observation.items()
        }
        policy.reset(seed=0)
        p50, p95 = 1e3 * np.percentile(seconds_per_call(lambda obs=obs: policy.plan(obs), budget), [50, 95])
        sizes = {"params": policy.n_params, "environments": count, "samples": policy.samples}
        rows.append(sizes | {"p50_ms": float(p50), "p95_ms": float(p95)})
    return rows


def peer_latency(budget: float = 10.0) -> list[dict[str, Any]]:
    """The same for the two networks of Diffusion Policy, which plan one chunk in a hundred steps."""
    rows = []
    for peer in diffusion_policies():
        window = jnp.zeros((N_OBS, OBS))
        times = seconds_per_call(lambda plan=peer.plan, window=window: plan(jax.random.key(0), window), budget)
        p50, p95 = 1e3 * np.percentile(times, [50, 95])
        sizes = {"method": peer.name, "params": peer.params, "environments": 1, "samples": 1}
        rows.append(sizes | {"p50_ms": float(p50), "p95_ms": float(p95)})
    return rows


def latency_markdown(rows: Sequence[dict[str, Any]]) -> str:
    """The table for a README: plans for one robot in Push-T, ours and the peers'."""
    shown = [row for row in rows if row["task"] == "pusht" and row.get("environments") == 1]
    return markdown(
        ["", "parameters", "samples ranked", "p50 ms", "p95 ms"],
        [
            [row["method"], f"{row['params']:,}", str(row["samples"]), f"{row['p50_ms']:.1f}", f"{row['p95_ms']:.1f}"]
            for row in shown
        ],
    )


def log_prob_comparison(
    policy: Policy, windows: Sequence[dict[str, np.ndarray]], samples: int, budget: float = 2.0
) -> dict[str, float]:
    """Two time scales against the augmented ODE on the same steps, with the field of a flow policy: time, and ranking.

    Right is the order of pairs at least a nat apart, by the augmented ODE with four times the steps.
    """
    sampler = policy.checkpoint.method.sampler
    start = jax.random.normal(jax.random.key(1), (samples, policy.task.dim))

    def two_scales(window: dict[str, jax.Array]) -> jax.Array:
        bridge, flow = flow_of(policy, policy.task.view(window))
        return flows.carry(flow, start, bridge.grid(sampler.steps), sampler.divergences)[1]

    def augmented(window: dict[str, jax.Array], steps: int) -> jax.Array:
        bridge, flow = flow_of(policy, policy.task.view(window))
        times = bridge.grid(steps)

        def step(carry, span):  # times are prepared in the loop: with these large passes that is the faster way
            (y, psi), (t0, t1) = carry, span
            k0, d0 = flow.velocity_and_divergence(flow.prepare(t0), y)
            k1, d1 = flow.velocity_and_divergence(flow.prepare(t1), y + (t1 - t0) * k0)
            return (y + 0.5 * (t1 - t0) * (k0 + k1), psi - 0.5 * (t1 - t0) * (d0 + d1)), None

        (_, psi), _ = jax.lax.scan(step, (start, flows.prior_log_prob(flow, start)), (times[:-1], times[1:]))
        return psi

    coarse, fine = jax.jit(two_scales), jax.jit(lambda window: augmented(window, sampler.steps))
    two_ms, augmented_ms = (
        1e3 * float(np.median(seconds_per_call(lambda scores=scores: scores(windows[0]), budget)))
        for scores in (coarse, fine)
    )
    reference = jax.jit(lambda window: augmented(window, 4 * sampler.steps))
    two_scores, augmented_scores, true_scores = (
        np.stack([scores(window) for window in windows]) for scores in (coarse, fine, reference)
    )
    return {
        "samples": samples,
        "two_time_scales_ms": two_ms,
        "augmented_ms": augmented_ms,
        "ratio": augmented_ms / two_ms,
        "two_time_scales_ranking": pair_agreement(two_scores, true_scores),
        "augmented_ranking": pair_agreement(augmented_scores, true_scores),
    }


def start_windows(policy: Policy, seeds: Sequence[int]) -> list[dict[str, np.ndarray]]:
    """What a policy sees first in episodes of these seeds."""
    assert policy.env_id is not None
    env, windows = gym.make(policy.env_id), []
    for seed in seeds:
        seen, _ = env.reset(seed=seed)
        parts = seen if isinstance(seen, dict) else {str(policy.task.bare_key): seen}
        windows.append({key: np.stack([part] * policy.task.n_ctx).astype(np.float32) for key, part in parts.items()})
    env.close()
    return windows


def pair_agreement(scores: np.ndarray, reference: np.ndarray, apart: float = 1.0) -> float:
    """Share of pairs of a row (a set of scores) ordered alike, of those that the reference puts so far apart."""
    difference, found = (values[..., :, None] - values[..., None, :] for values in (reference, scores))
    pairs = np.triu(np.abs(difference) >= apart, 1)
    if not pairs.any():
        raise ValueError(f"no two of {reference.shape[-1]} scores are {apart} apart; there is nothing to rank")
    return float(np.mean(np.sign(found)[pairs] == np.sign(difference)[pairs]))
