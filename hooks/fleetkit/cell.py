"""Run one command where it can harm nothing: the first process of namespaces of its own, started by fleetkit.isolation.

It makes a new root that holds the system, the listed folders (read-only) and one folder of limited size in memory,
drops every right, and stops the command at its limits. When this process ends, the kernel ends all that it started
and the folder is gone. Only the standard library: it runs with `python -I`, outside of the fleet's environment.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SETTINGS = (  # of /etc, what programs need to run and to reach a package index; no folder that may hold a secret
    "alternatives", "ca-certificates", "ca-certificates.conf", "group", "host.conf", "hosts", "ld.so.cache",
    "ld.so.conf", "ld.so.conf.d", "localtime", "mime.types", "nsswitch.conf", "passwd", "pki", "protocols",
    "resolv.conf", "services", "ssl/certs", "ssl/openssl.cnf",
)  # fmt: skip
DEVICES = ("null", "zero", "full", "random", "urandom")
KERNEL = ("sys", "sysrq-trigger", "irq", "bus", "acpi", "scsi")  # of /proc, what steers the whole machine
PROCESSES = 4096  # and threads
PIDS = ("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max")  # how many this machine, or its container, may have
SHARED = ("/memfd:", "/dev/zero (deleted)", "/SYSV")  # how memory that processes share is called where it has no file
KEYCTL = {"x86_64": 250, "aarch64": 219}  # the number of the system call
POLL_SECONDS = 0.2
STOPPED = 125  # the exit code when a limit was reached; the reason is the last line that is printed


def run(*command: str) -> None:
    """Run one step; its own words say what is not possible here."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"cell: {' '.join(command)}: {done.stderr.strip()}")


def show(source: Path, root: Path, read_only: bool = True) -> None:
    """Make `source` visible under `root`, in the same place."""
    target = root / source.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_symlink():
        target.symlink_to(source.readlink())
        return
    target.mkdir(exist_ok=True) if source.is_dir() else target.touch()
    run("mount", "--rbind", str(source), str(target))
    for place in mounts_at(target) if read_only else ():
        flags = os.statvfs(place).f_flag
        kept = [name for name, bit in (("noexec", os.ST_NOEXEC), ("nodev", os.ST_NODEV)) if flags & bit]
        run("mount", "-o", ",".join(["remount,bind,ro,nosuid", *kept]), place)


def mounts_at(target: Path) -> list[str]:
    """Return what is mounted at a place and below it: each is read-only or not for itself."""
    top = os.path.realpath(target)
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    places = [re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), line.split(" ")[4]) for line in lines]
    return list(dict.fromkeys(place for place in places if place == top or place.startswith(f"{top}/")))


def show_all(places: Iterable[Path], root: Path) -> None:
    """Make what is there of `places` visible under `root`."""
    for source in places:
        if os.path.lexists(source):
            show(source, root)


