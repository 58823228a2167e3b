"""Which scene seeds are for learning, for choosing and for reporting. The only place that says so."""

from typing import Literal

__all__ = ["SELECTION_SEEDS", "TEST_SEEDS_START", "TRAIN_SEEDS", "seed_split"]

TRAIN_SEEDS = range(0, 50_000)
SELECTION_SEEDS = range(50_000, 51_000)  # tuning and picking checkpoints
TEST_SEEDS_START = 100_000  # reported numbers only; seeds in between are left unused


def seed_split(seed: int) -> Literal["train", "selection", "test"]:
    """Name the split of a scene seed; a seed that belongs to none is an error."""
    if seed in TRAIN_SEEDS:
        return "train"
    if seed in SELECTION_SEEDS:
        return "selection"
    if seed >= TEST_SEEDS_START:
        return "test"
    raise ValueError(
        f"seed={seed} belongs to no split: train {TRAIN_SEEDS.start}-{TRAIN_SEEDS.stop - 1}, "
        f"selection {SELECTION_SEEDS.start}-{SELECTION_SEEDS.stop - 1}, test from {TEST_SEEDS_START}"
    )
