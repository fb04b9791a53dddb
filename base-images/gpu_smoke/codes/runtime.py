"""Findings of the runtime and the compatibility verdict: GS5xx."""

from __future__ import annotations

from ..hands import by_driver, by_host
from . import Code

CODES = [
    Code(
        id="GS501",
        layer="runtime",
        title="The runtime found no libcuda",
        symptom="CUDA error 35 `driver version is insufficient`, although nothing is old",
        cause="libcudart could not load libcuda.so.1: its error is the same as for an old driver",
        detect="cudaDriverGetVersion gives 0",
        fix={
            "*": "Put the driver's folder on LD_LIBRARY_PATH; see the layer user-driver.",
            "docker": "Start with `docker run --gpus all`; see the layer user-driver.",
            "jetson-docker": "Start with `docker run --runtime nvidia`; see the layer user-driver.",
            "podman": "Start with `podman run --device nvidia.com/gpu=all`; see the layer user-driver.",
            "apptainer": "Start with `apptainer run --nv`; see the layer user-driver.",
        },
        source="measured on NVIDIA's runtimes 12.9 and 13.5 over an injected driver",
    ),
    Code(
        id="GS502",
        layer="runtime",
        title="The driver is too old for this CUDA runtime",
        symptom="CUDA error 35 `driver version is insufficient`",
        cause="the runtime is CUDA {runtime}, the driver offers CUDA {driver}",
        detect="cudaGetDeviceCount gives 35 and cudaDriverGetVersion is above 0",
        fix=by_driver(
            " to branch {minimum} or newer",
            "use an image of an older CUDA, or cuda-compat on data-centre GPUs",
            wsl=(
                "The Windows driver is too old for this CUDA: update it in Windows to branch {minimum} or "
                "newer, then `wsl --shutdown`; or use an image of an older CUDA."
            ),
        ),
        apart="`nvidia-smi` on the host shows the newest CUDA of its driver",
        source="NVIDIA/nvidia-docker#1442, #747",
    ),
    Code(
        id="GS503",
        layer="runtime",
        title="The call needs a newer driver",
        symptom="CUDA error 36",
        cause="a function that minor-version compatibility does not cover",
        detect="cudaGetDeviceCount gives 36",
        fix=by_driver(
            " to the one that came with CUDA {runtime}",
            "use an image of an older CUDA",
        ),
        source="NVIDIA, CUDA Compatibility",
    ),
    Code(
        id="GS504",
        layer="runtime",
        title="The runtime sees devices it cannot use",
        symptom="CUDA error 46",
        cause="another process holds the GPU in exclusive mode",
        detect="cudaGetDeviceCount gives 46",
        fix=by_host(
            "`nvidia-smi -c 0`.",
            any=(
                "Wait for the process that holds the GPU, or end it if it is yours; if nobody wants the mode:"
                " `nvidia-smi -c 0` on the host."
            ),
            kubernetes=(
                "Let one pod have the GPU (request `nvidia.com/gpu: 1`, no sharing), or start it on another "
                "node; the cluster's administrator can say who set the mode: `nvidia-smi -q -d COMPUTE,PIDS`."
            ),
            slurm=(
                "Use one process for each GPU, and end those of this job that are left (`nvidia-smi`); the "
                "mode is the site's choice: ask its administrators if two must share a GPU."
            ),
            wsl="End the Windows or Linux program that holds the GPU, or use another GPU.",
        ),
        apart="`nvidia-smi -q -d COMPUTE,PIDS`: the mode, and who holds the GPU",
        source="NVIDIA/nvidia-docker#572",
    ),
    Code(
        id="GS505",
        layer="runtime",
        title="The runtime's start failed",
        symptom="cudaGetDeviceCount gives the code shown",
        cause="see the code's text in CUDA's documentation",
        detect="any other code of cudaGetDeviceCount while cuInit works",
        fix="Look up code {value} in CUDA's error list (cudaError_t).",
        source="CUDA runtime API, cudaError_t",
    ),
    Code(
        id="GS506",
        layer="runtime",
        title="libcudart is missing",
        symptom="`libcudart.so.<major>: cannot open shared object file`",
        cause="the image ships no CUDA runtime, or its folder is not in the loader's cache",
        detect="loading {value} by its name and from the wheel folders fails",
        fix=(
            "Install nvidia-cuda-runtime for the image's CUDA, list its folder in /etc/ld.so.conf.d and run ldconfig."
        ),
        source="tensorflow/tensorflow#81344",
    ),
    Code(
        id="GS507",
        layer="runtime",
        title="libcudart cannot be loaded",
        symptom="the loader's message in the evidence",
        cause="the file is empty, truncated, a directory or of another architecture",
        detect="ELF header of the file the loader finds first",
        fix={
            "*": "Restore {path}: install its package again, or pull the image again.",
        },
        source="measured on NVIDIA's runtimes 12.9 and 13.5 over an injected driver",
    ),
    Code(
        id="GS511",
        layer="compatibility",
        title="The runtime's major version is above the driver's",
        symptom="CUDA error 35",
        cause="CUDA {runtime} over a driver of CUDA {driver} without cuda-compat",
        detect="versions, and the runtime's own answer",
        fix=by_driver(
            " to branch {minimum} or newer",
            "use an image of CUDA {driver_major}, or cuda-compat on data-centre GPUs",
        ),
        source="NVIDIA, CUDA Compatibility",
    ),
    Code(
        id="GS512",
        layer="compatibility",
        severity="info",
        title="Minor-version compatibility",
        symptom="works; JIT of PTX from the newer toolkit and its newest functions may not",
        cause="the runtime is newer than the driver within one CUDA major",
        detect="versions; the PTX probe proves what JIT can do",
        fix=by_driver(
            "{full}",
            "leave it: only JIT from CUDA {runtime} needs that",
            any="Nothing to do; for JIT from CUDA {runtime}, update the host driver{full}.",
            kubernetes="Nothing to do; for JIT from CUDA {runtime}, run on nodes whose driver was updated{full}.",
            slurm="Nothing to do; for JIT from CUDA {runtime}, run on nodes whose driver was updated{full}.",
            wsl="Nothing to do; for JIT from CUDA {runtime}, update the driver in Windows{full}.",
            jetson="Nothing to do; for JIT from CUDA {runtime}, update JetPack.",
        ),
        source="NVIDIA, CUDA Compatibility",
    ),
    Code(
        id="GS513",
        layer="compatibility",
        severity="info",
        title="Forward compatibility is active",
        symptom="works on data-centre GPUs",
        cause="libcuda {libcuda} of a cuda-compat package runs over the older kernel module {kernel}",
        detect="libcuda's version is above the kernel module's, and cuInit works",
        fix="Nothing to do.",
        source="NVIDIA, CUDA Compatibility",
    ),
    Code(
        id="GS514",
        layer="compatibility",
        title="The kernel driver's branch is below the CUDA major's minimum",
        symptom="CUDA error 35 or 36, or missing functions",
        cause="CUDA {runtime_major} needs driver branch {minimum}, the kernel module is {kernel}",
        detect="kernel module's branch against the minimum, no forward compatibility active",
        fix=by_driver(
            " to branch {minimum} or newer",
            "use an image of an older CUDA",
        ),
        source="NVIDIA, CUDA Compatibility",
    ),
    Code(
        id="GS515",
        layer="compatibility",
        title="Forward compatibility does not work here",
        symptom="CUDA error 36, 100, 803, 804 or 999 with a compat libcuda",
        cause="the compat package does not support this GPU or this base driver",
        detect="libcuda is newer than the kernel module and cuInit fails",
        fix=by_driver(
            "",
            "take {folder} out of the loader's path",
            any="Take {folder} out of the loader's path, or update the host driver.",
        ),
        source="VIAME/VIAME#273; NVIDIA/nvidia-docker#1515",
    ),
    Code(
        id="GS516",
        layer="compatibility",
        title="The driver is below the image's floor",
        symptom="the framework refuses the GPU, or a kernel cannot be compiled",
        cause="the image row asks for branch {minimum}, the kernel module is {kernel}",
        detect="image.json driver_min against the kernel module, no forward compatibility active",
        fix=("Run on a node with driver branch {minimum} or newer, or use the family's image for older drivers."),
        source="this project's image catalogue",
    ),
    Code(
        id="GS517",
        layer="compatibility",
        severity="info",
        title="cuda-compat is loaded where nobody needs it",
        symptom="works today; CUDA error 803 as soon as the host's driver is newer than the compat package",
        cause="a compat folder is always on the loader's path, also where the host's driver is new enough by itself",
        detect="libcuda is of a compat folder, and the host's branch brings a CUDA at least as new as the runtime's",
        fix="Take {folder} out of LD_LIBRARY_PATH and ld.so.conf, or put it there only on hosts with an older driver.",
        source="NVIDIA, CUDA Compatibility",
    ),
]
