"""Fix lines by whose hands they need: who runs in a pod or a job cannot do, and must not do, what the owner can."""

from __future__ import annotations

WINDOWS = (
    "Restart Windows; if it stays, update the NVIDIA driver in Windows, then `wsl --update` and `wsl --shutdown`; "
    "install no Linux driver inside WSL."
)
JETPACK = "Restart the Jetson; if it stays, reinstall JetPack's driver (the packages nvidia-l4t-*) or flash it anew."
CAPABLE = "NVIDIA_DRIVER_CAPABILITIES=compute,utility"


def by_host(work: str, **own: str) -> dict[str, str]:
    """Return fix lines for what is done on the machine itself; who does not own it leaves it, and knows whom to ask.

    ``own`` are a platform's own lines; ``any`` stands for ``*``.
    """
    lines = {
        "*": f"On the host: {work}",
        "kubernetes": f"Start the pod on another node; the cluster's administrator, after a drain of this one: {work}",
        "slurm": f"Submit again with `--exclude={{node}}`; the site's administrators, when no job runs there: {work}",
        "wsl": WINDOWS,
        "jetson": JETPACK,
    }
    return _with(lines, own)


def by_driver(which: str, otherwise: str, **own: str) -> dict[str, str]:
    """Return fix lines for a driver that is too old; ``which`` says from when on it is right."""
    lines = {
        "*": f"Update the host driver{which}, or {otherwise}.",
        "kubernetes": f"Run on nodes whose driver was updated{which}, or {otherwise}.",
        "slurm": f"Run on nodes whose driver was updated{which} (`--exclude={{node}}`), or {otherwise}.",
        "wsl": f"Update the driver in Windows{which}, then `wsl --shutdown`; or {otherwise}.",
        "jetson": f"Update JetPack, which brings the driver, or {otherwise}.",
    }
    return _with(lines, own)


def by_another_gpu(work: str, **own: str) -> dict[str, str]:
    """Return fix lines for a GPU that may be broken; ``work`` is what its owner does with it."""
    lines = {
        "*": f"Run again on another GPU; if only this one fails: {work}",
        "kubernetes": (
            f"Run again on another node; if only this GPU fails, the cluster's administrator, after a drain: {work}"
        ),
        "slurm": f"Run again with `--exclude={{node}}`; if only this GPU fails, the site's administrators: {work}",
    }
    return _with(lines, own)


def by_packages(work: str, **own: str) -> dict[str, str]:
    """Return fix lines for a file of the driver that is not right; ``work`` is for no container."""
    lines = {
        "*": work,
        "container": (
            "Recreate the container; if it stays, reinstall the driver on the host, or take {path} out of the image."
        ),
        "apptainer": "Start again with `--nv`; if it stays, the host's administrator reinstalls the driver: {path}.",
        "kubernetes": (
            "Delete the pod; if it stays, take {path} out of the image, or start the pod on another node and tell the "
            "cluster's administrator that this node's driver is not whole."
        ),
        "slurm-node": "Submit again with `--exclude={node}` and tell the site's administrators: {path}.",
        "wsl": WINDOWS,
        "jetson": JETPACK,
    }
    return _with(lines, own)


def by_capabilities(otherwise: str, **own: str) -> dict[str, str]:
    """Return fix lines for a part of the driver that the container did not get; ``otherwise`` is for no container."""
    lines = {
        "*": otherwise,
        "container": f"Set `{CAPABLE}` for the container and recreate it.",
        "apptainer": "Start it with `apptainer run --nv`, so that all of the host's driver is mounted.",
        "kubernetes": f"Set `{CAPABLE}` in the pod's `env` and delete the pod.",
        "gke": "Put /usr/local/nvidia/lib64 on LD_LIBRARY_PATH in the pod's `env`; the node's driver lies there.",
        "slurm-node": (
            "Submit again with `--exclude={node}` and tell the site's administrators: it lacks a part of the driver."
        ),
        "wsl": WINDOWS,
        "jetson": JETPACK,
    }
    return _with(lines, own)


def _with(lines: dict[str, str], own: dict[str, str]) -> dict[str, str]:
    return {**lines, **{name.replace("_", "-").replace("any", "*"): text for name, text in own.items()}}


# Another process holds the GPU in exclusive mode, or the mode forbids all.
EXCLUSIVE = by_host(
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
)