def build_root(spec: dict[str, Any]) -> None:
    """Make the new root and go into it; what was there before is out of reach."""
    root = Path(spec["root"])
    run("mount", "--make-rprivate", "/")
    run("mount", "-t", "tmpfs", "-o", "size=4m,mode=755,nosuid", "cell", str(root))
    system = [Path(name) for name in SYSTEM] + [Path("/etc", name) for name in SETTINGS]
    show_all(system, root)
    for name in DEVICES:
        show(Path("/dev", name), root, read_only=False)
    for name, target in {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}.items():
        (root / "dev" / name).symlink_to(target)
    work = root / "cell"
    work.mkdir()
    files = f"nr_inodes={max(spec['disk'] >> 12, 10_000)}"  # an empty file takes memory that `size` does not count
    run("mount", "-t", "tmpfs", "-o", f"size={spec['disk']},{files},mode=755,nosuid,nodev", "cell", str(work))
    for name in ("home", "tmp", "shm"):
        (work / name).mkdir()
    run("cp", "-a", spec["tree"], str(work / "tree"))
    if spec["uid"] is not None:
        run("chown", "-R", "-h", f"{spec['uid']}:{spec['uid']}", *(str(entry) for entry in work.iterdir()))
    for place, own in {"tmp": "tmp", "var/tmp": "tmp", "dev/shm": "shm"}.items():
        (root / place).mkdir(parents=True)
        run("mount", "--bind", str(work / own), str(root / place))
    show_all((Path(name) for name in spec["readable"]), root)  # after /tmp, where one of them may lie
    for name in ("proc", "old"):
        (root / name).mkdir()
    run("mount", "-t", "proc", "-o", "nosuid,nodev,noexec", "proc", str(root / "proc"))
    if spec["uid"] is None:
        limit_numbers(root / "proc", spec["processes"])
    for place in (str(root / "proc" / name) for name in KERNEL):  # where the tests run as root, its files are theirs
        if os.path.exists(place):
            run("mount", "--bind", place, place)
            run("mount", "-o", "remount,bind,ro,nosuid,nodev,noexec", place)
    os.chdir(root)
    run("pivot_root", ".", "old")
    os.chdir("/")
    run("umount", "-l", "/old")
    run("mount", "-o", "remount,ro,size=4m,mode=755,nosuid", "/")


