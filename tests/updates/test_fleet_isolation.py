"""The fleet against hostile children: their tests reach nothing but a copy of themselves, their files run nothing."""

from __future__ import annotations

import ctypes
import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fleetkit import isolation
from fleetkit.children import FleetError, check_address, host_in
from fleetkit.fleet_file import load
from fleetkit.isolation import Limits, run_apart
from fleetkit.status import checked

from tests.sampling import every, sampled
from tests.updates.small_fleet import BRANCH, Fleet

pytestmark = pytest.mark.needs("namespaces")
TOKEN = "canary-5d20b1"
MARK = f"77.{os.getpid():07}"  # seconds of a sleep, to find it by
HOSTILE = """\
echo attacked > a.txt; git add --all; git commit -q -m attack; cat .git/config .git/FETCH_HEAD
for place in {folder} {folder}/state {folder}/state/children /home /work; do
    find $place -maxdepth 3 -name '*.json' -o -name '*.git' 2>/dev/null
    touch $place/attacked 2>/dev/null && echo wrote $place
done
cp -r {folder}/state/clones . 2>/dev/null && echo copied
for process in /proc/[0-9]*; do tr '\\0' '\\n' <$process/environ; cat $process/cmdline; done 2>/dev/null
env; umount /usr 2>/dev/null && echo unmounted; ps ax -o args= 2>/dev/null | grep '[f]leet.py'
setsid sleep {mark} & disown
exit 0
"""


@pytest.fixture(scope="module", params=["user", "namespace"])
def way(request: pytest.FixtureRequest) -> str:
    """Return each way to keep tests apart; this machine must know both."""
    reason = isolation.why_not(request.param)
    if reason:
        pytest.skip(f"tests cannot be kept apart {isolation.WAYS[request.param]}: {reason}")
    return str(request.param)


def run_in_cell(
    folder: Path, way: str, command: str, files: dict[str, str] | None = None, **limits: float
) -> tuple[int, str]:
    """Run a command in a cell with small limits; return its exit code and its words."""
    tree = folder / "tree"
    tree.mkdir()
    for name, text in {"own.txt": "own\n", **(files or {})}.items():
        (tree / name).write_text(text)
    given = Limits(**({"seconds": 30, "memory": 256 << 20, "disk": 16 << 20} | limits))  # type: ignore[arg-type]
    code = run_apart(isolation.Tests(command, given, way), tree, folder / "log")
    assert (tree / "own.txt").read_text() == "own\n", "the cell wrote into the tree outside"
    return code, (folder / "log").read_text(errors="replace")


@pytest.mark.parametrize(
    ("command", "expected"),
    sampled(
        [
            ("cat own.txt && echo changed >own.txt && touch $HOME/x /tmp/y && python3 -c 'import ssl'", (0, "own")),
            ("exit 7", (7, "")),
            ("echo core >/proc/sys/kernel/core_pattern && echo unmounted; exit 6", (6, "Read-only")),
            ("kill -9 $$", (137, "")),
            ("touch /usr/x /etc/x /x", (1, "Read-only")),
            ("echo $FLEET_CANARY; ls {folder} /proc/1/root /proc/1/fd; exit 3", (3, "")),
            ("unshare -Urm umount -l /usr && echo unmounted; ls /proc/2/ns >/dev/null; exit 4", (4, "")),
            ("kill -9 1; kill -2 1; exit 5", (5, "")),
            ("dd if=/dev/zero of=/tmp/x bs=1M count=64", (1, "No space left")),
            ("grep -E '^Cap(Eff|Bnd|Prm):[[:space:]]+0+$' /proc/self/status | wc -l | grep -x 3", (0, "3")),
            ("python3 -c 'bytearray(600 << 20)'", (1, "MemoryError")),
            ("yes | head -c 9000000", (0, "more was printed and is not kept")),
        ],
        every(4),
    ),
)
def test_a_cell_holds(command, expected, way, tmp_path, monkeypatch):
    monkeypatch.setenv("FLEET_CANARY", TOKEN)
    (tmp_path / "secret").write_text(TOKEN)
    code, words = run_in_cell(tmp_path, way, command.replace("{folder}", str(tmp_path)))
    assert code == expected[0], words[-2000:]
    assert expected[1] in words
    assert len(words) < 5_000_000
    for leak in (TOKEN, "secret", "unmounted"):
        assert leak not in words, f"{way}: {leak}"


