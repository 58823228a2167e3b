"""The evaluation protocols of the two tasks, and the paper's numbers beside which results are shown."""

import importlib.resources
import json
from dataclasses import dataclass

TEST_SEEDS = 100_000  # from here on for reported numbers only
SELECTION_SEEDS = 50_000  # up to 50,999, for choosing


@dataclass(frozen=True)
class Protocol:
    """How a task's policies are measured for the table."""

    task: str
    env: str
    n_seeds: int
    rollouts: int
    samples: tuple[int, ...]
    """candidates ranked per plan: the paper's number first"""
    metrics: tuple[str, ...]
    """columns of the table, the one it is ranked by first"""
    pictured: int
    """environments drawn in the panels"""
    kept: int | None = None
    """environments whose actions are kept, for pictures chosen afterwards; as many as are drawn if None"""
    first_seed: int = TEST_SEEDS

    @property
    def seeds(self) -> tuple[int, int]:
        """First and one past the last."""
        return self.first_seed, self.first_seed + self.n_seeds


PROTOCOLS = {
    "path-planning": Protocol(
        "path-planning", "PathPlanning-v0", 25, 384, (48, 1), ("collision", "cost", "goal_distance"), 3
    ),
    "pusht": Protocol("pusht", "PushT-v0", 256, 4, (8, 1), ("score", "final_coverage", "success"), 4, kept=256),
}


def paper_numbers(task: str) -> dict:
    """The paper's figures of a task: {"protocol", "methods": {method: {metric: {samples: [mean, half width]}}}}."""
    text = importlib.resources.files("rnce.eval").joinpath("paper_numbers.json").read_text()
    return json.loads(text)[task]
