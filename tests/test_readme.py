"""Every Python block of every README runs, in the order of its page."""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(
    [
        ROOT / "README.md",
        *(p for part in ("rnce", "envs", "policies", "datasets", "eval") for p in (ROOT / part).rglob("README.md")),
    ]
)
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#]+)[^)]*\)")
DATA = Path(os.environ.get("RNCE_DATA", ROOT.parent / "shared" / "data"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_runs(page, tmp_path, monkeypatch):
    """One namespace per page. A page that says `<!-- needs the Push-T data -->` is skipped where they are absent."""
    text = page.read_text()
    if "<!-- needs the Push-T data -->" in text:
        if not DATA.is_dir():
            pytest.skip(f"{page.relative_to(ROOT)} needs the Push-T data: set RNCE_DATA to their folder")
        monkeypatch.setenv("RNCE_DATA", str(DATA))
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__readme__"}
    for block in BLOCK.finditer(text):
        line = text[: block.start()].count("\n") + 1  # so that a traceback points into the page
        exec(compile("\n" * line + block.group(1), str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


def test_commands_on_the_first_screen():
    first_screen = (ROOT / "README.md").read_text().splitlines()[:40]
    assert any(line.startswith("make demo") for line in first_screen)
    assert any(line.startswith("make test") for line in first_screen)


def test_pictures_are_small():
    for picture in (ROOT / "docs").iterdir():
        assert picture.stat().st_size < 500_000, picture


def test_tables_are_what_was_measured():
    from rnce.eval.readme_tables import TABLES, renewed

    page = (ROOT / "README.md").read_text()
    assert renewed(page) == page
    with pytest.raises(ValueError, match="has 0 places for the table <!-- pusht -->"):
        renewed("")
    assert set(re.findall(r"<!-- /(.*?) -->", page)) == set(TABLES)
