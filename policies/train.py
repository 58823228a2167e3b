"""One training loop for all methods: rounds of phases inside `lax.scan`, resumable to the bit."""

import dataclasses
import hashlib
import json
import os
import subprocess
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Int
from tqdm import tqdm

from rnce.policies.checkpoint import Checkpoint, context_shapes, flatten
from rnce.policies.config import to_json
from rnce.policies.data import Draw, Noise, TrainingSet, batch, draw, fit
from rnce.policies.methods import Keys, Method, init, make_keys
from rnce.policies.networks.functional import Params, count_params
from rnce.policies.policy import Policy
from rnce.policies.recipe import Phase, Recipe, Stage
from rnce.policies.task import Normalizer, Task


class TrainingError(ValueError):
    """Training that cannot start, go on or resume; the message says why and what is safe."""


class State(NamedTuple):
    """What one round hands to the next."""

    params: Params
    average: Params  # moving average of the parameters; empty without one
    optimizers: tuple[optax.OptState, ...]  # one for each phase of the present stage


@dataclasses.dataclass(frozen=True)
class Run:
    """A training run that can be stepped: everything but its state."""

    task: Task
    recipe: Recipe
    method: Method
    normalizer: Normalizer
    data: TrainingSet
    seed: int
    mesh: Mesh

    def start(self) -> State:
        """Fresh parameters."""
        params = jax.jit(lambda key: init(self.method, key))(
            jax.random.key(self.seed)
        )  # one program, not one per array
        average = jax.tree.map(jnp.copy, params) if self.recipe.ema else {}
        return self.enter(self.recipe.stages[0], State(params, average, ()))

    def place(self, state: State) -> State:
        """The state on every device, as a block returns it: otherwise the second block would compile again."""
        return jax.device_put(state, NamedSharding(self.mesh, PartitionSpec()))

    def enter(self, stage: Stage, state: State) -> State:
        """Fresh optimisers for a stage."""
        fresh = tuple(_optimizer(phase, stage).init(state.params[phase.trains]) for phase in stage.phases)
        return self.place(state._replace(optimizers=fresh))

    def blocks(self, done: int) -> Iterator[tuple[Stage, int, int]]:
        """(stage, its first round, rounds) for each block after `done` rounds; blocks never span stages."""
        first = 0
        for stage in self.recipe.stages:
            for start in range(first, first + stage.rounds, self.recipe.rounds_per_block):
                if start >= done:
                    yield stage, start, min(self.recipe.rounds_per_block, first + stage.rounds - start)
            first += stage.rounds

    def is_stage_start(self, round_number: int) -> bool:
        """Whether a stage begins with this round."""
        starts = np.cumsum([0, *(stage.rounds for stage in self.recipe.stages)])
        return round_number in starts

    def perturbation(self, round_number: Int[Array, ""]) -> Array:
        """Annealed over half the rounds, then constant."""
        first, last = self.recipe.perturbation
        progress = jnp.clip(2.0 * round_number / self.recipe.rounds, 0.0, 1.0)
        return first + (last - first) * progress


def make_run(task: Task, recipe: Recipe, data: TrainingSet, seed: int = 0, devices: Sequence[Any] | None = None) -> Run:
    """Fit the normaliser, build the method and place the data, replicated, on every device."""
    mesh = Mesh(np.array(devices or jax.devices()), ("data",))
    data = jax.device_put(data, NamedSharding(mesh, PartitionSpec()))
    normalizer = fit(data, task, recipe.perturbation[1], recipe.whiten)
    method = recipe.method.create(context_shapes(task), task.event_shape)
    _check_phases(recipe, method, mesh.size)
    return Run(task, recipe, method, normalizer, data, seed, mesh)


def _check_phases(recipe: Recipe, method: Method, devices: int) -> None:
    for stage in recipe.stages:
        for phase in stage.phases:
            if phase.trains not in method.networks or phase.loss not in method.losses:
                raise TrainingError(
                    f"stage {stage.name!r} trains {phase.trains!r} on {phase.loss!r}; {recipe.method_name} has the "
                    f"networks {', '.join(method.networks)} and the losses {', '.join(method.losses)}."
                )
            if phase.batch_size % devices:
                raise TrainingError(
                    f"batch_size={phase.batch_size} of stage {stage.name!r}: use a multiple of the {devices} devices."
                )


