"""The policy: observations in, actions out, the same for all methods. NumPy at both ends.

Each row of a batch is a robot of its own: its own history, chunk and random stream. A plan encodes the context once,
draws `samples` chunks, ranks them by log-likelihood and keeps the best, in one compiled call for the whole batch.
"""

import dataclasses
import difflib
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from rnce.policies.checkpoint import Checkpoint, context_shapes, load_checkpoint, save_checkpoint
from rnce.policies.methods import EnergySampler, encode
from rnce.policies.networks.functional import Params, count_params
from rnce.policies.task import Normalizer, Task, normalize, to_actions, to_event

Observation = Any  # an array, a number, or a dict of arrays; with or without a leading batch axis
# A differentiable cost or energy: term(window, actions (n_pred, action_dim)) -> scalar, added to the energy.
ComposeTerm = Callable[[Mapping[str, Array], Float[Array, "n_pred action_dim"]], Float[Array, ""]]


class Plan(NamedTuple):
    """What was ranked: the chosen chunk, all samples and their scores (a leading batch axis as the observation has)."""

    actions: Any
    samples: Any
    scores: Any


class Policy:
    """A trained policy. See `act` for the control loop, `plan` for what was ranked, `sample` and `score` below it."""

    def __init__(self, checkpoint: Checkpoint, terms: Sequence[tuple[ComposeTerm, float]] = ()):
        self.checkpoint = checkpoint
        self.terms = tuple(terms)
        self.task: Task = checkpoint.task
        self.samples: int = checkpoint.samples
        self._method = checkpoint.method.create(context_shapes(self.task), self.task.event_shape)
        if self.terms and self._method.energy is None:
            raise ValueError(f"{checkpoint.method_name} has no energy to compose with; use ibc, r-nce or i-r-nce.")
        self._params = jax.tree.map(jnp.asarray, checkpoint.params)
        self._normalizer = Normalizer(*map(jnp.asarray, checkpoint.normalizer))
        self._plan_batch = jax.jit(jax.vmap(self._plan_one, (None, None, 0, 0, 0)))
        self._sample_one = jax.jit(self._draw, static_argnums=4)
        self._score_one = jax.jit(self._rank)
        self._rows: _Rows | None = None
        self._seeds: np.ndarray | int | None = None

    # What it is

    @property
    def name(self) -> str:
        """Task and method, as in the registry."""
        return f"{self.task.name}/{self.checkpoint.method_name}"

    @property
    def env_id(self) -> str | None:
        """The Gymnasium environment it acts in."""
        return self.task.env_id

    @property
    def n_params(self) -> int:
        """Numbers learned, over all networks."""
        return count_params(self.checkpoint.params)

    @property
    def chunk(self) -> int:
        """Actions played from each plan."""
        return self.task.execute

    def with_options(self, *, samples: int | None = None, sampler: Any = None, execute: int | None = None) -> "Policy":
        """A copy that plans differently.

        Args:
            samples: how many chunks are drawn and ranked.
            sampler: the settings of the sampler; or, for energy methods, "proposal", "two-stage" or "three-stage";
                or a dict of settings to change.
            execute: actions played from each plan.
        """
        checkpoint = self.checkpoint
        if samples is not None:
            if samples < 1:
                raise ValueError(f"samples={samples}: use at least 1.")
            checkpoint = dataclasses.replace(checkpoint, samples=samples)
        if sampler is not None:
            settings = _sampler(checkpoint.method.sampler, sampler)
            checkpoint = dataclasses.replace(
                checkpoint, method=dataclasses.replace(checkpoint.method, sampler=settings)
            )
        if execute is not None:
            checkpoint = dataclasses.replace(checkpoint, task=dataclasses.replace(checkpoint.task, execute=execute))
        return Policy(checkpoint, self.terms)

    def save(self, folder: str | Path) -> None:
        """Write the checkpoint folder that `load_policy` reads."""
        if self.terms:
            raise ValueError(
                "a composed policy holds Python functions and cannot be saved; save the policy it came from."
            )
        save_checkpoint(self.checkpoint, folder)

    # The control loop

    def reset(self, seed: int | Sequence[int] | None = None, mask: np.ndarray | None = None) -> None:
        """Forget history and chunk; of the rows where `mask` is true, or of all.

        Args:
            seed: of the random stream; one number (row i of a batch then gets a stream of its own), or one per row.
                None draws one from the operating system.
            mask: which rows of the present batch start a new episode.
        """
        if mask is None or self._rows is None:
            self._rows, self._seeds = None, np.asarray(seed) if isinstance(seed, Sequence | np.ndarray) else seed
            return
        mask = np.asarray(mask, bool)
        rows = self._rows
        if mask.shape != (rows.size,):
            raise ValueError(f"mask has shape {mask.shape}; the batch has {rows.size} rows, so use ({rows.size},).")
        rows.seeds[mask] = _row_seeds(seed, rows.size)[mask]
        rows.plans[mask] = 0
        rows.played[mask] = self.task.execute
        rows.fresh[mask] = True

    def act(self, obs: Observation) -> np.ndarray:
        """The next action, in the environment's units and inside its action space.

        Takes one observation, or a batch with a leading axis. Plans when a row has played its chunk. A bad observation
        raises and changes nothing.
        """
        steps, batched = self._observation(obs)
        rows = self._rows_for(steps)
        history = rows.pushed(steps)
        if np.any(rows.played >= self.task.execute):
            plan = self._plan(history, rows)
            due = rows.played >= self.task.execute
            rows.chunk[due] = plan.actions[due]
            rows.played[due] = 0
            rows.plans[due] += 1
        rows.history, rows.fresh = history, np.zeros(rows.size, bool)
        action = rows.chunk[np.arange(rows.size), rows.played]
        rows.played += 1
        return action if batched else action[0]

    def plan(self, obs: Observation) -> Plan:
        """Plan from the history and this observation without acting: what `act` would choose from, and how."""
        steps, batched = self._observation(obs)
        rows = self._rows_for(steps)
        plan = self._plan(rows.pushed(steps), rows)
        return plan if batched else Plan(*(value[0] for value in plan))

    def warmup(self, batch: int | None = None) -> None:
        """Compile the plan before the first deadline; `batch` is the number of rows, None for one observation."""
        window = {
            key: np.zeros((batch or 1, self.task.n_ctx, *shape), np.float32)
            for key, shape in self.task.observation.items()
        }
        seeds = np.zeros(batch or 1, np.uint32)
        jax.block_until_ready(self._plan_batch(self._params, self._normalizer, window, seeds, seeds))

    # Below the control loop

    def sample(self, obs: Observation, n: int, seed: int) -> np.ndarray:
        """Draw n chunks, (n, n_pred, action_dim), for a window of n_ctx observations or one (then repeated)."""
        key = jax.random.key(seed)
        return np.asarray(self._sample_one(self._params, self._normalizer, self._window(obs), key, n))

    def score(self, obs: Observation, samples: np.ndarray) -> np.ndarray:
        """The (relative) log-likelihood of given chunks, (n,), up to a constant of the context for energies."""
        samples = np.asarray(samples, np.float32)
        if samples.shape[1:] != self.task.event_shape:
            raise ValueError(
                f"samples have shape {samples.shape}; use (n, {', '.join(map(str, self.task.event_shape))})."
            )
        return np.asarray(self._score_one(self._params, self._normalizer, self._window(obs), samples))

    # Compiled

    def _term(self, normalizer: Normalizer, window: Mapping[str, Array]):
        if not self.terms:
            return None
        frame = self.task.view(window).frame

        def total(y: Float[Array, " dim"]) -> Float[Array, ""]:
            actions = to_actions(normalizer, frame, y)
            return sum((weight * term(window, actions) for term, weight in self.terms), jnp.zeros(()))

        return total

    def _draw(self, params: Params, normalizer: Normalizer, window: Mapping[str, Array], key: Array, n: int) -> Array:
        view = self.task.view(window)
        codes = encode(self._method, params, normalize(normalizer, view))
        events, _ = self._method.sample(params, codes, key, n, self._term(normalizer, window))
        return jax.vmap(lambda y: to_actions(normalizer, view.frame, y))(events)

    def _rank(self, params: Params, normalizer: Normalizer, window: Mapping[str, Array], samples: Array) -> Array:
        view = self.task.view(window)
        codes = encode(self._method, params, normalize(normalizer, view))
        events = jax.vmap(lambda actions: to_event(normalizer, view.frame, actions))(samples)
        return self._method.score(params, codes, events, self._term(normalizer, window))

    def _plan_one(
        self, params: Params, normalizer: Normalizer, window: Mapping[str, Array], seed: Array, count: Array
    ) -> Plan:
        view = self.task.view(window)
        codes = encode(self._method, params, normalize(normalizer, view))
        term = self._term(normalizer, window)
        key = jax.random.fold_in(jax.random.key(seed), count)
        events, scores = self._method.sample(params, codes, key, self.samples, term)
        if scores is None:
            scores = self._method.score(params, codes, events, term)
        # A sample that left the finite numbers never wins.
        ranked = jnp.where(jnp.isfinite(scores) & jnp.all(jnp.isfinite(events), axis=1), scores, -jnp.inf)
        actions = jax.vmap(lambda y: self.task.clip(to_actions(normalizer, view.frame, y)))(events)
        return Plan(actions[jnp.argmax(ranked)], actions, scores)

    def _plan(self, history: Mapping[str, np.ndarray], rows: "_Rows") -> Plan:
        plan = self._plan_batch(self._params, self._normalizer, dict(history), rows.seeds, rows.plans)
        return Plan(*map(np.asarray, plan))

    # Observations

    def _rows_for(self, steps: Mapping[str, np.ndarray]) -> "_Rows":
        size = len(next(iter(steps.values())))
        if self._rows is None:
            self._rows = _Rows.create(self.task, _row_seeds(self._seeds, size))
        if self._rows.size != size:
            raise ValueError(f"obs has {size} rows; this episode began with {self._rows.size}. Call reset() first.")
        return self._rows

    def _named(self, obs: Observation) -> dict[str, np.ndarray]:
        task = self.task
        if isinstance(obs, Mapping):
            missing = [key for key in task.observation if key not in obs]
            if missing:
                raise ValueError(f"obs lacks the key {missing[0]!r}; it has {', '.join(map(str, obs)) or 'none'}.")
            return {key: _numbers(key, obs[key]) for key in task.observation}
        if task.bare_key is None:
            raise ValueError(f"obs is a {type(obs).__name__}; use a dict with the keys {', '.join(task.observation)}.")
        return {task.bare_key: _numbers(task.bare_key, obs)}

    def _observation(self, obs: Observation) -> tuple[dict[str, np.ndarray], bool]:
        """Checked, named, with a batch axis; and whether it came with one."""
        named = self._named(obs)
        batched, sizes = None, {}
        for key, value in named.items():
            shape = tuple(self.task.observation[key])
            if value.shape != shape and value.shape[1:] != shape:
                raise ValueError(
                    f"obs[{key!r}] has shape {value.shape}; use {shape}, or (batch, {', '.join(map(str, shape))})."
                )
            rank = value.ndim > len(shape)
            if batched is not None and rank != batched:
                raise ValueError(
                    f"obs[{key!r}] has shape {value.shape}: some keys have a batch axis and some have not."
                )
            batched = rank
            sizes[key] = len(value) if rank else 1
            first = next(iter(sizes))
            if sizes[key] != sizes[first]:
                raise ValueError(f"obs[{key!r}] has {sizes[key]} rows; obs[{first!r}] has {sizes[first]}.")
            if not sizes[key]:
                raise ValueError(f"obs[{key!r}] has 0 rows; use at least 1.")
            if not np.all(np.isfinite(value)):
                raise ValueError(f"obs[{key!r}] has a value that is not finite; the history is unchanged.")
        steps = named if batched else {key: value[None] for key, value in named.items()}
        return steps, bool(batched)

    def _window(self, obs: Observation) -> dict[str, np.ndarray]:
        """A window for `sample` and `score`: n_ctx observations, or one repeated as at an episode's start."""
        window = {}
        for key, value in self._named(obs).items():
            shape, n_ctx = tuple(self.task.observation[key]), self.task.n_ctx
            if value.shape == shape:
                value = np.broadcast_to(value, (n_ctx, *shape))
            elif value.shape != (n_ctx, *shape):
                raise ValueError(f"obs[{key!r}] has shape {value.shape}; use {shape} or {(n_ctx, *shape)}.")
            if not np.all(np.isfinite(value)):
                raise ValueError(f"obs[{key!r}] has a value that is not finite.")
            window[key] = value
        return window


