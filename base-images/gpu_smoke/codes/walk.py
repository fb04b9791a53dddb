"""Findings of the walk itself: GS0xx."""

from __future__ import annotations

from ..hands import by_host
from . import Code

CODES = [
    Code(
        id="GS001",
        layer="any",
        title="A library crashed the probe",
        symptom="the program dies with a signal, often without a message",
        cause="a damaged, half-upgraded or wrong library; sometimes a tool injected into the process",
        detect="the layer's child process ended by a signal; the report names the call it was in",
        fix={
            "*": (
                "Replace {path}: restore the package or the mount it comes from; unset CUDA_INJECTION64_PATH and "
                "LD_PRELOAD."
            ),
        },
        apart=(
            "`dmesg | tail` names the library of a segfault; run again with LD_PRELOAD and "
            "CUDA_INJECTION64_PATH unset: gone, it was the injected tool"
        ),
        source="fault injection in tests/gpu_smoke",
    ),
    Code(
        id="GS002",
        layer="any",
        title="A call never came back",
        symptom="the program hangs at its first GPU call",
        cause=("a wedged GPU or kernel module, a dead mount under a library, or a deadlock in an injected tool"),
        detect=(
            "the layer's child process was still running after --timeout seconds; the report names the call it was in"
        ),
        fix=by_host(
            ("read the kernel log for Xid lines, reset the GPU or reboot; raise --timeout if it is only slow."),
            any=(
                "Read the kernel log for Xid lines, then reset the GPU or reboot; raise --timeout if it is only slow."
            ),
        ),
        apart=(
            "`dmesg | grep -iE 'xid|hung task'` on the host: an Xid or a hung task, it is the GPU or its "
            "module; nothing, an injected tool or a dead mount"
        ),
        source="fault injection in tests/gpu_smoke",
    ),
    Code(
        id="GS003",
        layer="any",
        title="The probe ended without an answer",
        symptom="the program ends early with no error",
        cause="a library called exit(), closed our pipe or was killed by the memory limit",
        detect="the layer's child process ended with a status but sent no result",
        fix="Run the layer again with more memory; replace {path} if it calls exit() on its own.",
        source="fault injection in tests/gpu_smoke",
    ),
    Code(
        id="GS004",
        layer="any",
        title="The probe raised an unexpected error",
        symptom="a Python traceback in the layer's details",
        cause="an answer that gpu-smoke does not know",
        detect="an exception inside the layer's child process",
        fix="Report it with the JSON file; the traceback is in the layer's facts.",
        source="gpu-smoke",
    ),
    Code(
        id="GS005",
        layer="platform",
        title="image.json cannot be used",
        symptom="versions and promised architectures of the image are unknown",
        cause="/opt/base/image.json is not a JSON object, or cannot be read",
        detect="read and parse the file",
        fix="Rebuild the image: its build writes {path}.",
        source="this project's image contract",
    ),
    Code(
        id="GS006",
        layer="platform",
        severity="warning",
        title="A harmful variable is set",
        symptom="crashes, slow starts or odd results at the first CUDA call",
        cause=(
            "a tool or a library is put into every process, a folder of link-time stubs is on the loader's path, or "
            "what helped to find a fault was left set"
        ),
        detect=(
            "read CUDA_INJECTION64_PATH, NSIGHT_CUDA_DEBUGGER, LD_PRELOAD, LD_LIBRARY_PATH, CUDA_LAUNCH_BLOCKING, "
            "CUDA_FORCE_PTX_JIT and CUDA_FORCE_JIT"
        ),
        fix="Unset it, or take the folder out: {value}",
        source="numba/numba#8985; DCGM software test",
    ),
    Code(
        id="GS007",
        layer="any",
        title="A required layer did not run",
        symptom="the report says skip where a pass is required",
        cause="the image, the command line or the machine lacks what the layer needs",
        detect="a layer at or below --require is not a pass: a skip proves nothing",
        fix="Give the layer what it needs ({value}), or require less.",
        source="gpu-smoke",
    ),
    Code(
        id="GS008",
        layer="any",
        title="The probe was killed from outside",
        symptom="`Killed`, exit status 137, OOMKilled in Kubernetes",
        cause=(
            "the container's memory limit ({limit}) is too small for the libraries of the layer; seldom a "
            "person or a job manager's time limit"
        ),
        detect="the layer's child process ended by SIGKILL, which no library sends itself",
        fix={
            "*": "Raise the memory limit (it is {limit}): frameworks need several GiB to load.",
            "docker": "Run with a larger `--memory` (it is {limit}): frameworks need several GiB to load.",
            "kubernetes": (
                "Raise `resources.limits.memory` of the container (it is {limit}): frameworks need several GiB to load."
            ),
            "slurm": "Ask for more with `--mem` (the limit is {limit}): frameworks need several GiB to load.",
        },
        apart={
            "*": "`oom_kill` in /sys/fs/cgroup/memory.events: counted, it was the limit",
            "kubernetes": "`kubectl describe pod`: OOMKilled, it was the limit",
            "slurm": "`sacct -j $SLURM_JOB_ID -o State,MaxRSS`: OUT_OF_MEMORY, it was the limit",
        },
        source="cgroups(7)",
    ),
    Code(
        id="GS009",
        layer="any",
        title="The processor lacks an instruction that a library uses",
        symptom="`Illegal instruction`, exit status 132",
        cause=(
            "a library was built for a newer processor (AVX, AVX2), or a virtual machine hides the processor's features"
        ),
        detect="the layer's child process ended by SIGILL",
        fix={
            "*": (
                "Use a build for this processor, or give the virtual machine the host's processor type; the "
                "library: {path}."
            ),
            "kubernetes": (
                "Use a build for this processor, or a node with a newer one (nodeSelector); the library: {path}."
            ),
            "slurm": (
                "Use a build for this processor, or a node with a newer one (`--constraint`); the library: {path}."
            ),
        },
        apart=(
            "`grep -o -w -m1 -e avx -e avx2 /proc/cpuinfo`: not shown in the guest and shown on the host, it "
            "is the virtual machine"
        ),
        source="signal(7)",
    ),
    Code(
        id="GS010",
        layer="any",
        title="A mapped file or shared memory gave way",
        symptom="`Bus error`, exit status 135",
        cause="/dev/shm is full, or a library's file was cut off or replaced while it was mapped",
        detect="the layer's child process ended by SIGBUS",
        fix={
            "*": "Make room in /dev/shm; restore {path} if its file was changed.",
            "docker": "Run with `--shm-size=1g`, for room in /dev/shm; restore {path} if its file was changed.",
            "podman": "Run with `--shm-size=1g`, for room in /dev/shm; restore {path} if its file was changed.",
            "kubernetes": (
                "Mount an emptyDir with `medium: Memory` at /dev/shm; restore {path} in the image if its file"
                " was changed."
            ),
        },
        apart="`df /dev/shm`: full, it is shared memory; else the file",
        source="signal(7); NVIDIA/nccl#290",
    ),
]
