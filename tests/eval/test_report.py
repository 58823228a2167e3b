"""The page is opened in a real browser: nothing on the console, every picture and video loads, tables sort."""

import json
import re
import shutil
import subprocess

import pytest

from rnce.eval.evaluate import evaluate
from rnce.eval.report import html_report
from rnce.eval.settings import Settings
from rnce.eval.video import write_videos

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

# Runs in the page after everything has loaded and leaves what it saw in the document.
PROBE = """
<script>
window.problems = [];
window.addEventListener("error", event => window.problems.push(String(event.message)));
window.addEventListener("unhandledrejection", event => window.problems.push(String(event.reason)));
</script>
"""
CHECKS = """
<pre id=seen></pre><script>
window.addEventListener("load", async () => {
  const column = (table, i) => [...table.tBodies[0].rows].map(row => row.cells[i].textContent);
  const tables = [...document.querySelectorAll("table")].map(table => {
    const head = [...table.tHead.rows[0].cells];
    return head.map((cell, i) => {
      cell.click(); const up = column(table, i), upSort = cell.getAttribute("aria-sort");
      cell.click(); const down = column(table, i), downSort = cell.getAttribute("aria-sort");
      return {name: cell.textContent, up, down, upSort, downSort};
    });
  });
  const videos = [...document.querySelectorAll("video")];
  await Promise.all(videos.map(video => video.readyState >= 2 ? 0 : new Promise(done => {
    video.addEventListener("loadeddata", done); video.addEventListener("error", done); video.load();
  })));
  document.getElementById("seen").textContent = JSON.stringify({
    problems: window.problems,
    images: [...document.images].map(image => image.complete && image.naturalWidth > 0),
    videos: videos.map(video => video.readyState >= 2 && video.duration > 1),
    outside: [...document.querySelectorAll("[src], [href]")]
      .map(e => e.getAttribute("src") ?? e.getAttribute("href")).filter(url => !url.startsWith("data:")),
    tables,
  });
});
</script>
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    names = ["peer_policies:Wanderer", "rnce.eval.scripted:straight_line"]
    return [
        evaluate(Settings(name, "PathPlanning-v0", (50_000, 50_006), rollouts=3, keep_actions=2), progress=False)
        for name in names
    ]


@pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX's, when another test has imported it
def test_the_page_works_in_a_browser(results, tmp_path):
    videos = write_videos(results[0], tmp_path, progress=False)
    assert len(videos) == 2
    page = html_report([result.to_json() for result in results], "A & B <test>", videos)
    path = tmp_path / "page.html"
    path.write_text(page.replace("<style>", PROBE + "<style>", 1).replace("</body>", CHECKS + "</body>", 1))
    done = subprocess.run(
        [
            *(str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"),
            *("--virtual-time-budget=20000", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", path.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "CONSOLE" not in done.stderr, [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    match = re.search(r"<pre id=\"?seen\"?>(.*?)</pre>", done.stdout, re.S)
    assert match, done.stdout[-2000:]
    seen = json.loads(match[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert seen["problems"] == []
    assert seen["outside"] == []
    assert len(seen["images"]) >= 2
    assert all(seen["images"])
    assert seen["videos"] == [True, True]
    assert len(seen["tables"]) == 2
    for column in seen["tables"][0]:
        assert sorted(column["up"]) == sorted(column["down"])
        assert (column["upSort"], column["downSort"]) == ("ascending", "descending")
    cost = next(column for column in seen["tables"][0] if column["name"] == "cost ↓")
    assert cost["up"] == sorted(cost["up"], key=float) == cost["down"][::-1]


def test_names_cannot_break_the_page(results):
    document = results[0].to_json() | {"policy": "<script>alert(1)</script>"}
    page = html_report([document], "<b>title</b>")
    assert "<script>alert" not in page
    assert "<b>title" not in page


def test_papers_rows_are_marked(results):
    paper = {"methods": {"nf": {"collision": {"48": [0.054, 0.005]}}}}
    page = html_report([results[0].to_json()], paper=paper)
    assert "nf (the paper&#x27;s)" in page
    assert "[0.049, 0.059]" in page


def test_a_result_without_episodes_is_said():
    nothing = evaluate(Settings("peer_policies:WrongShape", "PathPlanning-v0", (0, 2)), progress=False)
    assert "No episode was finished" in html_report([nothing.to_json()])
