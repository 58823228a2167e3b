"""The policy: observations in, actions out, the same for all methods. NumPy at both ends.

Each row of a batch is a robot of its own: its own history, chunk and random stream. A plan encodes the context once,
draws `samples` chunks, ranks them by log-likelihood and keeps the best, in one compiled call for the whole batch.
"""

import dataclasses
import difflib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from rnce.policies.checkpoint import Checkpoint, context_shapes, load_checkpoint, save_checkpoint
from rnce.policies.features import View
from rnce.policies.methods import EnergySampler, encode
from rnce.policies.networks.functional import Params, count_params
from rnce.policies.observations import Observation, one_step, window
from rnce.policies.rows import Rows, row_seeds
from rnce.policies.task import Normalizer, Task, normalize, to_actions, to_event

# A differentiable cost or energy: term(window, actions (n_pred, action_dim)) -> scalar, added to the energy.
ComposeTerm = Callable[[Mapping[str, Array], Float[Array, "n_pred action_dim"]], Float[Array, ""]]


class Plan(NamedTuple):
    """What was ranked: the chosen chunk, all samples and their scores (a leading batch axis as the observation has)."""

    actions: Any
    samples: Any
    scores: Any


class Policy:
    """A trained policy. See `act` for the control loop, `plan` for what was ranked, `sample` and `score` below it."""

    def __init__(self, checkpoint: Checkpoint, terms: Sequence[tuple[ComposeTerm, float]] = (), lead: int = 0):
        self.checkpoint = checkpoint
        self.terms = tuple(terms)
        self.task: Task = checkpoint.task
        self.lead = check_lead(self.task, lead)
        self.samples: int = checkpoint.samples
        self._method = checkpoint.method.create(context_shapes(self.task), self.task.event_shape)
        if self.terms and self._method.energy is None:
            raise ValueError(f"{checkpoint.method_name} has no energy to compose with; use ibc, r-nce or i-r-nce.")
        self._params = jax.tree.map(jnp.asarray, checkpoint.params)
        self._normalizer = Normalizer(*map(jnp.asarray, checkpoint.normalizer))
        self._plan_batch = jax.jit(jax.vmap(self._plan_one, (None, None, 0, 0, 0)))
        self._sample_one = jax.jit(self._draw, static_argnums=4)
        self._score_one = jax.jit(self._rank)
        self._rows: Rows | None = None
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

    def with_options(
        self,
        *,
        samples: int | None = None,
        sampler: Any = None,
        execute: int | None = None,
        lead: int | None = None,
    ) -> "Policy":
        """A copy that plans differently.

        Args:
            samples: how many chunks are drawn and ranked.
            sampler: the settings of the sampler; or, for energy methods, "proposal", "two-stage" or "three-stage";
                or a dict of settings to change.
            execute: actions played from each plan.
            lead: plan the next chunk from what is seen this many steps before it is needed, as a robot does that moves
                on while it plans. `RealTimePolicy` really plans meanwhile; this shows what it does to the result.
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
        return Policy(checkpoint, self.terms, self.lead if lead is None else lead)

    def save(self, folder: str | Path, half: bool = False) -> None:
        """Write the checkpoint folder that `load_policy` reads; `half` in half precision, which is half the size."""
        if self.terms:
            raise ValueError(
                "a composed policy holds Python functions and cannot be saved; save the policy it came from."
            )
        save_checkpoint(self.checkpoint, folder, half)

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
        size = self._rows.size
        if mask.shape != (size,):
            raise ValueError(f"mask has shape {mask.shape}; the batch has {size} rows, so use ({size},).")
        self._rows.restart(mask, row_seeds(seed, size))

    def act(self, obs: Observation) -> np.ndarray:
        """The next action, in the environment's units and inside its action space.

        Takes one observation, or a batch with a leading axis. Plans when a row has played its chunk. A bad observation
        raises and changes nothing.
        """
        steps, batched = one_step(self.task, obs)
        rows = self._rows_for(steps)
        history, due = rows.pushed(steps), rows.due(self.lead)
        if np.any(due):
            plan = self.plan_windows(history, rows.seeds, rows.plans)
            rows.begin(due)
            rows.arrive(due, plan.actions)
        rows.remember(history)
        actions = rows.next_actions()
        return actions if batched else actions[0]

    def plan(self, obs: Observation) -> Plan:
        """Plan from the history and this observation without acting: what `act` would choose from, and how."""
        steps, batched = one_step(self.task, obs)
        rows = self._rows_for(steps)
        plan = self.plan_windows(rows.pushed(steps), rows.seeds, rows.plans)
        return plan if batched else Plan(*(value[0] for value in plan))

    def replan(self, obs: Observation) -> Plan:
        """Plan for a caller that plays the chunk itself: the observation joins the history, the next plan is new."""
        plan, (steps, _) = self.plan(obs), one_step(self.task, obs)
        rows = self._rows_for(steps)
        rows.remember(rows.pushed(steps))
        rows.begin(everyone := np.ones(rows.size, bool))
        rows.drop(everyone)
        return plan

    def plan_windows(self, windows: Mapping[str, np.ndarray], seeds: np.ndarray, plans: np.ndarray) -> Plan:
        """The compiled call below all of these, which remembers nothing.

        Args:
            windows: for each key (rows, n_ctx, ...), the observations to plan from.
            seeds: of each row's random stream.
            plans: the position in it, which is how many plans the row has made before.
        """
        return Plan(*map(np.asarray, self._plan_batch(self._params, self._normalizer, dict(windows), seeds, plans)))

    def traced_plan(self, key: Array, windows: Mapping[str, Array]) -> Plan:
        """The plan as a pure function of a random key and one window, with the weights inside; for other programs.

        Plan number i of an episode with seed s has the key `jax.random.fold_in(jax.random.key(s), i)`.
        """
        one = {name: value[None] for name, value in windows.items()}  # the program of a batch of one,
        params, normalizer = jax.lax.optimization_barrier((self._params, self._normalizer))  # unfolded: to the bit
        plan = jax.vmap(self._plan_with, (None, None, 0, 0))(params, normalizer, one, key[None])
        return Plan(*(part[0] for part in plan))

    def warmup(self, batch: int | None = None) -> None:
        """Compile the plan before the first deadline; `batch` is the number of rows, None for one observation."""
        blank = {
            key: np.zeros((batch or 1, self.task.n_ctx, *shape), np.float32)
            for key, shape in self.task.observation.items()
        }
        seeds = np.zeros(batch or 1, np.uint32)
        jax.block_until_ready(self._plan_batch(self._params, self._normalizer, blank, seeds, seeds))

    # Below the control loop

    def sample(self, obs: Observation, n: int, seed: int) -> np.ndarray:
        """Draw n chunks, (n, n_pred, action_dim), for a window of n_ctx observations or one (then repeated)."""
        key = jax.random.key(seed)
        return np.asarray(self._sample_one(self._params, self._normalizer, window(self.task, obs), key, n))

    def score(self, obs: Observation, samples: np.ndarray) -> np.ndarray:
        """The (relative) log-likelihood of given chunks, (n,), up to a constant of the context for energies."""
        samples = np.asarray(samples, np.float32)
        if samples.shape[1:] != self.task.event_shape:
            raise ValueError(
                f"samples have shape {samples.shape}; use (n, {', '.join(map(str, self.task.event_shape))})."
            )
        return np.asarray(self._score_one(self._params, self._normalizer, window(self.task, obs), samples))

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
        events = self._method.sample(params, codes, key, n, self._term(normalizer, window))
        return jax.vmap(lambda y: to_actions(normalizer, view.frame, y))(events)

    def _rank(self, params: Params, normalizer: Normalizer, window: Mapping[str, Array], samples: Array) -> Array:
        view = self.task.view(window)
        codes = encode(self._method, params, normalize(normalizer, view))
        events = jax.vmap(lambda actions: to_event(normalizer, view.frame, actions))(samples)
        return self._method.score(params, codes, events, self._term(normalizer, window))

    def _plan_one(
        self, params: Params, normalizer: Normalizer, window: Mapping[str, Array], seed: Array, count: Array
    ) -> Plan:
        return self._plan_with(params, normalizer, window, jax.random.fold_in(jax.random.key(seed), count))

    def _plan_with(self, params: Params, normalizer: Normalizer, window: Mapping[str, Array], key: Array) -> Plan:
        view = self.task.view(window)
        codes = encode(self._method, params, normalize(normalizer, view))
        term = self._term(normalizer, window)
        events, scores = self._method.candidates(params, codes, key, self.samples, term)
        return self._ranked(normalizer, view, events, scores)

    def _ranked(self, normalizer: Normalizer, view: View, events: Array, scores: Array) -> Plan:
        # A sample that left the finite numbers never wins. Far from all data every one may: the robot then does what
        # the data do on average, the origin of event coordinates, and never gets a NaN.
        finite = jnp.isfinite(scores) & jnp.all(jnp.isfinite(events), axis=1)
        events, scores = jnp.where(finite[:, None], events, 0.0), jnp.where(finite, scores, -jnp.inf)
        actions = jax.vmap(lambda y: self.task.clip(to_actions(normalizer, view.frame, y)))(events)
        return Plan(actions[jnp.argmax(scores)], actions, scores)

    def _rows_for(self, steps: Mapping[str, np.ndarray]) -> Rows:
        size = len(next(iter(steps.values())))
        if self._rows is None:
            self._rows = Rows.create(self.task, row_seeds(self._seeds, size))
        if self._rows.size != size:
            raise ValueError(f"obs has {size} rows; this episode began with {self._rows.size}. Call reset() first.")
        return self._rows


def check_lead(task: Task, lead: int) -> int:
    """The same number, where plans of this task reach that far."""
    most = min(task.execute, task.n_pred - task.execute)
    if not 0 <= lead <= most:
        raise ValueError(f"lead={lead}: use 0 to {most}; of {task.n_pred} planned actions {task.execute} are played.")
    return lead


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
    return Policy(policy.checkpoint, (*policy.terms, (term, weight)), policy.lead)


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
