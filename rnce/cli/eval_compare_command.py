"""`rnce compare` and `rnce report`."""

from pathlib import Path
from typing import Annotated

import tyro


def compare(
    a: Annotated[str, tyro.conf.Positional],
    b: Annotated[str, tyro.conf.Positional],
    seeds: str = "50000:50025",
    rollouts: int = 1,
    samples: int | None = None,
    env: str | None = None,
    workers: int = 1,
    picture: Path | None = None,
    json: Path | None = None,
) -> None:
    """Compare two policies, paired over environments: the difference of each figure with its interval.

    Example: rnce compare out/nf.json out/r-nce.json --picture out/difference.png

    Args:
        a: A result file of rnce eval, or a policy, which is then evaluated.
        b: The other one.
        seeds: For policies: A:B for environments A … B − 1.
        rollouts: For policies: episodes per environment.
        samples: For policies: candidates ranked per plan.
        env: For policies that do not name their environment.
        workers: For policies: worker processes.
        picture: File for the picture of the task's main figure; PNG and PDF are written.
        json: File for the differences.
    """
    from rnce.eval.compare_run import compare_and_write
    from rnce.eval.run import parse_seeds

    options = {"seeds": parse_seeds(seeds), "rollouts": rollouts, "samples": [samples], "env": env, "workers": workers}
    print(compare_and_write(a, b, picture=picture, json=json, **options))


def report(
    results: Annotated[list[Path], tyro.conf.Positional],
    out: Path = Path("report.html"),
    videos: Path | None = None,
    title: str = "Evaluation",
) -> None:
    """Turn results into one self-contained HTML page: tables that sort, plots, videos.

    Example: rnce report out/*.json --videos out/videos --out out/report.html

    Args:
        results: Files written by rnce eval --json.
        out: The page.
        videos: Folder of MP4 files to embed.
        title: Heading of the page.
    """
    from rnce.eval.compare import load_results
    from rnce.eval.files import check_writable
    from rnce.eval.report import html_report, write_report

    check_writable(out)
    loaded = [result for path in results for result in load_results(path)]
    if not loaded:
        raise ValueError("name at least one result file of rnce eval --json")
    if videos is not None and not videos.is_dir():
        raise ValueError(f"--videos {videos} is not a folder")
    write_report(out, html_report(loaded, title, sorted(videos.glob("*.mp4")) if videos else ()))
    print(f"written: {out}")
