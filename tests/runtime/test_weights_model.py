"""A model gets the folder of its weights, wherever they are, and what runs with them says which they were."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_repo_runtime import testing, weights
from gpu_repo_runtime.batch.cli import main as job
from gpu_repo_runtime.weights import cli, lockfile

from tests.runtime.served import serve
from tests.shared import ROOT, RUNTIME

MODEL = """
from pathlib import Path

from pydantic import BaseModel

Input = str


class Output(BaseModel):
    label: str


class Model:
    examples = ("one", "two")
    tolerance = 0.0

    def load(self, device: str, weights: Path) -> None:
        self.label = (weights / "words" / "label.txt").read_text()

    def predict(self, batch: list[Input]) -> list[Output]:
        return [Output(label=self.label) for _ in batch]
"""
Make = Callable[..., Path]


@pytest.fixture
def owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Return a function that makes a repository with a model and weights, fetched, and goes there."""
    made: list[str] = []

    def make(model: str = MODEL, place: str = "stored", lock: bool = True) -> Path:
        folder, name = tmp_path / "owner", f"owner_{len(made)}_{id(made)}"
        made.append(name)
        package = folder / "src" / name
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").touch()
        (package / "model.py").write_text(model)
        (folder / place).mkdir(parents=True, exist_ok=True)
        (folder / place / "label.txt").write_text("first")
        (folder / "weights.toml").write_text(f'[words]\nsource = "{place}"\n')
        monkeypatch.chdir(folder)
        monkeypatch.syspath_prepend(str(folder / "src"))
        monkeypatch.setenv("PYTHONPATH", str(folder / "src"))
        importlib.invalidate_caches()
        if lock:
            assert cli.main(["lock"]) == 0
            assert cli.main(["fetch"]) == 0
        return package

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("WEIGHTS", raising=False)
    yield make
    for name in [name for name in sys.modules if name.partition(".")[0] in made]:
        del sys.modules[name]


def model_of(package: Path) -> Any:
    return importlib.import_module(f"{package.name}.model").Model()


@pytest.mark.parametrize("place", ["stored", "weights/words"])
def test_from_the_cache_and_from_the_repository(owner: Make, place: str, tmp_path: Path) -> None:
    package = owner(place=place)
    assert testing.loaded(type(model_of(package)), "cpu").label == "first"
    found = weights.find(package.name)
    assert found is not None
    assert found.is_relative_to(tmp_path / "owner") == (place == "weights/words")


