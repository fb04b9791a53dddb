"""What the loader's own message means, with what the machine says of the file."""

from __future__ import annotations

import os
import re

from . import explanations
from .verdicts import Context, Finding, finding


def explain(context: Context, error: str, soname: str, path: str = "") -> Finding | None:
    """Return the finding that a message of dlopen means; None where it only says that ``soname`` is not there."""
    named = re.match(r"(/?[^\s:]+\.so[^\s:]*):", error)
    file = path or (named.group(1) if named else soname)
    glibc = re.search(r"version `(GLIBC\w*_[\d.]+)' not found", error)
    if glibc:
        return finding(context, "GS226", error, path=file, value=glibc.group(1))
    if "static TLS" in error:
        return finding(context, "GS229", error, path=file)
    if "failed to map segment" in error or "cannot apply additional memory protection" in error:
        return _not_mapped(context, error, file)
    if "Permission denied" in error:
        return finding(context, "GS228", _labelled(context, error, file), path=file)
    if "Too many open files" in error:
        return finding(context, "GS112", error, "error", path=file)
    missing = re.match(r"([^\s:/]+\.so[^\s:]*): cannot open shared object file", error)
    if missing and missing.group(1) != soname:
        return finding(context, "GS225", error, path=file, value=missing.group(1))
    return None


def _not_mapped(context: Context, error: str, file: str) -> Finding:
    """Tell apart why a file could not be mapped: addresses, a mount without execution, a security module."""
    limit = explanations.limited(context, error)
    if "Cannot allocate memory" in error and limit:
        return limit
    options = mount_options(context, file)
    if "noexec" in options or ("Operation not permitted" in error and not options):
        told = f"{error}; its mount has the options {','.join(options)}" if options else error
        return finding(context, "GS227", told, path=file, folder=os.path.dirname(file) or ".")
    return finding(context, "GS228", _labelled(context, error, file), path=file)


def mount_options(context: Context, file: str) -> list[str]:
    """Return the options of the mount that holds a file; empty when it cannot be told (proc(5), mountinfo)."""
    shown = context.host.shown(os.path.realpath(file)) if "/" in file else ""
    best: tuple[int, list[str]] = (0, [])
    for line in (context.host.read("/proc/self/mountinfo") or "").splitlines():
        fields = line.split()
        if len(fields) > 5 and shown.startswith("/"):
            place = fields[4].rstrip("/") + "/"
            if f"{shown}/".startswith(place) and len(place) >= best[0]:
                best = (len(place), fields[5].split(","))
    return best[1]


def _labelled(context: Context, error: str, file: str) -> str:
    """Add what the machine says of its security modules to the evidence."""
    told = []
    if (context.host.read("/sys/fs/selinux/enforce") or "").strip() == "1":
        told.append("SELinux enforces")
    profile = (context.host.read("/proc/self/attr/current") or "").strip().strip("\0")
    if profile and profile != "unconfined":
        told.append(f"this process runs as {profile}")
    return "; ".join([error, *told])
