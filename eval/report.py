"""Results as one HTML file that needs nothing else: tables that sort, plots, videos, all inside it."""

import base64
import html
import io
import itertools
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from rnce.eval.compare import compare, label, verdict
from rnce.eval.files import replacing
from rnce.eval.metrics import LOWER_IS_BETTER, main_metric
from rnce.eval.plots import paired, per_scene_bars, ranking_curves
from rnce.eval.tables import bounds

_STYLE = """
:root { color-scheme: light dark; --line: #8885; --faint: #8882; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .5rem 0 1.5rem; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .7rem; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
th { cursor: pointer; user-select: none; }
th[aria-sort=ascending]::after { content: " ▲"; }
th[aria-sort=descending]::after { content: " ▼"; }
tr.paper { background: var(--faint); font-style: italic; }
.wide { overflow-x: auto; }
img, video { max-width: 100%; background: white; }
figure { display: inline-block; margin: 0 1rem 1rem 0; vertical-align: top; }
.videos video { width: 15rem; }
figcaption { font-size: .85rem; opacity: .8; }
"""

# A click on a column's head sorts by it, a second click the other way; cells carry the number in data-value.
_SCRIPT = """
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.addEventListener("click", () => {
    const ascending = head.getAttribute("aria-sort") !== "ascending";
    heads.forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    const key = row => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const order = (a, b) => {
      const [x, y] = [key(a), key(b)], [m, n] = [parseFloat(x), parseFloat(y)];
      return isNaN(m) || isNaN(n) ? isNaN(m) - isNaN(n) || x.localeCompare(y) : m - n;
    };
    const rows = [...table.tBodies[0].rows].sort((a, b) => ascending ? order(a, b) : order(b, a));
    table.tBodies[0].append(...rows);
  }));
}
"""


def html_report(
    results: Sequence[dict],
    title: str = "Evaluation",
    videos: Sequence[Path] = (),
    figures: dict[str, Figure] | None = None,
    paper: dict | None = None,
) -> str:
    """The page, results grouped by environment; `paper` is a task of paper_numbers.json, shown beside and marked."""
    parts = [f"<h1>{html.escape(title)}</h1>"]
    for env in dict.fromkeys(result["env"] for result in results):
        parts += _environment([result for result in results if result["env"] == env], paper)
    for caption, figure in (figures or {}).items():
        parts.append(_figure(figure, caption))
    if videos:
        parts.append(f"<h2>Videos</h2><div class=videos>{''.join(map(_video, videos))}</div>")
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width'><link rel=icon href='data:,'>"
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body>{''.join(parts)}<script>{_SCRIPT}</script></body></html>\n"
    )


