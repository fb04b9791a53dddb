"""What torch.compile needs of the machine: libcuda where Triton looks for it, and the C module that it compiles.

Triton calls CC, else gcc or clang, with its driver.c (triton/runtime/build.py). In an image without a compiler CC is
base-cc, which hands over what was compiled with the image. Here the same call is made, without linking the driver.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sysconfig
import tempfile

from .. import loaded
from ..host import clean
from ..isolate import Facts
from ..verdicts import Context, Finding, finding

SECONDS = 60  # gcc takes one or two
# What the file of Triton's driver holds where it compiles a launcher for each kind of kernel (up to 3.6).
PER_KERNEL = "__triton_launcher"
ANY_SOURCE = "#include <Python.h>\nint gpu_smoke;\n"


def ask() -> Facts:
    """Return ``source`` ("" without Triton), ``compiler``, ``per_kernel``, ``failed`` with ``error``, ``cached``."""
    folder = _backend()
    facts: Facts = {"source": os.path.join(folder, "driver.c") if folder else "", "failed": "", "error": ""}
    if not folder:
        return facts
    facts["compiler"] = _compiler()
    facts["per_kernel"] = PER_KERNEL in _text(os.path.join(folder, "driver.py"))
    facts["cached"] = _cached()
    facts.update(_driver())
    with tempfile.TemporaryDirectory() as scratch:
        error = _compile(facts["compiler"], facts["source"], os.path.join(scratch, "cuda_utils.so"))
        facts.update(failed="compile" if error else "", error=error)
        if facts["per_kernel"] and not facts["failed"]:
            source = os.path.join(scratch, "any.c")
            with open(source, "w", encoding="utf-8") as file:
                file.write(ANY_SOURCE)
            if error := _compile(facts["compiler"], source, os.path.join(scratch, "any.so")):
                facts.update(failed="kernels", error=error)
    return facts


def _backend() -> str:
    """Return the folder of Triton's NVIDIA backend, "" where there is none. Nothing of Triton is imported."""
    spec = importlib.util.find_spec("triton")
    for place in (spec.submodule_search_locations or []) if spec else []:
        folder = os.path.join(place, "backends", "nvidia")
        if os.path.isfile(os.path.join(folder, "driver.c")):
            return folder
    return ""


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _compiler() -> str:
    told = os.environ.get("CC")
    return told if told is not None else shutil.which("gcc") or shutil.which("clang") or ""


def _cached() -> bool:
    """Say whether the cache of Triton holds its module already, as an image may bring it."""
    home = os.environ.get("TRITON_HOME") or os.path.expanduser("~")
    cache = os.environ.get("TRITON_CACHE_DIR") or os.path.join(home, ".triton", "cache")
    return any(name.startswith("cuda_utils") for _, _, names in os.walk(cache) for name in names)


def _driver() -> Facts:
    """Look for libcuda as Triton does (libcuda_dirs in its driver.py): ``ldconfig -p``, else LD_LIBRARY_PATH.

    ``libcuda`` says what is wrong, "" for nothing; ``libcuda_folder`` is where the loader has it.
    """
    mapped = [entry.path for entry in loaded.loaded_now() if entry.family == "cuda"]
    if not mapped or os.environ.get("TRITON_LIBCUDA_PATH"):
        return {"libcuda": ""}
    folder = os.path.dirname(mapped[0])
    root = os.environ.get("GPU_SMOKE_ROOT", "")
    ldconfig = f"{root}/sbin/ldconfig" if os.path.exists(f"{root}/sbin/ldconfig") else "/sbin/ldconfig"
    try:
        listed = subprocess.run([ldconfig, "-p"], capture_output=True, timeout=SECONDS, check=True).stdout.decode()
    except (OSError, subprocess.SubprocessError) as error:
        return {"libcuda": clean(f"{ldconfig} -p: {error}", 300), "libcuda_folder": folder}
    lines = [line.split()[-1] for line in listed.splitlines() if "libcuda.so.1" in line]
    found = [os.path.dirname(path) for path in lines] or os.environ.get("LD_LIBRARY_PATH", "").split(":")
    if any(os.path.exists(os.path.join(place, "libcuda.so.1")) for place in found):
        return {"libcuda": ""}
    told = f"ldconfig -p lists {', '.join(lines)}, not there" if lines else "neither ldconfig -p nor LD_LIBRARY_PATH"
    return {"libcuda": f"{told}; the loader has {mapped[0]}", "libcuda_folder": folder}


def _compile(compiler: str, source: str, target: str) -> str:
    """Compile as Triton does; return the last line of what went wrong, "" for nothing."""
    if not compiler:
        return "no CC in the environment, and neither gcc nor clang on PATH"
    headers = [os.path.join(os.path.dirname(source), "include"), sysconfig.get_path("include", "posix_prefix")]
    command = [compiler, source, "-O0", "-shared", "-fPIC", "-Wno-psabi", "-o", target, *(f"-I{h}" for h in headers)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"{compiler} took more than {SECONDS} s"
    except OSError as error:
        return f"CC is {compiler!r}: {error.strerror}"
    if done.returncode == 0:
        return "" if os.path.exists(target) else f"{compiler} ended with 0 and wrote nothing"
    said = clean(done.stderr.decode("utf-8", "replace"), 2000).strip().splitlines()
    fatal = next((line for line in said if "error" in line), said[-1] if said else "")
    return f"{compiler} ended with {done.returncode}: {fatal}".rstrip(": ")


def findings(context: Context, facts: Facts) -> list[Finding]:
    """Return what keeps torch.compile from working; the framework itself works without."""
    found = []
    if facts.get("libcuda"):
        folder = context.host.shown(facts["libcuda_folder"])
        found.append(finding(context, "GS816", facts["libcuda"], folder=folder))
    return found + _compiler_findings(context, facts)


def _compiler_findings(context: Context, facts: Facts) -> list[Finding]:
    failed = facts.get("failed")
    if not failed or (failed == "compile" and facts.get("cached") and not facts.get("per_kernel")):
        return []
    return [finding(context, "GS813" if failed == "kernels" else "GS812", facts["error"])]
