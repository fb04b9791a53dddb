"""Make the wheel of a library, try it in an empty environment, and publish it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from ..verdict import problems
from .facts import PROOF, Project, ScriptError, git, make_build
from .tools import take_uv

DIST = Path("dist")
CUDA = re.compile(r"(torch|tensorflow|triton|nvidia-.*|cuda-.*)==")
PIN = re.compile(r"(?m)^([A-Za-z0-9][^ ]*==[^ ]+)")


def package(project: Project, words: list[str]) -> int:
    """Make the wheel and the source archive, and run the unit tests against the installed wheel."""
    if words and words[0] != "--framework":
        raise ScriptError(2, f"unknown option {words[0]}: see scripts/package --help")
    if words and not "".join(words[1:]):
        raise ScriptError(2, "--framework needs PACKAGE==VERSION, for example torch==2.13.0")
    uv, framework = take_uv(), words[1:2]
    shutil.rmtree(DIST, ignore_errors=True)
    (PROOF / "package").unlink(missing_ok=True)
    pinned = ["--build-constraints", "scripts/tools/build.lock", "--require-hashes"]
    build = [uv, "build", "--quiet", "--python", sys.executable, *pinned, "--out-dir", str(DIST)]
    if code := subprocess.run(build, check=False).returncode:
        return code
    [wheel], [source] = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    check_contents(project, zipfile.ZipFile(wheel).namelist())
    with tempfile.TemporaryDirectory() as folder:
        try_wheel(project, uv, wheel, framework, Path(folder))
    make_build()
    (PROOF / "package").write_text(packaged(project), encoding="utf-8")
    project.say(f"made {wheel.name} {source.name}, and the tests pass with the wheel")
    return 0


def packaged(project: Project) -> str:
    """Return the commit and the hashes of what is in dist/."""
    files = sorted(str(one) for one in DIST.iterdir() if not one.name.startswith("."))
    return f"{project.commit()}\n{git('hash-object', *files)}\n"


def check_contents(project: Project, held: list[str]) -> None:
    """Raise ScriptError where the wheel, which is made from the archive, lacks a file in git."""
    files = [] if project.adopted.get("package") else git("ls-files", f"src/{project.package}").splitlines()
    for file in [one for one in files if one.removeprefix("src/") not in held and Path(one).is_file()]:
        told = f"the wheel does not contain {file}, which is in git: .gitignore matches it"
        raise ScriptError(1, f"{told}; add it to artifacts in [tool.hatch.build] of pyproject.toml")


def try_wheel(project: Project, uv: str, wheel: Path, framework: list[str], folder: Path) -> None:
    """Install the wheel with what it declares, import it, and run the unit tests. Raises ScriptError."""
    python = str(folder / "venv/bin/python")

    def install(*words: str) -> int:
        return subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *words], check=False).returncode

    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder / "venv")], check=True)
    pins = PIN.findall(Path("requirements.lock").read_text(encoding="utf-8"))
    versions = folder / "versions"  # without hashes
    versions.write_text("".join(f"{pin}\n" for pin in pins if not (framework and CUDA.match(pin))), encoding="utf-8")
    if install("--constraint", str(versions), str(wheel), *framework):
        raise ScriptError(1, "the wheel cannot be installed with the packages that it declares; the reason is above")
    name = project.adopted.get("package", project.package)
    if subprocess.run([python, "-I", "-c", f"import {name}"], cwd=folder, check=False).returncode:
        told = "the wheel cannot be imported with only the packages that pyproject.toml declares"
        raise ScriptError(1, f"{told}: add what is missing to its dependencies")
    if install("--require-hashes", "-r", "requirements-dev.lock"):
        raise ScriptError(1, "the development tools cannot be installed; the reason is above")
    pytest = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "pythonpath=", "--ignore=tests/gpu"]
    if subprocess.run(pytest, stdout=sys.stderr, check=False).returncode:
        told = "the unit tests fail with the installed wheel"
        raise ScriptError(1, f"{told}: the wheel or its dependencies lack something; the output is above")


def publish(project: Project, words: list[str]) -> int:
    """Publish what scripts/package made on the package index of the company."""
    wheels = sorted(DIST.glob("*.whl"))
    if not wheels:
        raise ScriptError(2, "dist/ contains no wheel: run scripts/package first")
    version = wheels[0].name.split("-")[1]
    if words and words != [f"v{version}"]:
        told = f"dist/ contains version {version}, not {words[0]}"
        raise ScriptError(2, f"{told}: give the tag the version in pyproject.toml, or change it there")
    index = os.environ.get("PACKAGE_INDEX_URL")
    if not index:
        raise ScriptError(2, "PACKAGE_INDEX_URL is not set: the address at which your package index takes uploads")
    uv = take_uv()
    if reasons := problems(PROOF, project.commit(), "model" if project.has_model else "gpu"):
        raise ScriptError(1, "\n".join([f"version {version} is not published:", *reasons]))
    proof = PROOF / "package"
    if not proof.is_file() or proof.read_text(encoding="utf-8") != packaged(project):
        raise ScriptError(1, f"version {version} is not published: scripts/package has not tried this wheel and commit")
    os.environ["UV_PUBLISH_USERNAME"] = os.environ.get("PACKAGE_INDEX_USER", "")
    os.environ["UV_PUBLISH_PASSWORD"] = os.environ.get("PACKAGE_INDEX_PASSWORD", "")
    options = ["--no-attestations", "--trusted-publishing", "never", "--publish-url", index]
    if check := os.environ.get("PACKAGE_INDEX_CHECK_URL"):
        options += ["--check-url", check]
    files = [str(one) for pattern in ("*.whl", "*.tar.gz") for one in sorted(DIST.glob(pattern))]
    if subprocess.run([uv, "publish", "--quiet", *options, *files], check=False).returncode:
        raise ScriptError(3, f"version {version} was not published as a whole; the reason is above")
    project.say(f"published version {version}")
    return 0
