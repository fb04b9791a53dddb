"""Rules that need no machine: compatibility, masks, architectures, PTX versions, requirements, file kinds, results."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from gpu_smoke import elf, loaded, mask
from gpu_smoke.host import Host
from gpu_smoke.layers import compatibility, framework, kernel_text, model, module
from gpu_smoke.platforms import detect

from tests.gpu_smoke.smoke_machine import PACKAGE_ROOT
from tests.sampling import sampled

VERDICTS = [
    (13000, 13000, False, "backward"),
    (12090, 13000, False, "backward"),
    (11080, 13020, False, "backward"),
    (12090, 12020, False, "minor"),
    (13020, 13000, False, "minor"),
    (13000, 12090, False, "broken"),
    (12000, 11080, False, "broken"),
    (13000, 13000, True, "forward"),
    (13020, 13000, True, "forward"),
    (14000, 13000, True, "broken"),
]


def test_compatibility_verdict() -> None:
    for runtime, driver, forward, kind in VERDICTS:
        assert compatibility.verdict(runtime, driver, forward) == kind, (runtime, driver, forward, kind)


MASKS = [
    (None, [], False, ""),
    ("", [], True, ""),
    ("-1", [], True, ""),
    ("NoDevFiles", [], True, ""),
    ("0", ["0"], False, ""),
    ("1,0", ["1", "0"], False, ""),
    (" 0 , 1 ", ["0", "1"], False, ""),
    ("0,-1,1", ["0"], False, ""),
    ("0,2", ["0"], False, "2"),
    ("2", [], True, "2"),
    ("0,0", ["0"], False, "0"),
    ("GPU-aaaa,GPU-AAAA-1", ["GPU-aaaa"], False, "GPU-AAAA-1"),
    ("GPU-aaaa,GPU-bbbb", ["GPU-aaaa", "GPU-bbbb"], False, ""),
    ("GPU-aaaa", ["GPU-aaaa"], False, ""),
    ("gpu-aaaa", [], True, "gpu-aaaa"),
    ("GPU-", [], True, "GPU-"),
    ("GPU-cccc", [], True, "GPU-cccc"),
    ("MIG-1234", ["MIG-1234"], False, ""),
    ("MIG-GPU-aaaa/1/0", ["MIG-GPU-aaaa/1/0"], False, ""),
    ("all", [], True, "all"),
    ("0x1", [], True, "0x1"),
]


def test_mask() -> None:
    for value, entries, hides_all, bad in MASKS:
        read = mask.parse(value, ["GPU-aaaa-1", "GPU-bbbb-2"])
        assert (read.entries, read.hides_all, read.bad) == (entries, hides_all, bad), (value, entries, hides_all, bad)
        twice = read.entries and bad.lower().startswith(read.entries[0].lower())
        assert read.problem == ("" if not bad else "is named twice" if twice else "does not exist"), value


COVERED = [
    ("sm_80", "8.0", True),
    ("sm_80", "8.9", True),
    ("sm_86", "8.0", False),
    ("sm_80", "9.0", False),
    ("compute_90", "12.0", True),
    ("compute_90", "8.9", False),
    ("sm_90a", "9.0", True),
    ("sm_100a", "10.3", False),
    ("sm_100f", "10.3", True),
    ("sm_120", "12.1", True),
    ("sm_50 sm_86 sm_90", "12.0", False),
    ("gfx90a nonsense sm_", "9.0", False),
]


def test_architecture_list_covers() -> None:
    for archs, capability, covered in COVERED:
        assert framework.covers(archs.split(), capability) is covered, (archs, capability, covered)


PTX_VERSIONS = [
    (11080, "7.8"),
    (12000, "8.0"),
    (12050, "8.5"),
    (12060, "8.5"),
    (12080, "8.7"),
    (12090, "8.8"),
    (13000, "9.0"),
    (13020, "9.2"),
    (10020, ""),
    (0, ""),
    (-5, ""),
]


def test_ptx_version_of_cuda() -> None:
    for cuda, version in PTX_VERSIONS:
        assert kernel_text.ptx_version(cuda) == version, (cuda, version)


PTXAS = shutil.which("ptxas")
ROWS = yaml.safe_load((PACKAGE_ROOT / "catalog.yml").read_text())["images"]


@functools.cache
def ptxas_knows() -> tuple[set[str], tuple[int, int]]:
    """Return the architectures of the ptxas at hand, and its CUDA version."""
    said = [subprocess.run([PTXAS, option], check=True, capture_output=True, text=True).stdout
            for option in ("--help", "--version")]  # fmt: skip
    release = re.search(r"release (\d+)\.(\d+)", said[1])
    return set(re.findall(r"'(sm_\d+)'", said[0])), (int(release.group(1)), int(release.group(2)))


def promises() -> list[tuple[str, str, str]]:
    """Return every row's CUDA version with each of its architectures, for each text."""
    found = {
        (text, row["cuda"] if text == "stamped" else "", f"sm_{capability.replace('.', '')}")
        for row in ROWS
        for capability in [*row["compute_capabilities"]["sass"], *row["compute_capabilities"]["ptx"]]
        for text in ("universal", "stamped")
    }
    return sorted(found)