def write_report(path: Path, page: str) -> None:
    """Write the page, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(page)


def _environment(results: Sequence[dict], paper: dict | None) -> list[str]:
    env, metric = results[0]["env"], main_metric(results[0]["env"])
    parts = [f"<h2>{html.escape(env)}</h2>", _protocol(results), _results_table(results, paper)]
    with_metric = [result for result in results if metric in result["metrics"]]
    if not with_metric:
        return [*parts, "<p>No episode was finished.</p>"]
    seeds = with_metric[0]["per_seed"]["seed"]
    if len(seeds) <= 50:
        same = [result for result in with_metric if result["per_seed"]["seed"] == seeds]
        parts.append(_figure(per_scene_bars(same, metric), f"{metric} per environment"))
    if len({result["samples"] for result in with_metric}) > 1:
        parts.append(_figure(ranking_curves(with_metric, metric), "what ranking brings"))
    return [*parts, *_comparisons(with_metric, metric)]


def _protocol(results: Sequence[dict]) -> str:
    lines = dict.fromkeys(
        f"seeds {r['seeds'][0]}–{r['seeds'][1] - 1}, {r['rollouts']} rollouts each"
        + (f", {r['max_steps']} steps" if r.get("max_steps") else "")
        for r in results
    )
    return (
        f"<p>{html.escape('; '.join(lines))}. Each figure is followed by its 95 % interval: the paper's, which treats "
        "all episodes as independent, and one that draws whole environments.</p>"
    )


def _results_table(results: Sequence[dict], paper: dict | None) -> str:
    metrics = list(dict.fromkeys(name for result in results for name in result["metrics"]))
    header = ["policy", "ℓ", "parameters", "episodes", "failed", "plan p50 ms", "p95 ms"]
    for name in metrics:
        header += [name + (" ↓" if name in LOWER_IS_BETTER else ""), "95 %", "95 % (environments)"]
    rows = []
    for result in results:
        cells = [
            _cell(label(result)),
            _cell(result["samples"]),
            _cell(result["params"], "{:,}"),
            _cell(result["episodes"]),
            _cell(len(result["failed"])),
            _cell(result["plan_ms"]["p50"], "{:.2f}"),
            _cell(result["plan_ms"]["p95"], "{:.2f}"),
        ]
        for name in metrics:
            summary = result["metrics"].get(name)
            cells += (
                [_cell(None)] * 3
                if summary is None
                else [
                    _cell(summary["mean"], "{:.4f}"),
                    _cell(bounds(summary, "ci95")),
                    _cell(bounds(summary, "ci95_environments")),
                ]
            )
        rows.append(f"<tr>{''.join(cells)}</tr>")
    rows += _paper_rows(paper, metrics)
    return _table(header, rows)


def _paper_rows(paper: dict | None, metrics: Sequence[str]) -> list[str]:
    rows = []
    for method, figures in (paper or {}).get("methods", {}).items():
        for samples in dict.fromkeys(count for by_count in figures.values() for count in by_count):
            cells = [_cell(f"{method} (the paper's)"), _cell(int(samples)), *[_cell(None)] * 5]
            for name in metrics:
                mean, half = figures.get(name, {}).get(samples, (None, None))
                interval = None if mean is None else f"[{mean - half:.3f}, {mean + half:.3f}]"
                cells += [_cell(mean, "{:.3f}"), _cell(interval), _cell(None)]
            rows.append(f"<tr class=paper>{''.join(cells)}</tr>")
    return rows


def _comparisons(results: Sequence[dict], metric: str) -> list[str]:
    """Every pair with the same number of candidates, on the environments they share."""
    rows, pictures = [], []
    for a, b in itertools.combinations(results, 2):
        if a["samples"] != b["samples"] and a["policy"] != b["policy"]:
            continue
        try:
            difference = compare(a, b)[metric]
        except (ValueError, KeyError):
            continue  # no environments in common
        interval = f"[{difference.interval.low:+.4f}, {difference.interval.high:+.4f}]"
        cells = [
            _cell(label(a)),
            _cell(label(b)),
            _cell(difference.mean, "{:+.4f}"),
            _cell(interval),
            _cell(difference.p_value, "{:.4f}"),
            _cell(verdict(metric, difference)),
        ]
        rows.append(f"<tr>{''.join(cells)}</tr>")
        pictures.append(_figure(paired(a, b, metric, difference), f"{label(a)} against {label(b)}"))
    if not rows:
        return []
    header = ["A", "B", f"A − B ({metric})", "95 % (environments)", "p", "verdict"]
    shown = "".join(pictures[:6])
    return ["<h3>Paired comparisons</h3>", _table(header, rows), shown]


def _table(header: Sequence[str], rows: Sequence[str]) -> str:
    head = "".join(f"<th scope=col>{html.escape(name)}</th>" for name in header)
    return f"<div class=wide><table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"


def _cell(value: object, form: str = "{}") -> str:
    if value is None:
        return "<td></td>"
    number = f' data-value="{value}"' if isinstance(value, int | float) else ""
    return f"<td{number}>{html.escape(form.format(value))}</td>"


def _figure(figure: Figure, caption: str) -> str:
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=120)
    text = html.escape(caption)
    return (
        f'<figure><img alt="{text}" src="{_data("image/png", png.getvalue())}"><figcaption>{text}</figcaption></figure>'
    )


def _video(path: Path) -> str:
    source = _data("video/mp4", path.read_bytes())
    return (
        f'<figure><video controls loop muted src="{source}"></video>'
        f"<figcaption>{html.escape(path.stem)}</figcaption></figure>"
    )


def _data(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