def test_from_a_volume_that_has_to_be_the_right_one(owner: Make, tmp_path: Path, monkeypatch) -> None:
    package = owner()
    assert cli.main(["fetch", "--into", str(tmp_path / "volume")]) == 0
    monkeypatch.setenv("WEIGHTS", str(tmp_path / "volume"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    model = model_of(package)
    weights.load(model, "cpu")
    assert model.label == "first"
    (tmp_path / "volume/words/label.txt").rename(tmp_path / "label.txt")
    with pytest.raises(weights.WeightsError, match=r"words/label\.txt is missing or has another size"):
        weights.load(model, "cpu")
    (tmp_path / "owner/stored/label.txt").write_text("other")
    assert cli.main(["lock"]) == 0
    with pytest.raises(weights.WeightsError, match=r"it has the weights sha256:\w+, not sha256"):
        weights.load(model, "cpu")
    (tmp_path / "volume/weights.lock").unlink()  # a file of the same size may be of other weights
    (tmp_path / "label.txt").rename(tmp_path / "volume/words/label.txt")
    with pytest.raises(weights.WeightsError, match=r"it has no weights\.lock"):
        weights.load(model, "cpu")


def test_some_are_in_git_and_others_in_the_cache(owner: Make, tmp_path: Path) -> None:
    package = owner(place="weights/words")
    (tmp_path / "owner/more").mkdir()
    (tmp_path / "owner/more/a.bin").write_text("a")
    with (tmp_path / "owner/weights.toml").open("a") as file:
        file.write('[more]\nsource = "more"\n')
    assert cli.main(["lock"]) == 0
    (tmp_path / "owner/weights/more").mkdir()  # left over: not its source
    assert cli.main(["fetch"]) == 0
    assert testing.loaded(type(model_of(package)), "cpu").label == "first"
    (tmp_path / "owner/weights/words/label.txt").write_text("later")
    with pytest.raises(weights.WeightsError, match=r"label\.txt was changed: run scripts/weights lock"):
        weights.find(package.name)


def test_in_an_image_the_lock_is_among_the_weights(owner: Make, tmp_path: Path, monkeypatch, capsys) -> None:
    """scripts/build gives the image a folder weights with the files and the lock, or with the lock alone."""
    package = owner()
    capsys.readouterr()
    assert cli.main(["fetch", "--print", "--lock-only"]) == 0
    alone = Path(capsys.readouterr().out.strip())
    assert [path.name for path in alone.iterdir()] == ["weights.lock"]
    whole, lock = weights.find(package.name), weights.locked(package.name)
    (tmp_path / "owner/weights.lock").unlink()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    image = tmp_path / "owner/weights"
    image.mkdir()
    (image / "weights.lock").write_bytes((alone / "weights.lock").read_bytes())
    with pytest.raises(weights.WeightsError, match=r"words/label\.txt is missing.*: run scripts/weights fetch, or"):
        weights.find(package.name)
    monkeypatch.setenv("WEIGHTS", str(whole))
    assert (weights.find(package.name), weights.used(model_of(package))) == (whole, lock)
    monkeypatch.delenv("WEIGHTS")
    (image / "words").mkdir()
    (image / "words/label.txt").write_text("first")
    assert testing.loaded(type(model_of(package)), "cpu").label == "first"


@pytest.mark.parametrize(
    ("name", "text"), [("weights/words/label.txt", "later"), ("weights.toml", '[words]\nsource = "elsewhere"\n')]
)
def test_a_change_that_is_not_locked_is_never_served(owner: Make, tmp_path: Path, name: str, text: str) -> None:
    package = owner(place="weights/words")
    (tmp_path / "owner" / name).write_text(text)
    with pytest.raises(weights.WeightsError, match=r"is out of date: .*: run scripts/weights lock"):
        weights.load(model_of(package), "cpu")


def test_the_service_says_which_weights_it_has_and_does_not_start_without(
    owner: Make, tmp_path: Path, monkeypatch
) -> None:
    package = owner()
    lock = lockfile.read(Path("weights.lock"))
    with serve(model_of(package)) as client:
        assert client.get("/livez").json()["weights"] == lock.digest
        [one] = lock.weights
        line = f'service_weights{{digest="{one.digest}",name="words",revision=""}} 1.0'
        assert line in client.get("/metrics").text
        assert client.post("/predict", json={"instances": ["x"]}).json()["predictions"] == [{"label": "first"}]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    with pytest.raises(RuntimeError, match="scripts/weights fetch"), serve(model_of(package)):
        pass


def run(package: Path, output: Path) -> int:
    texts = output.parent / "texts.jsonl"
    texts.write_text("".join(json.dumps({"text": str(number)}) + "\n" for number in range(10)))
    return job(package.name, ["run", "--input", str(texts), "--output", str(output), "--device", "cpu"])


def test_the_job_says_which_weights_it_had_and_goes_on_with_no_others(
    owner: Make, tmp_path: Path, monkeypatch, capsys
) -> None:
    package = owner()
    assert run(package, tmp_path / "out") == 0
    lock = lockfile.read(Path("weights.lock"))
    [file] = lock.files().values()
    assert json.loads((tmp_path / "out/_provenance.json").read_text())["weights"] == {"words/label.txt": file.sha256}
    assert json.loads((tmp_path / "out/_plan.json").read_text())["weights"] == lock.digest
    (tmp_path / "owner/stored/label.txt").write_text("second")
    assert cli.main(["lock"]) == 0
    assert cli.main(["fetch"]) == 0
    assert run(package, tmp_path / "out") != 0
    assert "the weights have changed" in capsys.readouterr().err
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    assert run(package, tmp_path / "other") == 78
    assert [line for line in capsys.readouterr().err.splitlines() if "scripts/weights fetch" in line]


@pytest.mark.slow
def test_gpu_smoke_gives_them_too(owner: Make) -> None:
    command = [sys.executable, "-m", "gpu_smoke", "--model", f"{owner().name}.model:Model"]
    paths = os.pathsep.join((os.environ["PYTHONPATH"], str(RUNTIME), str(ROOT / "base-images")))
    told = subprocess.run(command, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, check=False)
    assert "CPU only: 2 examples predicted" in told.stdout, told.stdout
