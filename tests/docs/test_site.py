"""The site: built without a warning, whole, and without anything that is fetched from elsewhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.slow  # `make docs` builds the site too
FETCHED = re.compile(r"""<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=["']?(https?:)?//[^"'> ]+""")
INDEX = re.compile(r"//[\w.:-]+/(?:[\w./-]*/)?(?:simple|packages|pypi)/|(?:index-url|find-links)[ =]\S*//")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the built site. --strict fails for a broken link, and for a page that is in no menu (mkdocs.yml)."""
    folder = tmp_path_factory.mktemp("site")
    command = [ROOT / ".venv/bin/mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_nothing_is_fetched_from_elsewhere_and_no_package_index_is_named(site: Path) -> None:
    """Pages say PyPI; which address that is, each machine's settings say."""
    pages = {page.name: page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    pages["search"] = (site / "search/search_index.json").read_text(encoding="utf-8")
    found = [
        (name, match[0]) for name, text in pages.items() for one in (FETCHED, INDEX) for match in one.finditer(text)
    ]
    assert found == []
    styles = [path for path in site.rglob("*.css") if re.search(r"url\([\"']?https?://", path.read_text("utf-8"))]
    assert not styles, f"fonts or pictures of others: {styles}"
    assert not list(site.rglob("*.py")), "the programs of docs/figures/ are not pages"
