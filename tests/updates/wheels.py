"""Templates whose children carry a runtime as a wheel, and an index of small wheels."""

import hashlib
import zipfile
from pathlib import Path

from tests.updates.tiny import TEN_LINES, Template

LOCK = """# a comment of the owner
first==1.0 \\
    --hash=sha256:{0}
gpu-repo-runtime @ file:wheels/{1} \\
    --hash=sha256:{2}
zlast==2.0 \\
    --hash=sha256:{0}
"""


def wheel(folder: Path, name: str, version: str, requires: tuple[str, ...] = ()) -> str:
    """Write a wheel and return its sha256."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    path.parent.mkdir(parents=True, exist_ok=True)
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def runtime(version: str) -> str:
    """Return the file name of a runtime."""
    return f"gpu_repo_runtime-{version}-py3-none-any.whl"


def release_runtime(
    template: Template, version: str, requires: tuple[str, ...] = (), image: str = "1.0", **files: str
) -> str:
    """Release a template with a runtime and an image that has one package; return the wheel's sha256."""
    template.release(
        f"v{version}",
        {
            "constraints.txt": f"# the packages of the image\nfirst=={image}\n",
            ".copier-ownership.yml": "seed: [requirements.lock, yours.txt]\n",
            "requirements.lock": LOCK.format("0" * 64, runtime(version), "1" * 64),
            "wheels/requirements.in": f"gpu-repo-runtime @ file:wheels/{runtime(version)}\n",
            "yours.txt": f"seed of {version}\n",
            "a.txt": TEN_LINES,
            "b.txt": f"{version}\n",
            **files,
        },
    )
    digest = wheel(template.path / "wheels", "gpu_repo_runtime", version, requires)
    template.git("add", "--all")
    template.git("commit", "--quiet", "--amend", "--no-edit")
    template.git("tag", "--force", f"v{version}")
    return digest


def index(folder: Path) -> dict[str, str]:
    """Write an index of two packages; return the variables with which uv knows it and no other."""
    wheel(folder / "index", "newcomer", "3.0")
    wheel(folder / "index", "first", "1.1")
    return {"UV_NO_INDEX": "1", "UV_FIND_LINKS": str(folder / "index"), "UV_CACHE_DIR": str(folder / "uv")}
