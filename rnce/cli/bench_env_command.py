"""`rnce bench env`."""

from pathlib import Path


def bench_env(
    peer_python: Path, episodes: int = 10, steps: int = 200, rounds: int = 3, json: Path | None = None
) -> None:
    """Time a step of Push-T against gym-pusht, with the same starts and actions.

    Example: rnce bench env --peer-python /tmp/peer/bin/python

    gym-pusht pins pymunk < 7, so it has its own virtual environment:
    python3 -m venv /tmp/peer && /tmp/peer/bin/pip install gym-pusht==0.1.8

    Args:
        peer_python: Interpreter of the virtual environment that has gym-pusht.
        episodes: Episodes in a round.
        steps: Steps in an episode.
        rounds: Rounds, in which both take turns.
        json: File for the figures.
    """
    from tqdm import tqdm

    from rnce.eval import bench_env as bench
    from rnce.eval.files import check_writable, write_json

    if json:
        check_writable(json)
    comparisons = bench.compare(peer_python, episodes, steps, rounds)
    rows = list(tqdm(comparisons, total=len(bench.OBS_TYPES), desc="observation types", leave=False))
    print(bench.as_table(rows))
    if json:
        write_json(json, bench.as_json(rows))
