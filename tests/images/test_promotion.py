"""Promotion gives release tags to a digest that passed, and to no other; against a real registry on the loopback."""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from image_tools import promote, registry
from image_tools.catalog import ImageError, find_row
from image_tools.plan import labels

from .conftest import CATALOG
from .registries import running

pytestmark = pytest.mark.images

NAME = "plain-cu13"
CREATED = "org.opencontainers.image.created"
SMOKE = """#!/bin/sh
echo "a stand-in for the smoke test: {word}"
while [ $# -gt 0 ]; do
    [ "$1" = --json ] && echo '{{"verdict": "{word}", "require": "none", "framework": "plain", \
        "image": {{"name": "plain-cu13", "certificates": []}}, \
        "layers": [{{"name": "runtime", "state": "{word}"}}]}}' > "$2"
    shift
done
exit {code}
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A registry (Debian's docker-registry) on a free port of this machine; yields host:port."""
    with running(tmp_path_factory.mktemp("registry")) as address:
        yield address


@pytest.fixture
def make(client: object, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Return a function that builds a small image under the local tag of a row, whose smoke test ends with `code`."""
    tag = f"test.example.com/{NAME}:{CATALOG['release']}"
    row = labels(CATALOG, find_row(CATALOG, NAME))

    def of(code: int = 0, content: str = "", label: str = "") -> None:
        (tmp_path / "smoke").write_text(SMOKE.format(code=code, word="fail" if code else "pass"))
        (tmp_path / "Dockerfile").write_text(
            f"FROM {CATALOG['operating_system']}\nCOPY --chmod=755 smoke /usr/local/bin/gpu-smoke\n"
            f'RUN echo "{content}" > /content && touch -d @0 /content\n'
            + "".join(f'LABEL {key}="{value}"\n' for key, value in (row | {CREATED: label}).items())
        )
        subprocess.run(
            ["docker", "build", "--quiet", "--tag", tag, str(tmp_path)], check=True, stdout=subprocess.DEVNULL
        )

    yield of
    subprocess.run(["docker", "image", "rm", "--force", tag], check=False, capture_output=True)


def arguments(host: str, record: Path, digest: str = "") -> argparse.Namespace:
    """Return the arguments of `make promote`."""
    return argparse.Namespace(
        image=NAME,
        registry=f"{host}/ml",
        staging="",
        pushed="",
        source="test.example.com",
        digest=digest,
        record=str(record),
        require="none",
        smoke="",
        sign="",
        only_changed=False,
    )


def tags(host: str) -> set[str]:
    """Return the release tags; staging tags stand in a repository of their own."""
    command = ["skopeo", "list-tags", "--tls-verify=false", f"docker://{host}/ml/{NAME}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return set(json.loads(result.stdout)["Tags"]) if result.returncode == 0 else set()


def test_a_digest_that_fails_its_smoke_test_gets_no_tag(host: str, make: Callable[..., None], tmp_path: Path) -> None:
    """The failing image is pushed under its staging tag only, and no record is written."""
    make(code=1, content="fails")
    record = tmp_path / "released.json"
    before = tags(host)
    with pytest.raises(ImageError, match="the smoke test ended with 1; no tag was set"):
        promote.promote(CATALOG, arguments(host, record))
    assert tags(host) == before
    assert not record.exists()


def test_a_digest_that_passes_gets_both_tags_and_a_record(host: str, make: Callable[..., None], tmp_path: Path) -> None:
    """The dated and the moving tag are the very digest that was smoked; the record holds it, its sizes and its SBOM."""
    make(content="passes")
    record = tmp_path / "released.json"
    promote.promote(CATALOG, arguments(host, record))
    entry = json.loads(record.read_text())[NAME]
    for tag in (entry["tag"], CATALOG["release"]):
        assert registry.look_up(f"{host}/ml/{NAME}:{tag}").digest == entry["digest"], tag
    assert entry["tag"].startswith(f"{CATALOG['release']}.")
    assert entry["smoke"] == {"require": "none", "verdict": "pass", "on_a_gpu": False, "layers": {"runtime": "pass"}}
    assert entry["compressed_bytes"] == sum(entry["layers"]) > 1_000_000
    packages = json.loads((tmp_path / entry["sbom"]).read_text())["packages"]
    assert any(package["name"] == "bash" for package in packages), "the SBOM does not list Debian's packages"


def test_the_same_content_built_again_is_recognised(
    host: str, make: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An image with other build times but the same content is not pushed and not promoted again."""
    record = tmp_path / "released.json"
    make(content="same", label="monday")
    promote.promote(CATALOG, arguments(host, record))
    first = record.read_text()
    make(content="same", label="tuesday")
    capsys.readouterr()
    promote.promote(CATALOG, arguments(host, record))
    said = capsys.readouterr().out
    assert "the same content is there already" in said
    assert "nothing to do" in said
    assert record.read_text() == first


def test_rollback_is_promoting_an_older_digest(host: str, make: Callable[..., None], tmp_path: Path) -> None:
    """The moving tag goes back to the older digest; both dated tags stay what they were."""
    record = tmp_path / "released.json"
    entries = []
    for content in ("old", "new"):
        make(content=content)
        promote.promote(CATALOG, arguments(host, record))
        entries.append(json.loads(record.read_text())[NAME])
    old, new = entries
    assert old["digest"] != new["digest"]
    assert old["tag"] != new["tag"]
    promote.promote(CATALOG, arguments(host, record, digest=old["digest"]))
    assert json.loads(record.read_text())[NAME]["digest"] == old["digest"]
    for tag, digest in ((CATALOG["release"], old["digest"]), (old["tag"], old["digest"]), (new["tag"], new["digest"])):
        assert registry.look_up(f"{host}/ml/{NAME}:{tag}").digest == digest, tag


def test_an_unwritable_record_stops_before_anything_is_tagged(
    host: str, make: Callable[..., None], tmp_path: Path
) -> None:
    """Nothing is pushed or tagged when the record could not be written afterwards."""
    make(content="unrecorded")
    before = tags(host)
    with pytest.raises(ImageError, match="cannot write the release record"):
        promote.promote(CATALOG, arguments(host, tmp_path / "missing" / "released.json"))
    assert tags(host) == before


def test_a_registry_that_is_away_is_one_clear_line(make: Callable[..., None], tmp_path: Path) -> None:
    """An unreachable registry names the image and the reason; no record is written."""
    make(content="away")
    record = tmp_path / "released.json"
    with pytest.raises(ImageError, match="the registry does not answer") as failure:
        promote.promote(CATALOG, arguments("localhost:1", record))
    assert len(str(failure.value).splitlines()) == 1
    assert not record.exists()