def most_processes() -> int:
    """Return how many processes the command may have: at most a quarter of what its container may."""
    told = [Path(name).read_text().strip() for name in PIDS if os.path.exists(name)]
    return min([PROCESSES, *(int(number) // 4 for number in told if number.isdecimal())])


def limit_numbers(proc: Path, processes: int) -> None:
    """Hold the number of processes where the user is root, for whom the kernel's limit of a user does not count.

    The numbers that processes get have an end in each namespace since Linux 6.14; before, it is the whole machine's.
    """
    found = re.match(r"(\d+)\.(\d+)", os.uname().release)
    if found and tuple(map(int, found.groups())) >= (6, 14):
        with contextlib.suppress(OSError):
            (proc / "sys" / "kernel" / "pid_max").write_text(str(processes))


def at_work() -> tuple[int, int, int]:
    """Return how many threads all processes have, the bytes that they hold for themselves, and those that they share.

    What is shared counts for each that has it mapped.
    """
    threads = own = mapped = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in status.read_text(errors="replace").splitlines() if ":" in line)
        except OSError:  # it ended meanwhile
            continue
        threads += int(fields.get("Threads", "1"))
        own += int(fields.get("RssAnon", "0 kB").split()[0]) * 1024
        mapped += int(fields.get("RssShmem", "0 kB").split()[0]) * 1024
    return threads, own, mapped


def held_open() -> dict[str, int]:
    """Return the bytes of each file in memory that a process has open, mapped or not."""
    held = {}
    for name in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if os.readlink(name).startswith(SHARED):
                about = name.stat()
                held[str(about.st_ino)] = about.st_blocks * 512
    with contextlib.suppress(OSError):  # segments that nobody has mapped now: the column of pages in memory
        for row in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]:
            words = row.split()
            held |= {f"segment {words[1]}": int(words[14])} if words[6] == "0" else {}
    return held


def shared_without_file() -> dict[str, int]:
    """Return the bytes of each piece of memory that processes share by no file of the folder, by its inode.

    A page that several have mapped counts once: each has its part of it.
    """
    found: dict[str, int] = {}
    for maps in Path("/proc").glob("[0-9]*/smaps"):
        inode = ""
        try:
            lines = maps.read_text(errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            words = line.split(None, 5)
            if not words[0].endswith(":"):  # the head of a mapping: place, rights, offset, device, inode, name
                inode = words[4] if len(words) == 6 and words[5].startswith(SHARED) else ""
            elif inode and words[0] == "Pss:":
                found[inode] = found.get(inode, 0) + int(words[1]) * 1024
    return found


@contextlib.contextmanager
def as_user(uid: int | None) -> Iterator[None]:
    """See what the user of the command may see of its processes: a root that was cut down may not."""
    if uid is None:
        yield
        return
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def used_memory(own: int, mapped: int, limit: int, uid: int | None) -> int:
    """Return the bytes of memory that all processes in here take, what they share too but for files of the folder."""
    with as_user(uid):
        held = held_open()
        if own + mapped + sum(held.values()) <= limit:
            return own
        shared = shared_without_file()
    return own + sum(max(held.get(inode, 0), shared.get(inode, 0)) for inode in held.keys() | shared.keys())


def limit(memory: int, processes: int) -> None:
    """Set what one process may take; the sum over all is watched."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))


def watch(job: subprocess.Popen[bytes], spec: dict[str, Any]) -> int:
    """Wait for the command; return its exit code, or STOPPED at a limit."""
    until = time.monotonic() + spec["seconds"]
    while True:
        try:
            code = job.wait(POLL_SECONDS)
            return code if code >= 0 else 128 - code
        except subprocess.TimeoutExpired:
            pass
        threads, own, mapped = at_work()
        if time.monotonic() > until:
            reason = f"stopped after {spec['seconds']:.0f} s"
        elif threads > spec["processes"] * 0.9:  # the kernel says no to the next ones, which need not end the command
            reason = f"stopped: {threads} processes, where {spec['processes']} are allowed"
        elif used_memory(own, mapped, spec["memory"], spec["uid"]) > spec["memory"]:
            reason = f"stopped: more than {spec['memory'] >> 20} MiB of memory"
        else:
            continue
        print(f"\n{reason}", flush=True)
        return STOPPED


def take(spec: dict[str, Any]) -> None:
    """Hand out the files that the command is to leave, as JSON (name to text); what is not plain text is left out.

    It reads as the user of the command, so that a link shows nothing that the command could not see.
    """
    if spec["uid"] is not None:
        os.setgroups([])
        os.setresgid(spec["uid"], spec["uid"], spec["uid"])
        os.setresuid(spec["uid"], spec["uid"], spec["uid"])
    found = {}
    for place in sorted(Path("/cell/tree").glob(spec["take"])):
        try:
            file = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue
        with os.fdopen(file, "rb") as opened:
            about = os.fstat(file)
            if stat.S_ISREG(about.st_mode) and about.st_size <= spec["take_limit"]:
                with contextlib.suppress(UnicodeError):
                    found[place.name] = opened.read(spec["take_limit"]).decode()
    with os.fdopen(spec["take_into"], "w", encoding="utf-8") as out:
        json.dump(found, out)


def forget_keys() -> None:
    """Leave the keys that the kernel keeps for the session of whoever runs the fleet: processes inherit them."""
    with contextlib.suppress(ImportError, OSError, KeyError):
        import ctypes

        ctypes.CDLL(None).syscall(KEYCTL[os.uname().machine], 1, None)  # KEYCTL_JOIN_SESSION_KEYRING: a new one


def main() -> int:
    """Run the command of the JSON that comes in: not an argument, which everybody on this machine could read."""
    spec = json.load(sys.stdin)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the kernel keeps signals without a handler from this process
    forget_keys()
    spec["processes"] = most_processes()
    build_root(spec)
    drop = ["setpriv", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
    if spec["uid"] is not None:
        drop += [f"--reuid={spec['uid']}", f"--regid={spec['uid']}", "--clear-groups"]
    job = subprocess.Popen(
        [*drop, "bash", "-c", spec["command"]], cwd="/cell/tree", env=spec["environment"], stdin=subprocess.DEVNULL,
        preexec_fn=lambda: limit(spec["memory"], spec["processes"]),
    )  # fmt: skip
    code = watch(job, spec)
    if code == 0 and spec.get("take"):
        take(spec)
    return code


if __name__ == "__main__":
    sys.exit(main())