@pytest.mark.skipif(PTXAS is None, reason="ptxas is not on PATH: install a CUDA toolkit to assemble the PTX texts")
@pytest.mark.parametrize(("text", "cuda", "arch"), sampled(promises(), lambda row: row[2] == "sm_90"))
def test_ptx_assembles(tmp_path: Path, text: str, cuda: str, arch: str) -> None:
    archs, release = ptxas_knows()
    major, minor = (int(part) for part in cuda.split(".")) if cuda else (0, 0)
    if arch not in archs:
        pytest.skip(f"the ptxas of CUDA {release[0]}.{release[1]} does not make code for {arch}")
    if (major, minor) > release:
        pytest.skip(f"the ptxas of CUDA {release[0]}.{release[1]} does not read the PTX of CUDA {cuda}")
    version = kernel_text.ptx_version(1000 * major + 10 * minor)
    source, made = tmp_path / "kernel.ptx", tmp_path / "kernel.cubin"
    source.write_text(kernel_text.stamped(version) if cuda else kernel_text.universal())
    done = subprocess.run([PTXAS, f"-arch={arch}", str(source), "-o", str(made)], capture_output=True, text=True)
    assert done.returncode == 0, f"{text} PTX {version} for {arch}: {done.stderr}"
    assert made.stat().st_size > 0


MODULES = [
    ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023", "535.104.05"),
    ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (x@y)", "580.65.06"),
    ("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  610.43.02  Release Build", "610.43.02"),
    ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256  Thu", "470.256"),
    ("GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)", ""),
    ("", ""),
]


def test_kernel_module_version() -> None:
    for text, version in MODULES:
        assert module.parse_version(text) == version, (text, version)
        flavour = "open" if "Open" in text else "proprietary" if version else ""
        assert module.flavour(text) == flavour, (text, version)


def test_file_kinds(tmp_path: Path) -> None:
    own = Path(os.path.realpath(shutil.which("sh") or "/bin/sh"))
    data = own.read_bytes()
    (tmp_path / "ok").write_bytes(data)
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "directory").mkdir()
    (tmp_path / "not-elf").write_text("#!/bin/sh\n" * 20)
    (tmp_path / "truncated").write_bytes(data[:3000])
    (tmp_path / "truncated-head").write_bytes(data[:40])
    (tmp_path / "wrong-arch").write_bytes(data[:18] + b"\xf3\x00" + data[20:])
    (tmp_path / "wrong-arch-bits").write_bytes(data[:4] + b"\x01" + data[5:])
    (tmp_path / "dangling").symlink_to("nowhere")
    os.mkfifo(tmp_path / "not-elf-pipe")
    for path in tmp_path.iterdir():
        want = path.name.removesuffix("-head").removesuffix("-bits").removesuffix("-pipe")
        assert elf.classify(str(path)).kind == want, path.name
    assert elf.classify(str(tmp_path / "absent")).kind == "missing"


def _maps(*paths: str) -> str:
    return "".join(f"7f00-7f01 r-xp 00000000 08:01 12  {path}\n" for path in paths)


