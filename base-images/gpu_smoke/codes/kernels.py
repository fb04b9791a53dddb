"""Findings of the kernels and the memory: GS7xx."""

from __future__ import annotations

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
        fix="Update the host driver{full}, or ship compiled code (SASS) for this GPU.",
        source="NVIDIA/nvbandwidth#61; vllm-project/vllm PR#28305; tensorflow/tensorflow#65448",
    ),
    Code(
        id="GS703",
        layer="kernels",
        title="The JIT compiler is not in the container",
        symptom="CUDA error 221 `PTX JIT compiler library not found`",
        cause="libnvidia-ptxjitcompiler was not mounted",
        detect="loading a PTX module gives 221",
        fix={
            "*": "Install libnvidia-ptxjitcompiler of the driver's version.",
            "container": (
                "Set `NVIDIA_DRIVER_CAPABILITIES=compute,utility` and update the container toolkit or its CDI spec."
            ),
        },
        source="NVIDIA/nvidia-container-toolkit#1875; jax-ml/jax#9644",
    ),
    Code(
        id="GS704",
        layer="kernels",
        title="A kernel computed wrong numbers",
        symptom="results differ from the CPU",
        cause="a faulty GPU, or a driver that compiles wrongly",
        detect="a kernel of integer arithmetic against plain Python",
        fix="Run again on another GPU; take this one out of service if only it is wrong.",
        source="gpu-smoke",
    ),
    Code(
        id="GS705",
        layer="kernels",
        title="A kernel could not run",
        symptom="the call and its code in the evidence",
        cause="see the code; after an earlier fault the GPU may need a reset",
        detect="return codes of context, module load, launch and copy",
        fix="Look up {name} ({value}) in CUDA's error list and read the kernel log for Xid lines.",
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
        fix="Find the other process with `nvidia-smi` and stop it, or use another GPU.",
        source="gpu-smoke",
    ),
    Code(
        id="GS707",
        layer="memory",
        title="Memory was not returned",
        symptom="free memory shrinks from run to run",
        cause="the driver leaked the test's memory, or another process took memory meanwhile",
        detect="cuMemGetInfo before and after allocate, write, read and free",
        fix="Run again on an idle GPU; reset the GPU if it stays.",
        source="gpu-smoke",
    ),
    Code(
        id="GS708",
        layer="memory",
        title="Memory could not be used",
        symptom="the call and its code in the evidence",
        cause="no free memory, or a fault of the GPU",
        detect="allocate, write, read back and compare a block",
        fix="Free GPU memory; read the kernel log for Xid lines if there was enough.",
        source="gpu-smoke",
    ),
]
