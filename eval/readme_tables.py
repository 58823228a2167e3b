"""The tables of results in the README, from what was measured: `make tables` writes them, a test checks them."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rnce.eval.bench_ablations import ablations_markdown
from rnce.eval.bench_composition import composition_rows
from rnce.eval.bench_policies import results_markdown
from rnce.eval.bench_speed import latency_markdown
from rnce.eval.bench_synthetic import markdown as synthetic_markdown
from rnce.eval.files import replacing
from rnce.eval.protocols import PROTOCOLS
from rnce.eval.tables import markdown

RESULTS = Path(__file__).parent / "results"


def _of_task(task: str) -> Callable[[Any], str]:
    return lambda measured: results_markdown(PROTOCOLS[task], measured["results"])


# By the name of the results' file, which is also the name of the marks around the table.
TABLES: dict[str, Callable[[Any], str]] = {
    "pusht": _of_task("pusht"),
    "pusht_300": _of_task("pusht"),
    "pusht_ablations": lambda measured: ablations_markdown(measured["results"]),
    "latency": latency_markdown,
    "path_planning": _of_task("path-planning"),
    "path_planning_pretrained": _of_task("path-planning"),
    "composition": lambda measured: markdown(*composition_rows(measured["results"])),
    "synthetic": synthetic_markdown,
}


def renewed(page: str) -> str:
    """The page with every table as measured."""
    for name, table in TABLES.items():
        text = table(json.loads((RESULTS / f"{name}.json").read_text()))
        between, filled = rf"<!-- {name} -->\n.*?<!-- /{name} -->", f"<!-- {name} -->\n{text}\n<!-- /{name} -->"
        page, found = re.subn(between, lambda _, filled=filled: filled, page, flags=re.DOTALL)
        if found != 1:
            raise ValueError(f"the page has {found} places for the table <!-- {name} -->; it needs one.")
    return page


def main() -> None:
    """Write the tables into the README of this checkout."""
    readme = Path(__file__).resolve().parent.parent / "README.md"
    text = renewed(readme.read_text())
    with replacing(readme) as temporary:
        temporary.write_text(text)


if __name__ == "__main__":
    main()
