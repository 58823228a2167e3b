"""Training recipes: what is trained on what, in which order. Pure data, saved with the weights."""

import dataclasses
from typing import Any, Literal

import optax


@dataclasses.dataclass(frozen=True)
class Optimizer:
    """AdamW with a learning-rate schedule over the steps of its phase."""

    learning_rate: float = 1e-3
    schedule: Literal["constant", "cosine"] = "cosine"
    warmup: int = 0
    final_fraction: float = 0.0
    weight_decay: float = 0.0
    clip: float = 1.0  # of the global gradient norm

    def create(self, steps: int) -> optax.GradientTransformation:
        """The optax transformation for a phase of this many steps."""
        rate = self.learning_rate
        if self.schedule == "constant":
            schedule = optax.constant_schedule(rate)
        elif self.schedule == "cosine":
            warmup = min(self.warmup, max(steps - 1, 0))
            first = 0.0 if warmup else rate
            schedule = optax.warmup_cosine_decay_schedule(
                first, rate, warmup, max(steps, 1), rate * self.final_fraction
            )
        else:
            raise ValueError(f"schedule={self.schedule!r}: use 'constant' or 'cosine'.")
        return optax.chain(optax.clip_by_global_norm(self.clip), optax.adamw(schedule, weight_decay=self.weight_decay))


@dataclasses.dataclass(frozen=True)
class Phase:
    """Steps in every round that minimise one loss in the parameters of one network."""

    trains: str
    loss: str
    optimizer: Optimizer = Optimizer()
    steps_per_round: int = 1
    batch_size: int = 128


@dataclasses.dataclass(frozen=True)
class Stage:
    """Rounds of the same phases. Optimisers start afresh with a stage."""

    name: str
    rounds: int
    phases: tuple[Phase, ...]


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Everything training needs beside the data.

    Attributes:
        method_name: one of the registered methods.
        method: its settings.
        stages: run one after the other.
        perturbation: standard deviation of the Gaussian noise on actions and on the positions they are relative to,
            in action units: annealed from the first to the second value over the first half of all rounds.
        reflect: mirror half of all examples (path planning).
        whiten: event coordinates from the data's principal axes; otherwise one common scale.
        ema: decay of the parameters' moving average, which is what ships; 0 for none.
        samples: ranked by the policy unless told otherwise.
        rounds_per_block: rounds in one compiled call, between two lines of metrics.
    """

    method_name: str
    method: Any
    stages: tuple[Stage, ...]
    perturbation: tuple[float, float] = (0.0, 0.0)
    reflect: bool = False
    whiten: bool = True
    ema: float = 0.0
    samples: int = 8
    rounds_per_block: int = 100

    @property
    def rounds(self) -> int:
        """Rounds of all stages."""
        return sum(stage.rounds for stage in self.stages)


def scaled(recipe: Recipe, rounds: int) -> Recipe:
    """The same recipe with another number of rounds in its last stage (and earlier ones in proportion)."""
    factor = rounds / recipe.rounds
    stages = [dataclasses.replace(stage, rounds=max(1, round(stage.rounds * factor))) for stage in recipe.stages]
    return dataclasses.replace(recipe, stages=tuple(stages))
