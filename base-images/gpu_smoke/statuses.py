"""Numbers and names beside CUDA's and NVML's: toolkit libraries, open() of a node, signals, the kernel log's Xid."""

from __future__ import annotations

import errno
import os
import signal

from .errors import STATUS, Number

PREFIX = {"cublas": "CUBLAS_STATUS_", "cusolver": "CUSOLVER_STATUS_", "cusparse": "CUSPARSE_STATUS_",
          "curand": "CURAND_STATUS_", "cufft": "CUFFT_", "cudnn": "CUDNN_STATUS_"}  # fmt: skip
# Of every library alike: the end of a name, what it means, the findings.
MEANINGS = (
    ("NOT_INITIALIZED", "the library did not start; most often the driver or the runtime below it failed",
     ("GS607", "GS803")),
    ("INITIALIZATION_FAILED", "the library did not start; most often the driver or the runtime below it failed",
     ("GS607",)),
    ("ALLOC_FAILED", "no memory was left on the GPU or the machine", ("GS706",)),
    ("ALLOCATION_FAILED", "no memory was left on the GPU or the machine", ("GS706",)),
    ("ARCH_MISMATCH", "the library has no code for this GPU", ("GS701",)),
    ("SUBLIBRARY_VERSION_MISMATCH", "parts of cuDNN come from two copies", ("GS605",)),
    ("VERSION_MISMATCH", "the library and its headers or parts are of two versions", ("GS605",)),
    ("EXECUTION_FAILED", "a kernel of the library failed on the GPU", ("GS713", "GS607")),
    ("EXEC_FAILED", "a kernel of the library failed on the GPU", ("GS713", "GS607")),
    ("LAUNCH_FAILURE", "a kernel of the library failed on the GPU", ("GS713", "GS607")),
    ("MAPPING_ERROR", "memory of the GPU could not be reached", ("GS713",)),
    ("UNHANDLED_CUDA_ERROR", "a call of CUDA failed below NCCL: the driver's own code tells more", ("GS902",)),
    ("SYSTEM_ERROR", "a call of the system failed below NCCL: often /dev/shm or the network", ("GS901", "GS902")),
    ("REMOTE_ERROR", "another rank ended or left", ("GS902",)),
    ("NOT_SUPPORTED", "the GPU or the library's build does not support what was asked for", ("GS607",)),
    ("", "a call was given something wrong, or the library failed inside", ("GS607", "GS902")),
)  # fmt: skip
NODES = {"EPERM": "GS103", "EACCES": "GS104", "EIO": "GS109", "ENXIO": "GS110", "ENODEV": "GS110", "EISDIR": "GS111",
         "ELOOP": "GS111", "ENOENT": "GS111", "ENOTDIR": "GS111", "EMFILE": "GS112", "ENFILE": "GS112"}  # fmt: skip
SIGNALS = {"SIGKILL": ("killed from outside, most often by a memory limit", "GS008"),
           "SIGILL": ("an instruction that the processor does not have", "GS009"),
           "SIGBUS": ("a mapped file or shared memory gave way", "GS010"),
           "SIGSEGV": ("an address that is not the process's own", "GS001"),
           "SIGABRT": ("a library ended the process by itself", "GS001")}  # fmt: skip
# NVIDIA, Xid errors: those that a node with a GPU problem shows.
XIDS = {
    13: ("a kernel failed: a program's fault, or the GPU's when small right kernels fail", ("GS713",)),
    31: ("a kernel used an address that is not its own", ("GS713",)),
    43: ("the GPU stopped a kernel that failed; the GPU goes on", ("GS713",)),
    45: ("work was removed after an earlier error, or by the end of its program", ("GS713",)),
    48: ("an uncorrectable error of the GPU's memory", ("GS711", "GS410")),
    62: ("the GPU's own controller stopped", ("GS405",)),
    63: ("a row of the memory was, or will be, remapped", ("GS417",)),
    64: ("a row of the memory could not be remapped", ("GS417",)),
    74: ("an error of an NVLink", ("GS712",)),
    79: ("the GPU fell off the bus: power, heat, slot or card", ("GS404",)),
    92: ("many single-bit errors of the memory", ("GS410",)),
    94: ("an uncorrectable error that was contained: its program ended", ("GS711",)),
    95: ("an uncorrectable error that was not contained: reset the GPU", ("GS711", "GS405")),
    119: ("the GPU's system processor does not answer", ("GS405", "GS002")),
    120: ("the GPU's system processor failed", ("GS405",)),
    154: ("the driver says what recovery the GPU needs: read the line", ("GS405",)),
}


def _library(family: str) -> list[Number]:
    found = []
    for number, name in STATUS[family].items():
        _, told, codes = next(entry for entry in MEANINGS if name.endswith(entry[0]))
        full = PREFIX[family] + name if family in PREFIX else _nccl(name)
        kept = codes if codes != MEANINGS[-1][2] else (("GS902",) if family == "nccl" else ("GS607",))
        found.append(Number(number, (full,), told, kept))
    return found


def _nccl(name: str) -> str:
    """Return NCCL's spelling: ``ncclSystemError`` for SYSTEM_ERROR."""
    return "nccl" + "".join(part.capitalize() for part in name.split("_"))


def tables() -> dict[str, list[Number]]:
    """Return the numbers of each source by the word that may stand before a number: ``cublas:1``, ``xid:79``."""
    found = {family: _library(family) for family in STATUS}
    found["errno"] = [
        Number(getattr(errno, name), (name,), f"open() of a device node: {os.strerror(getattr(errno, name)).lower()}",
               (code,)) for name, code in NODES.items()
    ]  # fmt: skip
    found["signal"] = [
        Number(signal.Signals[name].value, (name, f"exit:{128 + signal.Signals[name].value}"), told, (code,))
        for name, (told, code) in SIGNALS.items()
    ]
    found["xid"] = [Number(number, (f"Xid {number}",), *told) for number, told in XIDS.items()]
    return found


def find(text: str) -> list[tuple[str, Number]]:
    """Return the entries of a name, or of a number with its source before it; a bare number is an Xid."""
    wanted = text.strip().lower()
    source, _, number = wanted.replace(" ", ":").rpartition(":")
    found = []
    for label, entries in tables().items():
        for entry in entries:
            named = wanted in {name.lower() for name in entry.names}
            if named or (source == label and number == str(entry.number)):
                found.append((label, entry))
    return found or ([("xid", entry) for entry in tables()["xid"] if wanted == str(entry.number)])