def block_function(run: Run, stage: Stage, rounds: int):
    """The compiled function that runs some rounds of a stage: (state, data, first round) -> state, mean metrics."""

    def round_(state: State, number: Array, data: TrainingSet) -> tuple[State, dict[str, Array]]:
        key = jax.random.fold_in(jax.random.key(run.seed + 1), number)
        params, optimizers, metrics = state.params, list(state.optimizers), {}
        for i, phase in enumerate(stage.phases):
            optimizer, gradient = _optimizer(phase, stage), gradient_function(run, phase)

            def step(carry, key, phase=phase, optimizer=optimizer, gradient=gradient):
                params, opt_state = carry
                draw_key, loss_key = jax.random.split(key)
                drawn, keys = draw(data, draw_key, phase.batch_size), make_keys(loss_key, phase.batch_size)
                aux, grads = gradient(params, data, drawn, keys, run.perturbation(number))
                updates, opt_state = optimizer.update(grads, opt_state, params[phase.trains])
                params = params | {phase.trains: optax.apply_updates(params[phase.trains], updates)}
                return (params, opt_state), aux

            keys = jax.random.split(jax.random.fold_in(key, i), phase.steps_per_round)
            (params, optimizers[i]), aux = jax.lax.scan(step, (params, optimizers[i]), keys)
            metrics |= jax.tree.map(jnp.mean, aux)
        average = state.average
        if run.recipe.ema:
            # Young averages forget faster, so that the first parameters do not linger.
            decay = jnp.minimum(run.recipe.ema, (1.0 + number) / (10.0 + number))
            average = jax.tree.map(lambda old, new: decay * old + (1.0 - decay) * new, average, params)
        return State(params, average, tuple(optimizers)), metrics

    def block(state: State, data: TrainingSet, first: Array) -> tuple[State, dict[str, Array]]:
        state, metrics = jax.lax.scan(lambda s, n: round_(s, n, data), state, first + jnp.arange(rounds))
        return state, jax.tree.map(jnp.mean, metrics)

    return jax.jit(block, donate_argnums=0)


def gradient_function(run: Run, phase: Phase):
    """(params, data, drawn, keys, perturbation) -> metrics and gradient of a phase's loss.

    Every device works alone on its share of the batch and meets the others once, with all it has found in one vector:
    on a CPU, where devices are cores, waiting for each other after every operation took a third of the time.
    """
    loss, axis = run.method.losses[phase.loss], run.mesh.axis_names[0]

    def share(params: Params, data: TrainingSet, drawn: Draw, keys: Keys, perturbation: Array) -> tuple[dict, Params]:
        x, y = batch(data, run.task, run.normalizer, drawn, Noise(perturbation, run.recipe.reflect))

        def objective(trained: Params):
            return loss(params | {phase.trains: trained}, x, y, keys)

        (value, aux), grads = jax.value_and_grad(objective, has_aux=True)(params[phase.trains])
        found = aux | {f"{phase.trains}_loss": value}, grads
        if run.mesh.size == 1:
            return found
        flat, unflatten = ravel_pytree(found)
        return unflatten(jax.lax.pmean(flat, axis))

    all_of_it: Any = PartitionSpec()
    part: Any = PartitionSpec(axis)
    specs = (all_of_it, all_of_it, part, Keys(common=all_of_it, each=part), all_of_it)
    return jax.shard_map(share, mesh=run.mesh, in_specs=specs, out_specs=all_of_it, check_vma=False)


