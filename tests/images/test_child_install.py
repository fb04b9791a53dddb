"""base-install adds a child's packages to an image and refuses what would change the image."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker.models.containers import Container
from image_tools.catalog import installed_pins

from .conftest import CATALOG, ROWS, Built

pytestmark = pytest.mark.images

ORDINARY = ["click", "fastapi", "httpx", "orjson", "pandas", "rich", "pyarrow", "pydantic", "tqdm", "uvicorn"]


@pytest.fixture
def container(image: Built, tmp_path: Path) -> Iterator[Container]:
    """A running container of the image with a network, as root: the place of a child's build step."""
    options = {"user": "root", "network_mode": "host", "volumes": {str(tmp_path): {"bind": "/work", "mode": "rw"}}}
    made = image.client.containers.run(image.tag, ["sleep", "600"], detach=True, **options)
    yield made
    made.remove(force=True)


def install(container: Container, folder: Path, lock: str) -> tuple[int, str]:
    """Run base-install on a lock; return its exit code and all it printed. folder: /work of the container."""
    (folder / "requirements.lock").write_text(lock)
    code, output = container.exec_run(["base-install", "/work/requirements.lock"])
    return code, output.decode()


def resolve(name: str, packages: list[str], folder: Path) -> str:
    """Return a hashed lock of the packages under the image's versions, as scripts/lock of a child makes it."""
    (folder / "requirements.in").write_text("\n".join(packages))
    pins = installed_pins(CATALOG, name).values()
    (folder / "constraints.txt").write_text("".join(f"{pin.name}=={pin.version}\n" for pin in pins))
    uv = str(Path(sys.executable).with_name("uv"))
    command = [uv, "pip", "compile", "--quiet", "--universal", "--generate-hashes", "--no-header"]
    command += ["--no-annotate", "--python-version", "3.11", "--constraints", "constraints.txt"]
    subprocess.run([*command, "requirements.in", "--output-file", "requirements.lock"], cwd=folder, check=True)
    return (folder / "requirements.lock").read_text()


def test_ten_ordinary_packages_change_nothing_of_the_base(image: Built, container: Container, tmp_path: Path) -> None:
    """Ten packages install, every file of the base stays as it was, and no cache is left."""
    before = set(container.exec_run(["find", "/opt", "/usr", "/etc", "-type", "f"]).output.decode().split("\n"))
    code, output = install(container, tmp_path, resolve(image.name, ORDINARY, tmp_path))
    assert code == 0, output
    diff = container.diff()
    touched = [entry["Path"] for entry in diff if entry["Kind"] != 1 and entry["Path"] in before]
    assert not touched, f"{image.name}: files of the base changed: {touched[:10]}"
    added = [entry["Path"] for entry in diff if entry["Kind"] == 1]
    outside = [path for path in added if not path.startswith(("/opt/env", "/work", "/var/cache/base-install"))]
    assert not outside, f"{image.name}: left outside the environment: {outside[:10]}"
    code, output = container.exec_run(
        ["python", "-c", "import pandas, pyarrow, fastapi, httpx; print('fine')"], user="app"
    )
    assert (code, output.decode().strip()) == (0, "fine"), output.decode()


# Row: packages, a program, and the last words that it prints on a CPU. RAPIDS and FlashInfer need packages of NVIDIA's
# as DALI does. DALI imports packaging and does not declare it.
JAX = "import jax, jax_cuda{0}_plugin; print(jax.numpy.ones((8, 8)).sum(), jax.default_backend())"
DALI = "import nvidia.dali.types as types; print(types.DALIDataType.FLOAT.name)"
ADDED = [
    ("plain-cu13", ["nvidia-dali-cuda130", "packaging"], DALI, "FLOAT"),
    ("plain-cu13", ["jax[cuda13]"], JAX.format(13), "64.0 cpu"),
    ("plain-cu12", ["jax[cuda12]"], JAX.format(12), "64.0 cpu"),
]


@pytest.mark.parametrize(
    ("image", "packages", "program", "words"),
    [case for case in ADDED if case[0] in ROWS],
    indirect=["image"],
    scope="session",
)
def test_what_does_not_conflict_installs_and_computes(
    image: Built, container: Container, packages: list[str], program: str, words: str, tmp_path: Path
) -> None:
    """Packages of NVIDIA's that the image does not contain are accepted; no CUDA library comes a second time."""
    code, output = install(container, tmp_path, resolve(image.name, packages, tmp_path))
    assert code == 0, f"{image.name}: {output}"
    code, output = container.exec_run(["python", "-c", program], user="app", environment={"JAX_PLATFORMS": "cpu"})
    assert (code, " ".join(output.decode().split()).endswith(words)) == (0, True), output.decode()
