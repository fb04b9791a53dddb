"""What the release check refuses in any rendered child: names, bytes, locks, and a Copier that children do not have."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import release_check
from releasekit.rendered import faults

from tests.updates.release_cases import GOOD, Files, change, retire
from tests.updates.test_release_check import checked, no_updates
from tests.updates.tiny import write_files

WHEEL = b"PK\0 a wheel"
HASH = hashlib.sha256(WHEEL).hexdigest()
PIN = f"one==1.0 \\\n    --hash=sha256:{'0' * 64}\n"
LOCK = f"# a lock\n{PIN}own @ file:wheels/own-1.whl \\\n    --hash=sha256:{HASH}\n"
LISTS = "managed: {'*': all}\n"


def child(folder: Path, files: dict[str, str | bytes]) -> Path:
    """Write a child with a lock and its wheel, and `files`."""
    write_files(folder, {".copier-ownership.yml": LISTS, "requirements.lock": LOCK})
    for name, data in {"wheels/own-1.whl": WHEEL, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)
    return folder


@pytest.mark.parametrize(
    ("path", "data", "fault"),
    [
        ("scripts/aux", "x\n", "Windows cannot check out"),
        ("scripts/COM1.sh", "x\n", "Windows cannot check out"),
        ("what?", "x\n", "Windows cannot check out"),
        ("ends.", "x\n", "Windows cannot check out"),
        ("Requirements.lock", "x\n", "differs from"),
        ("run.sh", "echo\r\n", "line ends of Windows"),
        ("a.txt", "é\n".encode("latin-1"), "is not UTF-8"),
        ("a.txt", "é\n".encode("utf-16"), "is in UTF-16"),
        ("a.txt", "a\n<<<<<<< HEAD\nb\n", "has conflict markers"),
        ("requirements.lock", "one==1.0\n", "has no hash for one==1.0"),
        ("requirements-dev.lock", LOCK + "two==2.0 ; x\n", "has no hash for two==2.0"),
        ("requirements.lock", LOCK.replace("own-1", "own-2"), "names wheels/own-2.whl, which is not there"),
        ("wheels/own-1.whl", WHEEL + b"\n", "has another hash than wheels/own-1.whl: run make wheel"),
        ("wheels/own-2.whl", WHEEL, "is there more than once"),
        ("requirements.lock", "--extra-index-url https://x.example.com\n" + LOCK, "has the option --extra-index-url"),
        ("constraints.txt", "one==1.1\n", "has one 1.0, and the image holds 1.1: run make locks"),
        ("run.sh", "\ufeffecho\n", "begins with a byte order mark"),
        ("key.pem", "-----BEGIN RSA PRIVATE KEY-----\n", "holds a private key"),
        (".gitignore", "wheels/\n", "is ignored by the child's .gitignore"),
        ("scripts/tools/json.py", "", "hides the module json of Python's standard library"),
        ("logging.py", "", "hides the module logging"),
        ("scripts/verb", "#!/usr/bin/env bash\n", "is a script that cannot be executed"),
        ("a.json", "{,}\n", "cannot be read: "),
        ("a.toml", "x = [\n", "cannot be read: "),
        ("deploy/a.yaml", "x: [\n", "cannot be read: "),
        ("src/a.py", "def x(:\n", "cannot be read: "),
        ("run.sh", "if true; then\n", "cannot be read: "),
        ("a.txt", "{% if gpu %}\n", "has '{% if' of the template left in it"),
        ("a.txt", "x {{ flavour }}\n", "has '{{ flavour' of the template left in it"),
    ],
)
def test_what_no_child_should_get(tmp_path: Path, path: str, data: str | bytes, fault: str) -> None:
    told = [f"{name} {what}" for name, what in faults(child(tmp_path, {path: data}), ("flavour", "gpu"))]
    assert len(told) == 1, told
    assert fault in told[0]


def test_what_children_may_hold(tmp_path: Path) -> None:
    good = {
        "auxiliary.txt": "é 🙂 \ufffd\n", "a.b/console": "=======\n", "logo.png": b"\x89PNG\r\n\0", "empty": "",
        "requirements-gpu.lock": "", "src/requirements.lock": "not at the root\n", "constraints.txt": "One==1.0\n",
        ".gitignore": "build/\n", "src/own/json.py": "", "tests/__init__.py": "", "a.yml": "a: !own [x]\n---\nb\n",
        "ci.yml": "run: ${{ gpu }} {{ .Name }} {{json .x}}\n", "scripts/lib.sh": "x() { :; }\n", "notes.md": "def x(:",
    }  # fmt: skip
    assert list(faults(child(tmp_path, good), ("flavour", "gpu"))) == []  # type: ignore[arg-type]


def test_a_file_is_on_one_list(tmp_path: Path) -> None:
    place = child(tmp_path, {".copier-ownership.yml": "managed: {'*': all}\nseed: {src/: s}\n", "src/a.txt": "a\n"})
    assert list(faults(place)) == [("src/a.txt", "is on both lists")]


def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], changed: Files) -> str:
    """Return why a change of GOOD is refused, "" where it is not."""
    monkeypatch.setattr(release_check, "update_children", no_updates)
    code = checked(tmp_path, monkeypatch, changed)
    told = capsys.readouterr().err
    assert (code == 1) is ("release-check: refused:" in told), told
    return told if code else ""


@pytest.mark.parametrize(("least", "there"), [("9.18.0", True), ("9.19.1", False)])
def test_a_copier_that_children_do_not_have_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], least: str, there: bool
) -> None:
    monkeypatch.setitem(GOOD, "t/scripts/tools/copier.lock", "copier==9.18.0 \\\n    --hash=sha256:0\n")
    needs = change(copier_dot_yml=f'_min_copier_version: "{least}"\n' + GOOD["copier.yml"])
    told = refused(tmp_path, monkeypatch, capsys, needs(GOOD))
    assert ("they have Copier 9.18.0, and it needs 9.19.1" in told) is not there


def test_names_that_nobody_defined_stay_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lenient = GOOD["copier.yml"]
    monkeypatch.setitem(GOOD, "copier.yml", "_envops: {undefined: jinja2.StrictUndefined}\n" + lenient)
    told = refused(tmp_path, monkeypatch, capsys, change(copier_dot_yml=lenient)(GOOD))
    assert "copier.yml: undefined is no longer jinja2.StrictUndefined" in told


def test_a_managed_file_does_not_become_a_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lists = GOOD["t/.copier-ownership.yml"].replace("only-b: b, ", "").replace("{README.md", "{only-b: b, README.md")
    given = change(**{"t___dot_copier-ownership_dot_yml": lists})
    told = refused(tmp_path, monkeypatch, capsys, given(GOOD))
    assert "only-b (b True) was managed and is a seed now: its fixes would no longer arrive" in told
    listed = given(GOOD) | {"templates/retired.yml": retire("file", "only-b")}
    assert refused(tmp_path / "listed", monkeypatch, capsys, listed) == ""