@contextmanager
def a_key_of_the_session(text: str) -> Iterator[int]:
    """Keep a secret in the kernel for this session, as Kerberos does, and give its number; the session is our own."""
    call, numbers = ctypes.CDLL(None).syscall, KEYS.get(os.uname().machine)
    if numbers is None or call(numbers["keyctl"], 1, None) < 0:
        pytest.skip("the kernel keeps no keys here")
    key = call(numbers["add_key"], b"user", b"canary", text.encode(), len(text), -3)
    assert key > 0
    yield key
    call(numbers["keyctl"], 1, None)


READ_KEY = """
import ctypes, os
text = ctypes.create_string_buffer(99)
number = {{"x86_64": 250, "aarch64": 219}}[os.uname().machine]
print(ctypes.CDLL(None).syscall(number, 11, {}, text, 99), text.value)
"""
KEYS = {"x86_64": {"add_key": 248, "keyctl": 250}, "aarch64": {"add_key": 217, "keyctl": 219}}


@pytest.mark.slow
def test_what_many_share_counts_once(way, tmp_path):
    """Workers that load data share it; a file of the folder counts for the folder alone."""
    code, words = run_in_cell(
        tmp_path, way, "dd if=/dev/zero of=weights bs=1M count=60 2>/dev/null && python3 share.py", disk=80 << 20,
        files={"share.py": SHARING},
    )  # fmt: skip
    assert (code, words) == (0, ""), words


SHARING = """
import mmap, os, time
shared = mmap.mmap(-1, 100 << 20)
shared.write(b"x" * (100 << 20))
weights = mmap.mmap(os.open("weights", os.O_RDWR), 0)
workers = []
for _ in range(4):
    if not (child := os.fork()):
        assert shared[::4096] and weights[::4096]
        time.sleep(1)
        os._exit(0)
    workers.append(child)
for one in workers:
    os.waitpid(one, 0)
"""


def test_a_key_of_the_session_and_a_folder_inside_one_that_is_shown_are_out_of_reach(way, tmp_path, monkeypatch):
    """Keys that the kernel keeps for a session go to every process of it; a mount below a read-only one has its own."""
    see = tmp_path / "see"
    (see / "inner").mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=777", "inner", str(see / "inner")], check=True)
    try:
        with a_key_of_the_session(TOKEN) as key:
            command = f"touch {see}/inner/written && echo wrote; python3 -c {shlex.quote(READ_KEY.format(key))}"
            tests = isolation.Tests(command, Limits(seconds=30), way, (str(see),))
            (tmp_path / "tree").mkdir()
            run_apart(tests, tmp_path / "tree", tmp_path / "log")
        words = (tmp_path / "log").read_text()
        assert "Read-only file system" in words, "a folder of this machine was written"
        assert words.splitlines()[-1] == "-1 b''", words
        assert not (see / "inner" / "written").exists()
    finally:
        subprocess.run(["umount", str(see / "inner")], check=True)


SHARED = "import mmap, time; m = mmap.mmap(-1, 150 << 20); [m.write(b'x' * (1 << 20)) for n in range(150)]"
MEMFD = "import os, time; f = [os.memfd_create('x') for n in range(2)]; [os.write(o, b'x' * (150 << 20)) for o in f]"


