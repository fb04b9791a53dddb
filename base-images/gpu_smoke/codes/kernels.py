"""Findings of the kernels and the memory: GS7xx."""

from __future__ import annotations

from ..hands import by_another_gpu, by_capabilities, by_driver, by_host, by_packages
from . import Code

CODES = [
    Code(
        id="GS701",
        layer="kernels",
        title="No kernel for this GPU",
        symptom="CUDA error 209 `no kernel image is available`",
        cause="the program holds no code for the GPU's architecture",
        detect="loading a module gives 209",
        fix="Use a build with code for compute capability {value}, or with PTX.",
        source="vllm-project/vllm#20193; pytorch/pytorch#180101",
    ),
    Code(
        id="GS702",
        layer="kernels",
        severity="warning",
        title="PTX of this CUDA is too new for the driver",
        symptom="CUDA error 222 `unsupported toolchain`",
        cause="the toolkit is newer than the driver within one major: JIT is not covered",
        detect="a PTX kernel stamped with the image's own version ({value}) gives 222, the old one runs",
        fix=by_driver(
            "{full}",
            "ship compiled code (SASS) for this GPU",
        ),
        source="NVIDIA/nvbandwidth#61; vllm-project/vllm PR#28305; tensorflow/tensorflow#65448",
    ),
    Code(
        id="GS703",
        layer="kernels",
        title="The JIT compiler is not in the container",
        symptom="CUDA error 221 `PTX JIT compiler library not found`",
        cause="libnvidia-ptxjitcompiler was not mounted",
        detect="loading a PTX module gives 221",
        fix=by_capabilities(
            "Install libnvidia-ptxjitcompiler of the driver's version.",
            container=(
                "Set `NVIDIA_DRIVER_CAPABILITIES=compute,utility` and update the container toolkit or its CDI"
                " spec (libnvidia-ptxjitcompiler)."
            ),
        ),
        source="NVIDIA/nvidia-container-toolkit#1875; jax-ml/jax#9644",
    ),
    Code(
        id="GS704",
        layer="kernels",
        title="A kernel computed wrong numbers",
        symptom="results differ from the CPU",
        cause="a faulty GPU, or a driver that compiles wrongly",
        detect="a kernel of integer arithmetic against plain Python",
        fix=by_another_gpu("take it out of service."),
        apart=(
            "the same command on another GPU of the same kind: right there, it is the GPU; wrong there too, "
            "it is the driver"
        ),
        source="gpu-smoke",
    ),
    Code(
        id="GS705",
        layer="kernels",
        title="A kernel could not run",
        symptom="the call and its code in the evidence",
        cause="see the code; after an earlier fault the GPU may need a reset",
        detect="return codes of context, module load, launch and copy",
        fix={
            "*": "Look up {name} ({value}) in CUDA's error list and read the kernel log for Xid lines.",
            "kubernetes": (
                "Look up {name} ({value}) in CUDA's error list; start the pod on another node: works there, "
                "tell the cluster's administrator."
            ),
            "slurm": (
                "Look up {name} ({value}) in CUDA's error list; submit again with `--exclude={node}`: works "
                "there, tell the site's administrators."
            ),
        },
        source="gpu-smoke",
    ),
    Code(
        id="GS706",
        layer="memory",
        severity="warning",
        title="The GPU's memory is nearly full",
        symptom="out of memory at the first real batch",
        cause="another process holds it",
        detect="cuMemGetInfo: less than 5 % is free",
        fix={
            "*": "Find the other process with `nvidia-smi`: end it if it is yours, or use another GPU.",
            "kubernetes": "Request a GPU of the pod's own (no time-slicing), or start it on another node.",
            "slurm": (
                "End what this job left on the GPU (`nvidia-smi`), or ask for a whole GPU (`--gres=gpu:1`, no"
                " `mps` or `shard`)."
            ),
        },
        apart="`nvidia-smi` names the processes; none listed, they are of another container",
        source="gpu-smoke",
    ),
    Code(
        id="GS707",
        layer="memory",
        title="Memory was not returned",
        symptom="free memory shrinks from run to run",
        cause="the driver does not give back what the test took and freed",
        detect="cuMemGetInfo before and after allocate, write, read and free",
        fix=by_another_gpu(
            "reset it when nobody uses it.",
            any="Run again on an idle GPU; if it stays, reset the GPU when nobody uses it.",
        ),
        source="gpu-smoke",
    ),
    Code(
        id="GS708",
        layer="memory",
        title="Memory could not be used",
        symptom="the call and its code in the evidence",
        cause="no free memory, or a fault of the GPU",
        detect="allocate, write, read back and compare a block",
        fix={
            "*": "Free GPU memory; read the kernel log for Xid lines if there was enough.",
            "kubernetes": (
                "Free GPU memory; if there was enough, start the pod on another node: works there, tell the "
                "cluster's administrator."
            ),
            "slurm": (
                "Free GPU memory; if there was enough, submit again with `--exclude={node}`: works there, "
                "tell the site's administrators."
            ),
        },
        source="gpu-smoke",
    ),
    Code(
        id="GS709",
        layer="memory",
        severity="info",
        title="Another process uses memory of this GPU",
        symptom="free memory changes while the test runs",
        cause="a neighbour on the same GPU, or a display, took memory meanwhile",
        detect="cuMemGetInfo before and after: the difference is not what the test itself took and gave back",
        fix="Nothing to do if the GPU is shared; `nvidia-smi` names the processes.",
        source="gpu-smoke",
    ),
    Code(
        id="GS711",
        layer="kernels",
        title="Uncorrectable errors in the GPU's memory",
        symptom="CUDA error 214, Xid 48, 63, 64, 94 or 95",
        cause="memory of the GPU failed",
        detect="a call gives 214",
        fix=by_host(
            "reset the GPU (`nvidia-smi --gpu-reset`) or reboot, so that the row is remapped; replace the"
            " card if it comes back."
        ),
        source="NVIDIA, GPU memory error management",
    ),
    Code(
        id="GS712",
        layer="kernels",
        title="Uncorrectable errors on NVLink",
        symptom="CUDA error 220, Xid 74",
        cause="a link between GPUs failed",
        detect="a call gives 220",
        fix=by_host(
            "`nvidia-smi nvlink -e`; reset the GPUs or reboot, and have the link's ends checked if it comes back."
        ),
        source="NVIDIA, Xid errors",
    ),
    Code(
        id="GS713",
        layer="kernels",
        title="A kernel died on the GPU",
        symptom="CUDA errors 226, 700, 702, 714 to 719, Xid 13, 31 or 43",
        cause=(
            "a faulty GPU or driver: these kernels are small and right; on a display 702 is its watchdog; 226"
            " is a neighbour's error"
        ),
        detect="the launch or the wait for it gives one of these codes",
        fix=by_another_gpu("read the kernel log for Xid lines, reset it or take it out of service."),
        apart=("`dmesg | grep -i xid`: 13 or 31 on a single GPU points to the card, on every GPU to the driver"),
        source="CUDA driver API, CUresult; NVIDIA, Xid errors",
    ),
    Code(
        id="GS714",
        layer="kernels",
        title="The driver's compiler refuses valid PTX",
        symptom="CUDA error 218",
        cause="libnvidia-ptxjitcompiler is damaged or of another driver version than libcuda",
        detect="loading a PTX text that every driver compiles gives 218",
        fix=by_packages(
            "Reinstall the driver, so that libcuda and libnvidia-ptxjitcompiler are of one version.",
            container=(
                "Recreate the container, and remove any libnvidia-ptxjitcompiler that was copied into the image."
            ),
            apptainer="Remove any libnvidia-ptxjitcompiler that was copied into the image, and start with `--nv`.",
            kubernetes="Delete the pod, and remove any libnvidia-ptxjitcompiler that was copied into the image.",
            slurm_node=(
                "Take folders with libnvidia-ptxjitcompiler of your own out of LD_LIBRARY_PATH; if it stays, "
                "submit again with `--exclude={node}`."
            ),
        ),
        apart=("`ls -l $(ldconfig -p | grep -oE '/[^ ]*(libcuda|ptxjitcompiler)[^ ]*')`: two versions, they are mixed"),
        source="CUDA driver API, CUresult",
    ),
    Code(
        id="GS715",
        layer="memory",
        title="The GPU's memory gives back other bytes",
        symptom="wrong results, NaN from nowhere, checksums that do not hold",
        cause="a cell of the GPU's memory is stuck, or a copy over PCIe or NVLink is damaged",
        detect="a block is filled with random bytes, then with their complement, and all of it is read back",
        fix=by_host(
            (
                "take the GPU out of service, reset it (`nvidia-smi --gpu-reset`) and test again; replace the"
                " card if it stays."
            ),
            any=(
                "Take the GPU out of service, reset it (`nvidia-smi --gpu-reset`) and test again; replace the"
                " card if it stays."
            ),
        ),
        apart=(
            "`nvidia-smi -q -d ECC,ROW_REMAPPER`: counts above 0, it is the memory; none, look at the link "
            "(`nvidia-smi -q | grep -i replay`)"
        ),
        source="gpu-smoke",
    ),
    Code(
        id="GS716",
        layer="thorough",
        title="The GPU's memory fails under load",
        symptom="wrong results or crashes after minutes of work, seldom right after a start",
        cause="cells of the GPU's memory are weak when it is warm, or a multiprocessor compares wrongly",
        detect="--thorough: words of their own and their complement over most of the free memory, checked on the GPU",
        fix=by_host(
            (
                "take the GPU out of service, reset it (`nvidia-smi --gpu-reset`) and test again; replace the"
                " card if it stays."
            ),
            any=(
                "Take the GPU out of service, reset it (`nvidia-smi --gpu-reset`) and test again; replace the"
                " card if it stays."
            ),
        ),
        apart=(
            "the evidence: few bits or one place, it is a cell; every bit and many places, together with GS717, it is "
            "a multiprocessor"
        ),
        source="gpu-smoke",
    ),
    Code(
        id="GS717",
        layer="thorough",
        title="Matrix products go wrong under load",
        symptom="losses jump or become NaN after minutes of training",
        cause="a multiprocessor that fails when it is warm or its voltage drops; rarer: memory (GS716 beside it)",
        detect="--thorough: sums of matrix products whose results are known, compared bit by bit",
        fix=by_host(
            (
                "look at power and cooling (`nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE`); take the GPU "
                "out of service."
            ),
            any=(
                "Look at power and cooling (`nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE`); take the GPU "
                "out of service."
            ),
        ),
        apart="GS716 beside it: the memory is the likelier; alone, and with clocks lowered (GS411): power or cooling",
        source="gpu-smoke",
    ),
    Code(
        id="GS718",
        layer="kernels",
        title="Compiling PTX is switched off",
        symptom="CUDA error 223",
        cause="CUDA_DISABLE_PTX_JIT=1 is set",
        detect="loading a PTX module gives 223",
        fix="Unset CUDA_DISABLE_PTX_JIT.",
        source="CUDA programming guide, environment variables",
    ),
]