def train(
    task: Task,
    recipe: Recipe,
    data: TrainingSet,
    out: str | Path,
    *,
    seed: int = 0,
    resume: bool = False,
    minutes_per_checkpoint: float = 3.0,
    progress: bool = True,
    devices: Sequence[Any] | None = None,
) -> Policy:
    """Train a policy, writing metrics, checkpoints and finally the policy itself under `out`.

    A run that was stopped at any moment continues with `resume=True` and ends with the same bits.
    """
    out = Path(out)
    run = make_run(task, recipe, data, seed, devices)
    description = {
        "task": to_json(task),
        "recipe": to_json(recipe),
        "seed": seed,
        "windows": run.data.size,
        "data": hashlib.sha256(np.asarray(data.actions).tobytes()).hexdigest()[:16],
        "devices": run.mesh.size,
    }
    _prepare_folder(out, description, resume)
    with ocp.CheckpointManager((out / "checkpoints").absolute(), options=_manager_options()) as manager:
        state, done, seconds = _restore(run, manager) if resume else (run.start(), 0, 0.0)
        _trim_metrics(out / "metrics.jsonl", done)
        state, seconds = _loop(run, state, done, seconds, out, manager, minutes_per_checkpoint, progress)
    params = state.average if recipe.ema else state.params
    policy = Policy(
        Checkpoint(
            task=task,
            method_name=recipe.method_name,
            method=recipe.method,
            params=jax.tree.map(np.asarray, params),
            normalizer=Normalizer(*map(np.asarray, run.normalizer)),
            samples=recipe.samples,
            recipe=description | {"minutes": round(seconds / 60, 2)},
            revision=_revision(),
        )
    )
    policy.save(out / "policy")
    return policy


def _loop(
    run: Run,
    state: State,
    done: int,
    seconds: float,
    out: Path,
    manager: ocp.CheckpointManager,
    minutes_per_checkpoint: float,
    progress: bool,
) -> tuple[State, float]:
    functions: dict[tuple[str, int], Any] = {}
    bar = tqdm(total=run.recipe.rounds, initial=done, unit="round", disable=not progress, dynamic_ncols=True)
    bar.set_description(f"{run.task.name}/{run.recipe.method_name} {count_params(state.params) / 1e3:.0f}k")
    last_good, saved_at, collapsed = done, time.monotonic(), False
    with bar, _Log(out) as log:
        for stage, first, rounds in run.blocks(done):
            if run.is_stage_start(first):
                state = run.enter(stage, state)
            function = functions.setdefault((stage.name, rounds), block_function(run, stage, rounds))
            began = time.monotonic()
            state, metrics = function(state, run.data, jnp.asarray(first))
            metrics = {name: float(value) for name, value in metrics.items()}
            seconds += time.monotonic() - began
            if not all(map(np.isfinite, metrics.values())):
                raise TrainingError(_not_finite(stage, first, rounds, metrics, last_good, out))
            collapsed = _warn_of_collapse(metrics, collapsed)
            log.write({"round": first + rounds, "stage": stage.name, "seconds": round(seconds, 2), **metrics})
            bar.update(rounds)
            shown = {name: f"{value:.3f}" for name, value in metrics.items() if name in _SHOWN}
            bar.set_postfix(shown, refresh=False)
            finished = first + rounds == run.recipe.rounds
            if finished or time.monotonic() - saved_at > 60 * minutes_per_checkpoint:
                if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.params)):
                    raise TrainingError(_not_finite(stage, first, rounds, metrics, last_good, out))
                _save(manager, state, first + rounds, seconds, last_good)
                last_good, saved_at = first + rounds, time.monotonic()
    manager.wait_until_finished()
    return state, seconds


def _not_finite(stage: Stage, first: int, rounds: int, metrics: dict[str, float], last_good: int, out: Path) -> str:
    losses = {f"{phase.trains}_loss": phase for phase in stage.phases}
    bad = [phase for name, phase in losses.items() if not np.isfinite(metrics[name])] or stage.phases
    return (
        f"training {bad[0].trains!r} on {bad[0].loss!r} left the finite numbers between rounds {first} and "
        f"{first + rounds}, stage {stage.name!r}; {_last_good(last_good, out / 'checkpoints')} Lower the learning rate."
    )


def _last_good(done: int, folder: Path) -> str:
    return f"the last good checkpoint is at round {done} in {folder}." if done else "there is no earlier checkpoint."


_SHOWN = ("match", "rank", "rank_final", "score", "posterior")


def _warn_of_collapse(metrics: dict[str, float], warned: bool) -> bool:
    if not warned and metrics.get("posterior", 0.0) > 0.98:
        warnings.warn(
            f"the posterior of the positive is {metrics['posterior']:.3f}: the proposal's negatives are too easy and "
            "the ranking loss has almost no gradient. Train the proposal more or give it more capacity.",
            stacklevel=2,
        )
        return True
    return warned


def _optimizer(phase: Phase, stage: Stage) -> optax.GradientTransformation:
    return phase.optimizer.create(phase.steps_per_round * stage.rounds)