@dataclasses.dataclass
class _Rows:
    """The state of a batch of robots."""

    history: dict[str, np.ndarray]  # (rows, n_ctx, ...)
    fresh: np.ndarray  # no observation yet
    chunk: np.ndarray
    played: np.ndarray
    plans: np.ndarray
    seeds: np.ndarray

    @classmethod
    def create(cls, task: Task, seeds: np.ndarray) -> "_Rows":
        size = len(seeds)
        return cls(
            history={key: np.zeros((size, task.n_ctx, *shape), np.float32) for key, shape in task.observation.items()},
            fresh=np.ones(size, bool),
            chunk=np.zeros((size, *task.event_shape), np.float32),
            played=np.full(size, task.execute),
            plans=np.zeros(size, np.uint32),
            seeds=seeds,
        )

    @property
    def size(self) -> int:
        return len(self.seeds)

    def pushed(self, steps: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The history with these observations appended; a new episode's is filled with its first."""
        history = {}
        for key, past in self.history.items():
            moved = np.concatenate([past[:, 1:], steps[key][:, None]], axis=1)
            moved[self.fresh] = steps[key][self.fresh][:, None]
            history[key] = moved
        return history


def _numbers(key: str, value: Any) -> np.ndarray:
    try:
        return np.asarray(value, np.float32)
    except (TypeError, ValueError) as error:
        raise ValueError(f"obs[{key!r}] is not an array of numbers: {error}.") from error


def _row_seeds(seed: Any, size: int) -> np.ndarray:
    """One 32-bit seed per row."""
    if seed is None:
        seed = secrets.randbits(32)
    seeds = np.asarray(seed)
    if seeds.ndim == 1 and len(seeds) != size:
        raise ValueError(f"seed has {len(seeds)} numbers; the batch has {size} rows.")
    if seeds.ndim == 0:  # row 0 of a batch is the single robot of that seed
        return ((int(seeds) + 0x9E3779B1 * np.arange(size, dtype=np.uint64)) % 2**32).astype(np.uint32)
    return (seeds.astype(np.uint64) % 2**32).astype(np.uint32)


def _sampler(present: Any, wanted: Any) -> Any:
    if isinstance(wanted, Mapping):
        unknown = set(wanted) - {field.name for field in dataclasses.fields(present)}
        if unknown:
            known = ", ".join(field.name for field in dataclasses.fields(present))
            raise ValueError(f"sampler has no setting {sorted(unknown)[0]!r}; there are {known}.")
        return dataclasses.replace(present, **wanted)
    if not isinstance(wanted, str):
        return wanted
    if not isinstance(present, EnergySampler):
        raise ValueError(f"sampler={wanted!r} is for energy methods; this one has Heun steps: pass {{'steps': N}}.")
    if wanted == "proposal":
        return dataclasses.replace(present, start_time=1.0, sde_steps=0, mcmc_steps=0)
    if wanted == "two-stage":
        return dataclasses.replace(present, start_time=1.0, sde_steps=0)
    if wanted == "three-stage":
        if present.start_time >= 1.0:
            return dataclasses.replace(present, start_time=0.5, sde_steps=present.sde_steps or 32)
        return present
    raise ValueError(f"sampler={wanted!r}: use 'proposal', 'two-stage' or 'three-stage'.")


def compose(policy: Policy, term: ComposeTerm, weight: float) -> Policy:
    """The policy whose energy is E + weight·term: the product of its density with exp(weight·term).

    `term(window, actions)` sees the window of observations (n_ctx first) and one chunk in the environment's units, is
    differentiable, and may be a second energy or minus a cost. It acts in sampling (every ∇E) and in ranking.
    """
    return Policy(policy.checkpoint, (*policy.terms, (term, weight)))


PRETRAINED = Path(__file__).parent / "pretrained"


def pretrained_policies() -> list[str]:
    """Names of the shipped policies."""
    return sorted(str(file.parent.relative_to(PRETRAINED)) for file in PRETRAINED.glob("*/*/config.json"))


def load_policy(name_or_path: str | Path) -> Policy:
    """A shipped policy such as "pusht/i-r-nce", or one from a checkpoint folder."""
    path = Path(name_or_path)
    if not (path / "config.json").exists():
        known = pretrained_policies()
        if str(name_or_path) in known:
            path = PRETRAINED / name_or_path
        elif not path.exists():
            near = difflib.get_close_matches(str(name_or_path), known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"shipped are {', '.join(known) or 'none'}."
            raise ValueError(f"there is no policy or checkpoint folder {str(name_or_path)!r}; {hint}")
    return Policy(load_checkpoint(path))
