"""Findings of the toolkit libraries: GS6xx."""

from __future__ import annotations

from ..hands import by_another_gpu
from . import Code

CODES = [
    Code(
        id="GS601",
        layer="toolkit",
        title="A toolkit library is missing",
        symptom="`Cannot dlopen some GPU libraries`, or `cannot open shared object file`",
        cause="the image does not ship {value}, or its folder is not in the loader's cache",
        detect="loading it by its name and from the wheel folders fails",
        fix=(
            "Install the wheel that holds {value} (for TensorFlow: `tensorflow[and-cuda]`), list its folder "
            "in /etc/ld.so.conf.d and run ldconfig."
        ),
        source="tensorflow/tensorflow#81344, #62412",
    ),
    Code(
        id="GS602",
        layer="toolkit",
        title="A toolkit library cannot be loaded",
        symptom="the loader's message in the evidence",
        cause="a damaged file, or a dependency that is missing or of another version",
        detect="dlopen's message and the file's ELF header",
        fix="Restore {path}, and keep one version of each CUDA library on the loader's path.",
        apart="`ldd {path}` names what is missing; nothing missing: compare its size with the package's",
        source="measured on NVIDIA's runtimes 12.9 and 13.5 over an injected driver",
    ),
    Code(
        id="GS603",
        layer="toolkit",
        title="Another nvJitLink shadows the right one",
        symptom="`undefined symbol: __nvJitLinkAddData_12_1` or alike",
        cause="LD_LIBRARY_PATH puts an older CUDA before the image's own libraries",
        detect="the message names an nvJitLink symbol; the nvJitLink the loader takes is in another folder",
        fix="Take {folder} out of LD_LIBRARY_PATH.",
        source="pytorch/pytorch#111469, #140797; infiniflow/ragflow#4466",
    ),
    Code(
        id="GS604",
        layer="toolkit",
        title="Two copies of one library family",
        symptom="crashes, wrong results or symbol errors that depend on the import order",
        cause="one process mapped {value} from {folders}",
        detect="/proc/self/maps, grouped by family, major version and folder",
        fix="Keep one copy: remove the other folder from LD_LIBRARY_PATH, or the package that brings it.",
        source="pytorch/pytorch#111469",
    ),
    Code(
        id="GS605",
        layer="toolkit",
        title="cuDNN's parts come from two folders",
        symptom="`CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH`",
        cause="one process mapped cuDNN's sublibraries from {folders}",
        detect="/proc/self/maps, grouped by folder",
        fix="Keep one cuDNN: remove the other folder from LD_LIBRARY_PATH, or the package that brings it.",
        source="pytorch/pytorch#185512",
    ),
    Code(
        id="GS606",
        layer="toolkit",
        title="A library computes wrong numbers",
        symptom="training diverges, results differ from the CPU",
        cause="a faulty GPU, or a library that does not fit GPU or driver",
        detect="a small computation on the GPU against plain Python",
        fix=by_another_gpu("take it out of service; if all are wrong, pin another version of {value}."),
        apart=(
            "the same command on another GPU of the same kind: right there, it is the GPU; wrong there too, "
            "it is the library"
        ),
        source="DCGM software test; gpu-smoke",
    ),
    Code(
        id="GS607",
        layer="toolkit",
        title="A library call failed",
        symptom="the call and its code in the evidence",
        cause="a library that does not fit the GPU or the driver, or no free GPU memory",
        detect="every call's return code",
        fix="Free GPU memory and run again; then compare {value} with the versions of the image row.",
        apart="`nvidia-smi`: memory that others hold; enough free, compare the versions",
        source="gpu-smoke",
    ),
    Code(
        id="GS608",
        layer="toolkit",
        title="Library versions do not fit the image row",
        symptom="works by luck, or fails at the first newer function",
        cause="a package was installed over the image's locked set",
        detect="version getters against image.json: {value}",
        fix="Install under /opt/base/constraints.txt, or rebuild the image from its lock.",
        source="this project's image contract",
    ),
    Code(
        id="GS609",
        layer="toolkit",
        severity="warning",
        title="The loader does not find a library by its name",
        symptom="C++ programs, ctypes users and TensorFlow miss a library that is installed",
        cause="the wheel's folder is not in the loader's cache",
        detect="the bare name fails, the wheel's file loads",
        fix="List {folder} in /etc/ld.so.conf.d and run ldconfig.",
        source="tensorflow/tensorflow#63362",
    ),
    Code(
        id="GS610",
        layer="toolkit",
        severity="warning",
        title="A loaded library was deleted on disk",
        symptom="new processes behave differently from running ones",
        cause="a package was upgraded in place",
        detect="/proc/self/maps marks {path} as deleted",
        fix={
            "*": "Restart the programs.",
            "container": "Restart the programs; recreate the container.",
            "kubernetes": "Delete the pod, so that it starts anew.",
            "apptainer": "Restart the programs.",
        },
        source="measured on NVIDIA's runtimes 12.9 and 13.5 over an injected driver",
    ),
    Code(
        id="GS611",
        layer="toolkit",
        severity="info",
        title="The framework loads another copy than the loader finds",
        symptom="a program beside the framework gives other results, or has other faults, than the framework",
        cause="the framework brings its own {value}, and the loader finds another one first",
        detect="/proc/self/maps of two processes: one loads by name, one imports the framework",
        fix="Nothing to do while no process loads both; to have one copy, remove the other: {folders}.",
        source="gpu-smoke",
    ),
    Code(
        id="GS612",
        layer="toolkit",
        title="A library did not finish in time, and the GPU works",
        symptom="the first call of {value} takes minutes on a new kind of GPU",
        cause=(
            "the library has no compiled code for this GPU and compiles it at first use; else it waits for a slow file "
            "system"
        ),
        detect="the library's layer ran over --timeout while kernels of our own computed right on the same GPU",
        fix=(
            "Run again with `--timeout 1800` and a CUDA_CACHE_PATH that is kept (CUDA_CACHE_MAXSIZE=4294967296), or "
            "use an image whose {value} has code for this GPU."
        ),
        apart="run it again: much faster, it was compiling; as slow, look where it waits (`py-spy dump`)",
        source="CUDA programming guide, just-in-time compilation",
    ),
]