def _manager_options() -> ocp.CheckpointManagerOptions:
    return ocp.CheckpointManagerOptions(max_to_keep=2, enable_async_checkpointing=False)


def _save(manager: ocp.CheckpointManager, state: State, done: int, seconds: float, last_good: int) -> None:
    arrays = {name: np.asarray(value) for name, value in flatten(state._asdict()).items()}
    try:
        manager.save(done, args=ocp.args.StandardSave(arrays | {"seconds": np.float64(seconds)}))
    except (OSError, ValueError) as error:  # a full disk; tensorstore's errors are ValueErrors
        folder = Path(str(manager.directory))
        raise TrainingError(
            f"cannot write the checkpoint of round {done}: {error}. {_last_good(last_good, folder).capitalize()} "
            "Make room and continue with --resume."
        ) from error


def _restore(run: Run, manager: ocp.CheckpointManager) -> tuple[State, int, float]:
    state = run.start()
    done = manager.latest_step()
    if done is None:
        return state, 0, 0.0
    reached = 0
    for stage in run.recipe.stages:  # the optimisers belong to the stage that was under way
        if reached < done <= reached + stage.rounds:
            state = run.enter(stage, state)
        reached += stage.rounds
    template = flatten(state._asdict()) | {"seconds": np.float64(0)}
    try:
        arrays = manager.restore(done, args=ocp.args.StandardRestore(template))
    except Exception as error:  # orbax and tensorstore have no common class of errors
        folder = Path(str(manager.directory)) / str(done)
        raise TrainingError(f"{folder} cannot be read: {error}. Delete it to resume from the one before.") from error
    named = state._asdict()  # a dict, as in `_save`: its leaves are in the order of `flatten`
    leaves = [jnp.asarray(arrays[name]) for name in flatten(named)]
    restored = State(**jax.tree.unflatten(jax.tree.structure(named), leaves))
    return run.place(restored), done, float(arrays["seconds"])


def _prepare_folder(out: Path, description: dict[str, Any], resume: bool) -> None:
    file = out / "run.json"
    text = json.dumps(description, indent=1, sort_keys=True) + "\n"
    if file.exists():
        if not resume:
            raise TrainingError(f"{out} holds a run already; add --resume to continue it, or choose another --out.")
        before, now = json.loads(file.read_text()), json.loads(text)
        differing = [key for key in now if key in before and before[key] != now[key]]
        if "devices" in differing:
            warnings.warn(
                f"the run was begun on {before['devices']} devices and goes on with {now['devices']}: it sums in "
                "another order, so it will not end with the same bits.",
                stacklevel=2,
            )
            differing.remove("devices")
        if differing:
            raise TrainingError(
                f"{file}: the run to resume has another {', '.join(differing)}; use its settings or another --out."
            )
        return
    if resume:
        raise TrainingError(f"{out} holds no run to resume; leave --resume away.")
    try:
        out.mkdir(parents=True, exist_ok=True)
        temporary = file.with_suffix(".tmp")
        temporary.write_text(text)
        temporary.rename(file)
    except OSError as error:
        raise TrainingError(f"cannot write to {out}: {error}; choose another --out.") from error


def _trim_metrics(file: Path, done: int) -> None:
    """Drop lines after the checkpoint a run resumes from, and a line that was cut in the middle."""
    if not file.exists():
        return
    kept = []
    for line in file.read_text().splitlines():
        try:
            if json.loads(line)["round"] <= done:
                kept.append(line)
        except ValueError:
            continue
    temporary = file.with_suffix(".tmp")
    temporary.write_text("".join(f"{line}\n" for line in kept))
    os.replace(temporary, file)


class _Log:
    """Metrics to JSON lines, and to TensorBoard where tensorboardX is installed."""

    def __init__(self, out: Path):
        self.file = (out / "metrics.jsonl").open("a")
        try:
            from tensorboardX import SummaryWriter

            self.board = SummaryWriter(str(out / "tensorboard"))
        except ImportError:
            self.board = None

    def __enter__(self) -> "_Log":
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()
        if self.board:
            self.board.close()

    def write(self, row: dict[str, Any]) -> None:
        self.file.write(json.dumps(row) + "\n")
        self.file.flush()
        if self.board:
            for name, value in row.items():
                if isinstance(value, float):
                    self.board.add_scalar(name, value, row["round"])


def _revision() -> str:
    """The git revision of this code, where it is a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
