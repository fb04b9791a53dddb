"""Findings of a library that does not load, whichever it is: GS225 to GS229."""

from __future__ import annotations

from . import Code

CODES = [
    Code(
        id="GS225",
        layer="any",
        title="A library that another one needs is missing",
        symptom="`{value}: cannot open shared object file`, though the library asked for is there",
        cause="a dependency was not installed, or not mounted with the driver",
        detect="the loader's message names another library than the one that was opened",
        fix={
            "*": "Install what brings {value}, or put its folder on the loader's path.",
            "container": (
                "Install what brings {value} in the image; if it is one of the driver's (libnvidia-*), "
                "recreate the container with `NVIDIA_DRIVER_CAPABILITIES=compute,utility`."
            ),
            "apptainer": (
                "Install what brings {value} in the image; if it is one of the driver's (libnvidia-*), start "
                "with `--nv`."
            ),
            "kubernetes": (
                "Install what brings {value} in the image; if it is one of the driver's (libnvidia-*), set "
                "`NVIDIA_DRIVER_CAPABILITIES=compute,utility` in the pod's `env`."
            ),
            "slurm": "Load the module that brings {value} (`module avail`), or put its folder on LD_LIBRARY_PATH.",
        },
        apart="`ldd {path} | grep 'not found'`",
        source="dlopen(3)",
    ),
    Code(
        id="GS226",
        layer="any",
        title="The C library of this image is too old for a library",
        symptom="version `GLIBC_2.34' not found",
        cause=(
            "the library, often the host's driver that was mounted, was built for a newer {value} than this image has"
        ),
        detect="the loader's message",
        fix="Use an image with a newer operating system, or a build of {path} for an older one.",
        source="dlopen(3)",
    ),
    Code(
        id="GS227",
        layer="any",
        title="A library lies on a mount without execution",
        symptom="`failed to map segment from shared object`",
        cause="the filesystem is mounted with `noexec`; rarer: a security module refuses",
        detect="the loader's message and the mount's options",
        fix="Mount {folder} without `noexec`, or copy the library to a folder that allows execution.",
        apart=("`findmnt -T {path} -o OPTIONS`: noexec listed, it is the mount; not listed, read the audit log"),
        source="mount(8)",
    ),
    Code(
        id="GS228",
        layer="any",
        title="A security module or a file mode refuses a library",
        symptom=("`failed to map segment: Permission denied` or `cannot open shared object file: Permission denied`"),
        cause=("file mode or folder mode; else SELinux or AppArmor forbids this process to read or map {path}"),
        detect="the loader's message, /sys/fs/selinux and the process's profile",
        fix={
            "*": (
                "`chmod a+rx {path}` and its folders; else relabel it (`restorecon -v {path}`) or correct the"
                " AppArmor profile."
            ),
            "container": (
                "On the host: `setsebool -P container_use_devices=1` or the mount option `:z`; for AppArmor "
                "run with a profile that allows {path}."
            ),
            "apptainer": "Make {path} readable for the calling user, or use a copy in a folder of your own.",
            "kubernetes": (
                "Set the pod's `securityContext.seLinuxOptions` or `appArmorProfile` to one that allows "
                "{path}; in the image: make it readable for the pod's user."
            ),
            "slurm": (
                "Make {path} readable if it is yours; else use a copy of your own, or tell the site's administrators."
            ),
        },
        apart="`ls -lZ {path}; ausearch -m avc -ts recent; dmesg | grep -i apparmor` on the host",
        source="NVIDIA/nvidia-container-toolkit#210",
    ),
    Code(
        id="GS229",
        layer="any",
        title="No room for a library's thread-local data",
        symptom="`cannot allocate memory in static TLS block`",
        cause="another library that was loaded first took the room (often libgomp or a preloaded one)",
        detect="the loader's message",
        fix="Load {path} first (LD_PRELOAD={path}), or import the framework before other packages.",
        source="dlopen(3)",
    ),
]
