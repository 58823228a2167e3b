"""`rnce demo`."""

from pathlib import Path


def demo(out: Path = Path("out/demo"), episodes: int = 3, json: Path | None = None) -> None:
    """Roll a policy in both environments; write a picture and a GIF of each.

    Example: rnce demo --out out/demo

    Args:
        out: Folder for the pictures.
        episodes: Episodes per environment; the first is pictured.
        json: File for the figures.
    """
    if episodes < 1:
        raise ValueError(f"--episodes must be 1 or more, got {episodes}")
    from rnce.eval.demo import run_demo, table
    from rnce.eval.files import check_writable, write_json

    check_writable(out / "pusht.png")
    results = run_demo(out, episodes)
    print(table(results))
    if json is not None:
        write_json(json, [{"env": r.task.env_id, "policy": r.policy, "metrics": r.metrics} for r in results])