def test_mapped_libraries_and_their_copies() -> None:
    text = _maps("/a/libcublas.so.12", "/a/libcublasLt.so.12", "/b/libcublas.so.12", "/a/libcudart.so.12",
                 "/b/libcudart.so.13", "/a/libcudnn.so.9", "/a/libcudnn_ops.so.9",
                 "/lib/libcuda.so.580.65.06 (deleted)",
                 "/torch/lib/libcudart-9335f6a2.so.12", "/usr/lib/libc.so.6", "[heap]", "anon")  # fmt: skip
    entries = loaded.parse_maps(text)
    assert {e.family for e in entries} == {"cublas", "cudart", "cudnn", "cuda"}
    assert [e.path for e in entries if e.deleted] == ["/lib/libcuda.so.580.65.06"]
    found = loaded.duplicates(entries)
    assert found["cublas 12"] == ["/a", "/b"]
    assert "cudnn 9" not in found
    assert "cudart 13" not in found


def test_two_drivers_are_copies_whatever_their_versions() -> None:
    entries = loaded.parse_maps(_maps("/compat/libcuda.so.590.44.01", "/lib/libcuda.so.580.65.06"))
    assert loaded.duplicates(entries) == {"cuda": ["/compat", "/lib"]}


RESULTS = [
    ([1.0], [1.0005], True),
    ([1.0], [1.002], False),
    ([{"a": "x", "b": [1.0, 2.0]}], [{"a": "x", "b": [1.0, 2.0]}], True),
    ([{"a": "x"}], [{"a": "y"}], False),
    ([{"a": 1}], [{"b": 1}], False),
    ([[1.0, 2.0]], [[1.0]], False),
    ([(1.0, 2.0)], [[1.0, 2.0]], True),
    ([float("nan")], [float("nan")], True),
    ([float("nan")], [1.0], False),
    ([float("inf")], [float("inf")], True),
    ([float("inf")], [1.0], False),
    ([True], [1.0], False),
    (["a"], [1.0], False),
    ([None], [None], True),
]


def test_results_are_compared() -> None:
    for left, right, same in RESULTS:
        assert (model.differences(left, right, 1e-3) == []) is same, (left, right, same)


PLATFORMS = {
    "bare": ([], {}),
    "docker": (["/.dockerenv"], {}),
    "podman": (["/run/.containerenv"], {}),
    "apptainer": ([], {"APPTAINER_CONTAINER": "/image.sif"}),
    "kubernetes": ([], {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}),
    "gke": (["/usr/local/nvidia/lib64/x"], {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}),
    "wsl": (["/dev/dxg"], {}),
    "container": ([], {"container": "oci"}),
}
MARKS = [
    ("docker", "/run/systemd/container", "docker\n"),
    ("lxc", "/run/systemd/container", "lxc\n"),
    ("bare", "/run/systemd/container", "wsl\n"),
    (
        "kubernetes",
        "/proc/self/mountinfo",
        "9 1 8:1 /var/lib/kubelet/pods/7/etc-hosts /etc/hosts rw - ext4 /dev/sda1 rw\n",
    ),
    (
        "docker",
        "/proc/self/mountinfo",
        "9 1 8:1 /var/lib/docker/containers/7/hosts /etc/hosts rw - ext4 /dev/sda1 rw\n",
    ),
    ("container", "/proc/self/mountinfo", "1 0 0:50 / / rw,relatime - overlay overlay rw,lowerdir=/l,upperdir=/u\n"),
    ("bare", "/proc/self/mountinfo", "1 0 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"),
    ("kubernetes", "/proc/1/cgroup", "0::/kubepods/besteffort/pod7/8\n"),
    ("bare", "/proc/1/cgroup", "0::/\n"),
]


@pytest.mark.parametrize(("kind", "file", "text"), MARKS)
def test_container_without_a_marker_file(tmp_path: Path, kind: str, file: str, text: str) -> None:
    path = tmp_path / file.lstrip("/")
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert detect(Host(str(tmp_path)), {}).kind == kind


def test_a_machine_that_boots_from_an_overlay_is_no_container(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/1").mkdir()
    (tmp_path / "proc/self/mountinfo").write_text("1 0 0:50 / / rw - overlay overlay rw,lowerdir=/l\n")
    (tmp_path / "proc/1/comm").write_text("systemd\n")
    assert detect(Host(str(tmp_path)), {}).kind == "bare"


@pytest.mark.parametrize("kind", PLATFORMS)
def test_platform(tmp_path: Path, kind: str) -> None:
    files, env = PLATFORMS[kind]
    for name in files:
        path = tmp_path / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    found = detect(Host(str(tmp_path)), env)
    assert found.kind == kind
    assert found.in_container is (kind not in ("bare", "wsl"))