@pytest.mark.parametrize(
    ("command", "limits", "reason"),
    [
        (f"setsid sleep {MARK} & sleep {MARK}", {"seconds": 1}, "stopped after 1 s"),
        (
            f"for n in 1 2 3; do python3 -c 'import time; x = bytearray(150 << 20); time.sleep({MARK})' & done; wait",
            {},
            "stopped: more than 256 MiB of memory",
        ),
        (
            f'for n in 1 2; do python3 -c "{SHARED}; time.sleep({MARK})" & done; wait',
            {},
            "stopped: more than 256 MiB of memory",
        ),
        pytest.param(
            "bomb() { bomb | bomb & }; bomb; sleep 20",
            {"memory": 4 << 30},
            "processes, where 4096 are allowed",
            marks=pytest.mark.slow,
        ),
        (f'python3 -c "{MEMFD}; time.sleep({MARK})"', {}, "stopped: more than 256 MiB of memory"),
    ],
    ids=["time", "memory", "shared memory", "processes", "files in memory"],
)
def test_a_cell_stops_at_its_limits_with_all_that_it_started(command, limits, reason, way, tmp_path):
    code, words = run_in_cell(tmp_path, way, command, **limits)
    assert (code, reason in words) == (125, True), words
    left = subprocess.run(["pgrep", "-f", MARK], capture_output=True, text=True, check=False)
    assert left.stdout == "", "processes of the cell are left"


def test_the_kernel_holds_the_number_of_processes_of_a_root_and_the_machine_keeps_its_own(tmp_path):
    """A watcher alone came too late: a fork bomb had the machine's last number before it was seen."""
    if reason := isolation.why_not("namespace"):
        pytest.skip(f"tests cannot be kept apart {isolation.WAYS['namespace']}: {reason}")
    limit = Path("/proc/sys/kernel/pid_max")
    before = limit.read_text()
    code, words = run_in_cell(tmp_path, "namespace", f"cat {limit}; echo 99999 >{limit}")
    held = tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 14)
    assert (code != 0, words.splitlines()[0]) == (True, "4096" if held else before.strip()), words
    assert limit.read_text() == before, "the machine's own limit changed"


@pytest.mark.slow
def test_tests_of_a_hostile_child_reach_nothing_and_only_planned_commits_are_pushed(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, {"evil": {"test.sh": HOSTILE.format(folder=tmp_path, mark=MARK)}, "good": {}}, started=True)
    fleet.environment |= {"FLEET_TOKEN": TOKEN, "OTHER_SECRET": TOKEN}
    planned = fleet.plan("--test", "bash test.sh")
    log = (tmp_path / "state" / "logs" / "evil.log").read_text()
    assert planned.returncode == 0, planned.stdout + log
    assert "HOME=/cell/home" in log, "the tests did not run"
    for word in (TOKEN, str(tmp_path), "good", "wrote", "copied", "unmounted", "fleet.py"):
        assert word not in log, f"the tests of a child reached {word}: {log}"
    assert not subprocess.run(["pgrep", "-f", f"sleep {MARK}"], capture_output=True, check=False).stdout
    digest = planned.stdout.splitlines()[-1].removeprefix("plan ")
    other = fleet.run("apply", "--wave", "canary", "--plan", "sha256:" + "0" * 64)
    assert (other.returncode, "not the one that was approved" in other.stderr) == (1, True)
    record = fleet.record("good")
    place = tmp_path / "state" / "children" / "good.json"
    place.write_text(json.dumps(record | {"commit": fleet.record("evil")["commit"]}))
    pushed = fleet.run("apply", "--wave", "canary", "--plan", digest)
    assert pushed.returncode == 6
    assert "is not what the plan made" in str(fleet.record("good")["apply_error"])
    assert BRANCH not in fleet.branches("good")
    commit = fleet.branches("evil")[BRANCH]
    shown = subprocess.run(
        ["git", "show", f"{commit}:a.txt"], cwd=fleet.bare["evil"], capture_output=True, text=True, check=True
    )
    assert "attacked" not in shown.stdout.splitlines(), "what a test committed was pushed"
    place.write_text(json.dumps(record))
    assert fleet.run("apply", "--wave", "canary", "--plan", digest).returncode == 0


