"""The batch job of the runtime around a stand-in model, in process and as a process of its own."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tests.batch import standin_model
from tests.conftest import ROOT
from tests.processes import Process
from tests.shared import RUNTIME

PACKAGE = "row_counter"
JOB = ("-m", "gpu_repo_runtime.batch", "topic_finder")  # the command of a rendered child
WAY = ROOT / "templates" / "batch" / "src" / "{{package_name}}" / "job" / "__init__.py"


@dataclass
class Output:
    """An output folder."""

    path: Path

    @property
    def complete(self) -> bool:
        """Tell whether the job says that it is done."""
        return (self.path / "_SUCCESS").exists()

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows in the order of the input."""
        assert self.complete, f"{self.path.name} has no _SUCCESS"
        table = ds.dataset(self.path, format="parquet").to_table()
        return table.sort_by([("file", "ascending"), ("row", "ascending")]).to_pylist()

    def quarantined(self) -> list[dict[str, Any]]:
        """Return the rows that were put aside."""
        files = sorted((self.path / "_quarantine").glob("*.parquet"))
        return [row for file in files for row in pq.read_table(file).to_pylist()]

    def digest(self) -> dict[str, str]:
        """Return the checksum of every file of the result and of its manifest."""
        files = [*(self.path / "data").iterdir(), self.path / "_manifest.json", *(self.path / "_quarantine").glob("*")]
        return {f.relative_to(self.path).as_posix(): hashlib.sha256(f.read_bytes()).hexdigest() for f in sorted(files)}

    def read_json(self, name: str) -> Any:
        """Return the content of a JSON file beside the result."""
        return json.loads((self.path / name).read_text())


@dataclass
class Job:
    """The job around the package of a child."""

    child: Path
    package: str = PACKAGE

    def __call__(self, *arguments: object) -> int:
        """Run it in this process; return its exit code."""
        try:
            return self.main("run", *arguments, "--device", "cpu")
        except SystemExit as ended:
            return int(ended.code or 0)

    def main(self, *arguments: object) -> int:
        """Call the command line in this process; return its exit code."""
        code: int = self.module("cli").main(self.package, list(map(str, arguments)))
        return code

    def module(self, name: str) -> ModuleType:
        """Return a module of the job."""
        return importlib.import_module(f"gpu_repo_runtime.batch.{name}")

    @property
    def path(self) -> str:
        """Return the PYTHONPATH with which Python finds the child's package and the runtime."""
        return f"{self.child / 'src'}{os.pathsep}{RUNTIME}"

    def start(self, *arguments: object, **environment: str) -> subprocess.Popen[str]:
        """Start it as a process."""
        own = {"PYTHONPATH": self.path, "DEVICE": "cpu"}
        around = os.environ | own | environment
        options = {"env": around, "stderr": subprocess.PIPE}
        return Process(f"{self.package}.job", "run", *map(str, arguments), **options)


@pytest.fixture(scope="session")
def child(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what the job needs of a repository: a package with the stand-in as its model.py."""
    folder = tmp_path_factory.mktemp("batch") / "child"
    package = folder / "src" / PACKAGE
    (package / "job").mkdir(parents=True)
    (package / "__init__.py").touch()
    shutil.copy(standin_model.__file__, package / "model.py")
    shutil.copy(WAY, package / "job" / "__init__.py")
    return folder


@pytest.fixture(scope="session")
def job(child: Path) -> Job:
    """Return the job."""
    if str(child / "src") not in sys.path:
        sys.path.insert(0, str(child / "src"))
    return Job(child)


@pytest.fixture
def model(job: Job) -> Iterator[type]:
    """Return the class of the child's model, for a test to change."""
    sys.modules.pop(f"{PACKAGE}.model", None)
    yield __import__(f"{PACKAGE}.model", fromlist=["Model"]).Model
    sys.modules.pop(f"{PACKAGE}.model", None)


@pytest.fixture
def out(tmp_path: Path) -> Output:
    """Return an output folder that does not exist yet."""
    return Output(tmp_path / "out")


def texts(count: int) -> list[str]:
    """Return texts of very uneven length, the same each time."""
    return [f"text number {number} " + "word " * (number * 7919 % 97) for number in range(count)]


def write_jsonl(path: Path, lines: list[str]) -> Path:
    """Write texts as JSON Lines."""
    path.write_text("".join(json.dumps({"id": n, "text": t}) + "\n" for n, t in enumerate(lines)), encoding="utf-8")
    return path


def write_parquet(path: Path, lines: list[str], group: int = 100) -> Path:
    """Write texts as Parquet with row groups of `group` rows."""
    pq.write_table(pa.table({"id": range(len(lines)), "text": lines}), path, row_group_size=group)
    return path


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Job]]:
    """Return a function that makes a job around the source of a model.py."""
    packages: list[str] = []

    def make(source: str) -> Job:
        name = f"typed_{tmp_path.name.replace('-', '_')}_{len(packages)}"
        packages.append(name)
        child = tmp_path / "child"
        package = child / "src" / name
        (package / "job").mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "model.py").write_text(textwrap.dedent(source))
        (package / "job" / "__init__.py").write_text(WAY.read_text())
        monkeypatch.syspath_prepend(str(child / "src"))
        return Job(child, name)

    yield make
    for name in [module for module in sys.modules if module.partition(".")[0] in packages]:
        del sys.modules[name]
