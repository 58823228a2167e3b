"""An eleventh obstacle that the policy never sees: what composing its energy with a clearance term does about it.

The obstacle stands beside the way into the goal, `BEFORE_GOAL` from it towards the middle of the workspace and `ASIDE`
to the left: a place that the term can compute from what the policy observes, so that one compiled program serves all
scenes. Right on the way, where both sides are equally far, a policy that looks ten steps ahead stops in front of it.

Whoever walks around something arrives late: the demonstrations tell a policy its speed, not how much time is left. A
second term, which draws the end of each chunk to the goal, makes up for that.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from tqdm import tqdm

from rnce.envs.path_planning import Scene, scenes_for_seeds
from rnce.envs.path_planning.geometry import collided, segment_clearance
from rnce.eval.files import check_writable, write_json
from rnce.eval.panels import COLLIDED, draw_paths
from rnce.eval.plots import save
from rnce.eval.statistics import clopper_pearson, paired_difference
from rnce.eval.tables import bounds, table
from rnce.policies import Policy, compose, load_policy

BEFORE_GOAL, ASIDE, RADIUS = 0.35, 0.08, 0.10
MARGIN, SOFTNESS = 0.015, 0.005  # clearance asked for, and how softly
WEIGHT = 300.0
HASTE = 30.0  # nats for each unit that a chunk ends nearer to the goal
# The product with the term is narrower than the policy's own density: a longer chain, and of all samples.
SAMPLER = {"mcmc_steps": 60, "refined": None}


def newcomer(goal: Any, xp: Any = np) -> Any:
    """The eleventh obstacle (x, y, radius), from the goal (..., 2)."""
    distance = xp.linalg.norm(goal, axis=-1, keepdims=True)
    ahead = goal / xp.maximum(distance, 1e-6)
    left = xp.stack([-ahead[..., 1], ahead[..., 0]], axis=-1)
    center = goal - BEFORE_GOAL * ahead + ASIDE * left
    return xp.concatenate([center, xp.full_like(distance, RADIUS)], axis=-1)


def keeps_clear(window: Mapping[str, jax.Array], actions: jax.Array) -> jax.Array:
    """Minus a smooth penalty for coming nearer to the newcomer than the margin."""
    path = jnp.concatenate([window["position"][-1:], actions])
    clearance = segment_clearance(path, newcomer(window["goal"][-1], jnp)[None])
    return -jnp.sum(jax.nn.softplus((MARGIN - clearance) / SOFTNESS)) * SOFTNESS


def arrives(window: Mapping[str, jax.Array], actions: jax.Array) -> jax.Array:
    """Minus the distance to the goal at the end of the chunk."""
    return -jnp.sqrt(jnp.sum((actions[-1] - window["goal"][-1]) ** 2) + 1e-8)


class Outcome(NamedTuple):
    """Paths of all rollouts (scenes, rollouts, 50, 2) and what became of them."""

    paths: np.ndarray
    hit: np.ndarray
    goal_distance: np.ndarray


def roll_out(policy: Policy, scenes: Scene, seeds: range, rollouts: int) -> Outcome:
    """Episodes in which the policy observes ten obstacles and can hit eleven."""
    rows = len(seeds) * rollouts
    obstacles, start, goal = (np.repeat(part, rollouts, axis=0) for part in scenes)
    envs = gym.make_vec("PathPlanning-v0", num_envs=rows)
    obs, _ = envs.reset(options={"obstacles": obstacles, "start": start, "goal": goal})
    policy.reset(seed=list(range(rows)))
    path = [obs["position"]]
    for _ in tqdm(range(49), desc=f"{len(policy.terms)} terms", leave=False):
        obs, *_ = envs.step(policy.act(obs))
        path.append(obs["position"])
    envs.close()
    paths = np.stack(path, axis=1)
    eleven = np.concatenate([obstacles, newcomer(goal)[:, None]], axis=1)
    shape = (len(seeds), rollouts)
    return Outcome(
        paths.reshape(*shape, 50, 2),
        np.asarray(collided(paths, eleven)).reshape(shape),
        np.linalg.norm(paths[:, -1] - goal, axis=-1).reshape(shape),
    )


def bench_composition(policy: str, seeds: range, rollouts: int, out: Path, weight: float = WEIGHT) -> str:
    """Roll out with and without the terms; writes composition.json and a picture, returns the table."""
    check_writable(out / "composition.json")
    alone = load_policy(policy)
    if alone.env_id != "PathPlanning-v0" or not hasattr(alone.checkpoint.method, "energy"):
        raise ValueError(f"policy={policy!r}: use an energy policy for path planning, such as path-planning/r-nce.")
    alone = alone.with_options(sampler=SAMPLER)
    clear = compose(alone, keeps_clear, weight)
    policies = {"alone": alone, "keeps clear": clear, "keeps clear, arrives": compose(clear, arrives, HASTE)}
    scenes = scenes_for_seeds(seeds)
    outcomes = {name: roll_out(policy, scenes, seeds, rollouts) for name, policy in policies.items()}
    record = {"policy": policy, "seeds": [seeds.start, seeds.stop], "rollouts": rollouts, "weight": weight}
    results = summaries(outcomes)
    write_json(out / "composition.json", {**record, "haste": HASTE, "sampler": SAMPLER, "results": results})
    save(picture(outcomes, scenes), out / "composition")
    return table(*composition_rows(results))


def summaries(outcomes: Mapping[str, Outcome]) -> list[dict[str, Any]]:
    """Figures of each policy; changes are to the first, on the same scenes."""
    first, *_ = outcomes.values()
    rows = []
    for name, outcome in outcomes.items():
        row = {
            "policy": name,
            "collision": float(outcome.hit.mean()),
            "ci95_clopper_pearson": list(clopper_pearson(int(outcome.hit.sum()), outcome.hit.size)),
            "goal_distance": float(outcome.goal_distance.mean()),
        }
        if outcome is not first:
            change = paired_difference(outcome.goal_distance.mean(axis=1), first.goal_distance.mean(axis=1))
            row["goal_distance_change"] = {"mean": change.mean, "ci95": list(change.interval)}
        rows.append(row)
    return rows


def composition_rows(results: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Header and rows."""
    header = ["", "collision with eleven obstacles", "95 % (Clopper–Pearson)", "goal distance", "change, paired"]
    rows = []
    for row in results:
        change = row.get("goal_distance_change")
        text = f"{change['mean']:+.3f} [{change['ci95'][0]:+.3f}, {change['ci95'][1]:+.3f}]" if change else ""
        interval = bounds(dict(row), "ci95_clopper_pearson")
        rows.append([row["policy"], f"{row['collision']:.3f}", interval, f"{row['goal_distance']:.3f}", text])
    return header, rows


def picture(outcomes: Mapping[str, Outcome], scenes: Scene, count: int = 3) -> Figure:
    """The scenes in which the newcomer does most harm, a row for each policy."""
    worst = np.argsort(-outcomes["alone"].hit.mean(axis=1), kind="stable")[:count]
    figure = Figure(figsize=(2.6 * count, 2.8 * len(outcomes)), layout="constrained")
    grid = figure.subplots(len(outcomes), count, squeeze=False)
    for row, (name, outcome) in zip(grid, outcomes.items()):
        row[0].set_ylabel(name)
        for axes, scene in zip(row, worst):
            one = Scene(*(part[scene] for part in scenes))
            hits = outcome.hit[scene]
            draw_paths(axes, one, outcome.paths[scene], [""] * len(hits), [bool(hit) for hit in hits])
            x, y, radius = newcomer(one.goal)
            axes.add_patch(Circle((x, y), radius, facecolor=COLLIDED, alpha=0.35))
            axes.set_title(f"collisions {hits.mean():.3f}", fontsize=7)
    return figure