def test_where_nothing_keeps_tests_apart_they_do_not_run(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, {"one": {"test.sh": f"touch {tmp_path}/ran\n"}})
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "unshare").write_text("#!/bin/sh\necho unshare: not permitted >&2\nexit 1\n")
    (tmp_path / "bin" / "unshare").chmod(0o755)
    fleet.environment["PATH"] = f"{tmp_path / 'bin'}:{fleet.environment['PATH']}"
    refused = fleet.plan("--test", "bash test.sh")
    assert refused.returncode == 1
    [line] = refused.stderr.strip().splitlines()
    assert "unshare: not permitted" in line
    assert "--tests-without-isolation" in line
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "state" / "plan.json").exists(), "a plan was begun"
    assert fleet.plan("--test", "bash test.sh", "--tests-without-isolation").returncode == 0
    assert (tmp_path / "ran").exists()


def add_commit(fleet: Fleet, name: str, link: str, target: Path) -> None:
    """Put a link and attributes that name a program into a child."""
    work = fleet.folder / "work" / name
    (work / link).unlink(missing_ok=True)
    (work / link).symlink_to(target)
    (work / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    for step in (
        ["add", "--all"],
        ["commit", "--quiet", "--message=A link"],
        ["push", "--quiet", str(fleet.bare[name]), "HEAD:main"],
    ):
        subprocess.run(["git", *step], cwd=work, check=True, capture_output=True, env=fleet.environment)


def test_attributes_links_and_settings_run_and_write_nothing(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, {"evil": {}})
    target = tmp_path / "outside.txt"
    target.write_text("line 1\nmine\n")
    add_commit(fleet, "evil", "a.txt", target)
    program = f"ps -o args= $PPID >>{tmp_path}/ran; cat"
    (tmp_path / "hooks-of-a-person").mkdir()
    hook = tmp_path / "hooks-of-a-person" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    with Path(fleet.environment["GIT_CONFIG_GLOBAL"]).open("a", encoding="utf-8") as settings:
        for kind, keys in {"filter": ("clean", "smudge"), "diff": ("textconv",), "merge": ("driver",)}.items():
            settings.write(f'[{kind} "evil"]\n' + "".join(f'\t{key} = "{program}"\n' for key in keys))
        settings.write(f"[core]\n\thooksPath = {hook.parent}\n")
    fleet.plan("--test", "test -L a.txt")
    assert target.read_text() == "line 1\nmine\n", "the update wrote through a link"
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()
    commit = str(fleet.record("evil")["commit"])
    clone = tmp_path / "state" / "clones" / "evil"
    mode = subprocess.run(["git", "ls-tree", commit, "a.txt"], cwd=clone, capture_output=True, text=True, check=True)
    assert mode.stdout.startswith("120000"), "the owner's link did not stay a link"


@pytest.mark.parametrize(
    "address",
    [
        "--upload-pack=touch ran",
        "-oProxyCommand=x",
        "ext::sh -c true",
        "fd::17",
        "ext://x",
        "a\nb",
        "https://x/\x1b[2J",
    ],
)
def test_addresses_that_would_run_something_are_refused(address, tmp_path):
    with pytest.raises(FleetError) as error:
        check_address(address)
    assert error.value.args[0].isprintable()
    (tmp_path / "fleet.yml").write_text(json.dumps({"children": [{"url": address}]}))
    with pytest.raises(FleetError):
        load(tmp_path / "fleet.yml")


def test_the_host_of_an_address():
    for address, host in {
        "https://git.example.com/a/b.git": "git.example.com",
        "https://git.example.com:8443/a.git": "git.example.com",
        "ssh://git@git.example.com/a.git": "git.example.com",
        "git@git.example.com:a/b.git": "git.example.com",
        "git.example.com:a/b.git": "git.example.com",
        "file:///srv/a.git": "",
        "/srv/a.git": "",
        "../a.git": "",
    }.items():
        check_address(address)
        assert host_in(address) == host, address


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("--upload-pack=touch {folder}/ran", "is not an address"),
        ("ext::touch {folder}/ran", "is not an address"),
        ("https://elsewhere.example.com/family.git", "whose host is not one of the fleet's"),
    ],
)
def test_status_asks_no_host_that_a_child_names(source, words, tmp_path):
    with pytest.raises(FleetError, match=words):
        checked(source.format(folder=tmp_path), {"git.example.com", ""})
    assert not os.listdir(tmp_path)
