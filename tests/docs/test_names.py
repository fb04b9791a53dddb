"""What the documentation names exists: scripts, targets, options and paths, in blocks and in the text."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator

import pytest

from docs.figures.blocks import pages
from tests.conftest import ROOT
from tests.docs.blocks import SPAN, all_blocks, prose, written
from tests.docs.names import faults

BLOCKS = [block for blocks in all_blocks().values() for block in blocks]
PHRASES = (  # readers had to translate them
    r"(?i)\b(stands|is told|told by|tells|goes on|(?<!there )is no (?!longer)[a-z]+"
    r"|beside|weakness(?:es)?|whoever|nobody"
    r"|in its place|in place of|of its own|such as \d|asked for|asks for|the way to|what is not|told|somebody"
    r"|cannot be had|is there already)\b"
)


def test_every_block_is_valid_bash_and_has_a_known_mark() -> None:
    text = "\n".join(f"{{ :; {block.text}\n}}" for block in BLOCKS)
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    assert {block.mark for block in BLOCKS} <= {"run", "start", "not run"}
    pages = "".join(page.read_text(encoding="utf-8") for page in written())
    assert pages.count("```bash\n") == len(BLOCKS), "a block of bash is not recognised"


def test_pages_name_only_what_exists() -> None:
    named = [(block.where, line) for block in BLOCKS for line in block.text.replace("\\\n", " ").splitlines()]
    named += [(page.name, span) for page in written() for span in SPAN.findall(prose(page.read_text(encoding="utf-8")))]
    wrong = [f"{where}: {text.strip()}: {fault}" for where, text in named for fault in faults(text)]
    assert not wrong, "\n".join(wrong)


def test_links_of_the_readme_and_of_contributing_lead_somewhere() -> None:
    """`make docs` checks those of the site."""
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        assert [link for link in links if not (ROOT / link).exists()] == [], page.name


def test_pages_use_the_words_of_the_field() -> None:
    texts = {page: page.read_text(encoding="utf-8") for page in pages() if page.parent.name != "decisions"}
    texts[ROOT / "CHANGELOG.md"] = (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1]  # of the next release
    wrong = [f"{page}: {hit[0]}" for page in texts for hit in re.finditer(PHRASES, SPAN.sub("", prose(texts[page])))]
    assert not wrong, "\n".join(wrong)


def shipped() -> Iterator[tuple[str, str]]:
    """Yield each text that owners and platform teams see: files of templates, questions, messages of programs."""
    for path in [ROOT / "copier.yml", *sorted((ROOT / "templates").rglob("*"))]:
        if path.is_file() and "locks" not in path.parts and path.suffix not in (".whl", ".npz", ".lock", ".pyc"):
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
    for room in ("runtime/src", "hooks", "tools", "base-images"):
        for path in sorted((ROOT / room).rglob("*.toml")):
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        for path in sorted((ROOT / room).rglob("*.py")):
            name, tree = path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))
            docstrings = {
                id(node.body[0].value)
                for node in ast.walk(tree)
                if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
                and isinstance(node.body[0], ast.Expr)
            }
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                    yield f"{name}:{node.lineno}", node.value if " " in node.value else ""


@pytest.mark.slow
def test_templates_questions_and_messages_use_them_too() -> None:
    wrong = [
        f"{name}: {text[max(0, hit.start() - 40) : hit.end() + 20]!r}"
        for name, text in shipped()
        for hit in re.finditer(PHRASES, text)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_first_pages_have_short_sentences() -> None:
    for page in (ROOT / "README.md", *sorted((ROOT / "docs/tutorials").glob("*.md"))):
        text = re.sub(r"(?s)<!--.*?-->|\]\([^)]*\)", "", prose(page.read_text(encoding="utf-8")))
        sentences = re.split(r"(?<=[.:?!])\s|\n\n|\n[-|]|\|", text)
        long = [sentence for sentence in sentences if len(sentence.split()) > 30]
        assert not long, f"{page.relative_to(ROOT)}: sentences of more than 30 words: {long}"


def test_the_pages_stay_short() -> None:
    """Words as `wc -w` counts them, without decisions and CONTRIBUTING.md."""
    count = {
        page.relative_to(ROOT).as_posix(): len(page.read_text(encoding="utf-8").split())
        for page in pages()
        if page.parent.name != "decisions" and page.name != "CONTRIBUTING.md"
    }
    longest = sorted(count, key=lambda name: -count[name])[:5]
    assert sum(count.values()) <= 20_000, f"{sum(count.values())} words; the longest pages: {longest}"
    for name in ("docs/service.md", "docs/batch.md"):
        assert count[name] < 2_500, f"{name}: {count[name]} words"
