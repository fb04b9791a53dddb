"""What gpu-smoke would do on a GPU fits the libraries, the headers and the PTX assembler that the image brings."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.gpu_smoke.smoke_abi import TOOLKIT, header_of, misfits, record
from tests.gpu_smoke.smoke_machine import Machine, compile_fakes

from .conftest import Built

pytestmark = pytest.mark.images
RUNTIME = "cuda_runtime_api.h"
# The layer of gpu-smoke that tells where the library with the functions of a header lies.
LAYERS = {
    RUNTIME: "runtime", "cublas_v2.h": "cublas", "curand.h": "curand", "cusolverDn.h": "cusolver",
    "cusparse.h": "cusparse", "cufft.h": "cufft", "cudnn.h": "cudnn", "nccl.h": "nccl",
}  # fmt: skip


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return every call of a whole walk over a machine of fakes."""
    folder = tmp_path_factory.mktemp("calls")
    return record(Machine(folder, compile_fakes(folder)))


def test_every_function_is_in_the_libraries(image: Built, calls: list[dict[str, Any]]) -> None:
    """A function that a library lacks would show on a GPU alone, where it is called for the first time."""
    names = {call["name"] for call in calls}
    wanted = {layer: sorted(n for n in names if header_of(n) == header) for header, layer in LAYERS.items()}
    assert all(wanted.values()), wanted
    code = (
        "import ctypes, json, subprocess\n"
        f"wanted = json.loads('{json.dumps(wanted)}')\n"
        "command = ['gpu-smoke', '--mode', 'image', '--json', '/tmp/report.json']\n"
        "subprocess.run(command, check=True, capture_output=True)\n"
        "paths = {layer['name']: layer['path'] for layer in json.load(open('/tmp/report.json'))['layers']}\n"
        "have = {name: ctypes.CDLL(paths[name]) for name in wanted if paths[name]}\n"
        "print(json.dumps([sorted(have), [f for name in have for f in wanted[name] if not hasattr(have[name], f)]]))\n"
    )
    looked, missing = json.loads(image.python(code))
    assert missing == [], f"{image.name}: {missing}"
    left_out = {*LAYERS.values()} - {*looked}
    assert left_out <= {"curand"}, f"{image.name}: not looked into: {left_out}"


def test_every_call_fits_the_headers(image: Built, calls: list[dict[str, Any]], tmp_path: Path) -> None:
    """Arguments and enumerations are those of the headers of the row's own libraries."""
    if image.row["framework"] != "plain":
        pytest.skip(f"{image.name} has no compiler's headers, which those of the libraries include; the plain rows do")
    code = (
        "import pathlib, sysconfig\n"
        "print(*sorted(pathlib.Path(sysconfig.get_path('purelib'), 'nvidia').glob('*/include')))\n"
    )
    sources = image.python(code).split()
    folders = [tmp_path / str(number) for number in range(len(sources))]
    container = image.client.containers.create(image.tag)
    try:
        for source, folder in zip(sources, folders, strict=True):
            subprocess.run(["docker", "cp", "--quiet", f"{container.id}:{source}", folder], check=True)
    finally:
        container.remove()
    include = [*folders, *(folder / "cccl" for folder in folders)]
    assert misfits(calls, [RUNTIME, *TOOLKIT], include, tmp_path) == []


def test_the_ptx_assembles(image: Built) -> None:
    """The PTX texts become code for each architecture that the row promises, with the assembler of the image."""
    code = (
        "import json, pathlib, re, subprocess, sys, sysconfig\n"
        "sys.path.insert(0, '/opt/base/lib')\n"
        "from gpu_smoke.layers import kernel_text\n"
        "row = json.load(open('/opt/base/image.json'))\n"
        "major, minor = map(int, row['cuda'].split('.')[:2])\n"
        "ptxas = str(min(pathlib.Path(sysconfig.get_path('purelib')).rglob('ptxas')))\n"
        "said = subprocess.run([ptxas, '--version'], check=True, capture_output=True, text=True).stdout\n"
        "release = tuple(map(int, re.search(r'release (\\d+)\\.(\\d+)', said).groups()))\n"
        "found = []\n"
        "capabilities = {c for kind in ('sass', 'ptx') for c in row['compute_capabilities'][kind]}\n"
        "texts = [kernel_text.universal()]\n"
        "if release >= (major, minor):\n"
        "    texts.append(kernel_text.stamped(kernel_text.ptx_version(1000 * major + 10 * minor)))\n"
        "for text in texts:\n"
        "    pathlib.Path('/tmp/kernel.ptx').write_text(text)\n"
        "    for c in sorted(capabilities):\n"
        "        arch = 'sm_' + c.replace('.', '')\n"
        "        command = [ptxas, '-arch=' + arch, '/tmp/kernel.ptx', '-o', '/tmp/kernel.cubin']\n"
        "        done = subprocess.run(command, capture_output=True, text=True)\n"
        "        if done.returncode:\n"
        "            found.append([arch, text.split()[1], done.stderr])\n"
        "print(json.dumps([release, len(texts), len(capabilities), found]))\n"
    )
    release, texts, capabilities, failed = json.loads(image.python(code))
    assert failed == [], f"{image.name}, ptxas of CUDA {release}: {failed}"
    assert capabilities, f"{image.name} promises no architecture"
    # torch brings the assembler of Triton, which may be older than torch's CUDA.
    assert texts == 2 or image.row["framework"] == "torch", f"{image.name}: ptxas is of CUDA {release}"
