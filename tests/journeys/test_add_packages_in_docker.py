"""The end of the same page on the image plain-cu13, with smaller packages: `make test-images`. In order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.journeys import test_add_packages
from tests.journeys.blocks import edited
from tests.journeys.child import Child

TYPE = "service"
PAGE = test_add_packages.PAGE
pytestmark = [pytest.mark.images, pytest.mark.row("plain-cu13")]


@pytest.fixture(scope="module")
def image(child: Child) -> Iterator[str]:
    """Return the image of my repository, which is built with a package of PyPI and one of Debian."""
    dockerfile = child.path("Dockerfile")
    [line] = [block.text for block in child.blocks if block.value == "Dockerfile"]
    dockerfile.write_text(edited(dockerfile.read_text(), line.replace("ffmpeg", "tree")))
    child.sh("""sed -i 's/"numpy>=2"/&, "humanize"/' pyproject.toml && scripts/lock && scripts/build""")
    [name] = child.sh("docker image ls --format '{{.Repository}}:{{.Tag}}' '*/*/parcel-prices'").split()
    yield name
    child.sh(f"docker image rm --force {name}")


def test_my_packages_are_in_the_image(child: Child, image: str) -> None:
    child.sh(f"docker run --rm {image} python -c 'import humanize'")
    child.sh(f"docker run --rm {image} tree --version", expect="tree v")


def test_a_change_of_my_code_changes_only_the_layers_of_my_code(child: Child, image: str) -> None:
    """Those of src/ and its metadata, the last two; else each change would cost every node gigabytes."""
    inspect = f"docker image inspect --format '{{{{range .RootFS.Layers}}}}{{{{println .}}}}{{{{end}}}}' {image}"
    before = child.sh(inspect).split()
    child.sh("echo '# changed' >>src/parcel_prices/model.py && scripts/build")
    after = child.sh(inspect).split()
    assert [one for one, other in zip(before, after, strict=True) if one != other] == before[-2:]
