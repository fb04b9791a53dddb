"""What is in an image agrees with the catalogue, resolves, loads and computes; nothing else is in it."""

from __future__ import annotations

import json
import re
import time

import docker
import pytest
from image_tools.build_plan import OCI_PREFIX, image_facts, labels
from image_tools.catalog import installed_pins, live_rows, lock_path

from . import probes
from .conftest import CATALOG, Built

pytestmark = pytest.mark.images


def test_labels_and_image_json_describe_the_row(image: Built) -> None:
    """Every fact and label that the catalogue computes; the day is that of the last commit when the image was built."""
    facts = json.loads(image.run("cat", "/opt/base/image.json"))
    wanted = image_facts(CATALOG, image.row) | {"created": facts["created"]}
    assert {key: facts.get(key) for key in wanted} == wanted, image.name
    for key, value in (labels(CATALOG, image.row) | {f"{OCI_PREFIX}.created": facts["created"]}).items():
        assert image.image.labels.get(key) == value, f"{image.name}: label {key}"
    assert image.run("python", "--version").split()[1].rsplit(".", 1)[0] == CATALOG["python"]


def test_installed_packages_are_those_of_the_lock(image: Built) -> None:
    """The environment holds the lock's packages in the lock's versions and nothing else; so say the constraints."""
    code = (
        "import json, sysconfig, importlib.metadata as m; site = sysconfig.get_path('purelib');"
        "name = lambda d: d.metadata['Name'].lower().replace('_', '-');"
        "print(json.dumps({name(d): d.version for d in m.distributions(path=[site])}))"
    )
    locked = {name: pin.version for name, pin in installed_pins(CATALOG, image.name).items()}
    assert json.loads(image.python(code)) == locked, f"{image.name}: installed differs from requirements.lock"
    constraints = dict(line.split("==") for line in image.run("cat", "/opt/base/constraints.txt").split())
    assert constraints == locked, f"{image.name}: /opt/base/constraints.txt differs from requirements.lock"
    assert image.run("cat", "/opt/base/requirements.lock") == lock_path(image.name).read_text()


def test_one_file_for_each_cuda_library_name(image: Built) -> None:
    """No CUDA library appears twice under one soname.

    Triton brings a private CUPTI for its profiler, which loads it by path and never through the loader's search.
    """
    found = json.loads(image.python(probes.SONAMES))
    assert found, f"{image.name}: no CUDA library at all"
    public = {name: [path for path in paths if "/triton/" not in path] for name, paths in found.items()}
    doubles = {name: paths for name, paths in public.items() if len(paths) > 1}
    assert not doubles, f"{image.name}: {doubles}"


def test_every_library_resolves(image: Built) -> None:
    """Every ELF file finds the libraries it names, except the driver's, which the node brings."""
    found = json.loads(image.python(probes.UNRESOLVED))
    assert found["files"] > 300, f"{image.name}: only {found['files']} ELF files were looked at"
    assert not found["missing"], f"{image.name}:\n" + "\n".join(found["missing"])


def test_decoys_cannot_replace_the_libraries_of_the_framework(image: Built) -> None:
    """With broken copies of all CUDA libraries first in LD_LIBRARY_PATH the framework still maps the locked ones."""
    framework = image.row["framework"]
    if framework == "plain":
        pytest.skip("a plain image has no framework; a program that loads by bare name follows LD_LIBRARY_PATH")
    found = json.loads(image.run("python", "-c", probes.DECOYS, framework).splitlines()[-1])
    assert found["code"] == 0, f"{image.name}: {found['error']}"
    assert any("libcudart" in path for path in found["mapped"]), f"{image.name}: {framework} mapped no CUDA runtime"
    assert all(path.startswith("/opt/env/") for path in found["mapped"]), f"{image.name}: {found['mapped']}"


def test_torch_finds_what_was_trimmed_around(image: Built) -> None:
    """Triton, the compiler front end and the profiler of torch import without the trimmed parts."""
    if image.row["framework"] != "torch":
        pytest.skip("only the torch images hold Triton")
    code = (
        "import torch, triton, triton.language, triton.profiler;"
        "import torch.distributed, torch.utils.cpp_extension, sympy, networkx;"
        "x = torch.randn(8, 3, 32, 32); y = torch.compile(torch.nn.Conv2d(3, 4, 3), backend='aot_eager')(x);"
        "exec('with torch.profiler.profile() as p: torch.fft.fft(x).abs().sum()');"
        "print(tuple(y.shape), torch.linalg.svd(x[0, 0]).S.shape[0], triton.backends.backends['nvidia'] is not None)"
    )
    assert image.python(code).splitlines()[-1] == "(8, 4, 30, 30) 32 True"


def test_nothing_surprising_is_inside(image: Built) -> None:
    """No compiler, installer, package cache, left-over, key file, setuid or setgid program."""
    found = json.loads(image.python(probes.SURPRISES, user="root"))
    assert not found, f"{image.name}:\n" + "\n".join(found)
    history = " ".join(str(entry.get("CreatedBy", "")) for entry in image.image.history())
    assert not re.search(r"(token|password|secret)=\S", history, re.IGNORECASE), (
        f"{image.name}: a secret in the history"
    )


def test_upgrades_bring_no_setuid_program_back(image: Built) -> None:
    """dpkg is told to keep the programs as they are: installing passwd again leaves them without setuid."""
    listed = image.run("dpkg-statoverride", "--list", user="root").split("\n")
    kept = {line.split()[3]: line.split()[2] for line in listed if line}
    assert "/usr/bin/passwd" in kept, f"{image.name}: {listed}"
    assert all(int(mode, 8) & 0o6000 == 0 for mode in kept.values()), f"{image.name}: {kept}"


def test_any_user_of_group_zero_can_work(image: Built) -> None:
    """OpenShift gives a container a user id that the image does not know, in group 0."""
    code = (
        "import getpass, os, pathlib; pathlib.Path('/app/x').write_text('x');"
        "(pathlib.Path.home() / 'x').write_text('x'); print(getpass.getuser(), pathlib.Path.home(), os.getuid())"
    )
    found = image.python(code, user="1000680000:0")
    assert found == "app /home/app 1000680000", f"{image.name}: {found}"


def test_the_user_is_app_and_app_is_writable(image: Built) -> None:
    """Programs run as uid 1000 in /app, may write there and at home, and nowhere else that matters."""
    code = (
        "import os, pathlib; print(os.getuid(), os.getcwd(), os.environ['HOME']);"
        "print([p for p in ('/app', '/home/app', '/tmp', '/opt/env', '/opt/base', '/usr/local/bin', '/etc')"
        " if os.access(p, os.W_OK)])"
    )
    assert image.python(code).splitlines() == ["1000 /app /home/app", "['/app', '/home/app', '/tmp']"]


def test_the_environment_is_as_documented(image: Built) -> None:
    """LD_LIBRARY_PATH holds the driver's folders only; the guard asks for the row's driver; one certificate bundle."""
    env = dict(entry.split("=", 1) for entry in image.image.attrs["Config"]["Env"])
    assert env["LD_LIBRARY_PATH"] == "/usr/local/nvidia/lib:/usr/local/nvidia/lib64"
    assert env["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert env["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility"
    assert env["NVIDIA_REQUIRE_CUDA"] == f"driver>={image.row['driver_min']}"
    assert "CUDA_VERSION" not in env, "it would mark a legacy image, whose guard asks for more"
    assert len({env[key] for key in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT")}) == 1
    assert image.run("which", "python", "python3").split() == ["/opt/env/bin/python", "/opt/env/bin/python3"]


def test_process_one_reaps_and_forwards_the_stop_signal(image: Built) -> None:
    """tini is process 1: an orphan that ends leaves no zombie, and SIGTERM reaches the program at once."""
    code = (
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('stopped', flush=True), sys.exit(0)))\n"
        "subprocess.run(['sh', '-c', 'sleep 0.2 & exit 0'])\n"
        "time.sleep(1)\n"
        "numbers = [name for name in os.listdir('/proc') if name.isdigit()]\n"
        "states = [open(f'/proc/{number}/stat').read().rsplit(')')[1].split()[0] for number in numbers]\n"
        "print(open('/proc/1/comm').read().strip(), 'Z' in states, flush=True)\n"
        "time.sleep(60)\n"
    )
    container = image.client.containers.run(image.tag, ["python", "-c", code], detach=True, network_mode="none")
    try:
        deadline = time.monotonic() + 30
        while b"tini" not in container.logs() and time.monotonic() < deadline:
            time.sleep(0.2)
        started = time.monotonic()
        container.stop(timeout=20)
        took = time.monotonic() - started
        assert container.logs().decode().split() == ["tini", "False", "stopped"], image.name
        assert container.wait()["StatusCode"] == 0, image.name
        assert took < 10, f"{image.name}: stopped after {took:.1f} s"
    finally:
        container.remove(force=True)


def test_the_smoke_test_passes_without_a_gpu_and_finds_the_versions_of_the_row(image: Built) -> None:
    """gpu-smoke loads each library by its name, and compares the framework with the row."""
    report = json.loads(image.run("sh", "-c", "gpu-smoke --mode image --json /tmp/report >&2; cat /tmp/report"))
    found = {layer["name"]: layer["version"] for layer in report["layers"]}
    assert (report["verdict"], found["runtime"], found["nccl"]) == ("pass", image.row["cuda"], image.row["nccl"])
    pins = installed_pins(CATALOG, image.name)
    wanted = {family: rf"nvidia-{family}(-cu\d+)?" for family in ("cublas", "cudnn", "cufft", "cusolver", "cusparse")}
    for family, pattern in wanted.items():
        pin = next(pin.version for name, pin in pins.items() if re.fullmatch(pattern, name))
        assert pin.startswith(found[family] or "missing"), f"{image.name}: {family} is {found[family]}, locked is {pin}"
    with pytest.raises(docker.errors.ContainerError) as failure:
        image.run("gpu-smoke", "--require", "gpu")
    assert failure.value.exit_status == 1, f"{image.name}: a missing GPU counted as a pass"


def test_the_frameworks_part_of_the_smoke_test_computes(image: Built) -> None:
    """What gpu-smoke asks of torch and TensorFlow on a GPU runs in the image's own framework; here, on the CPU."""
    framework = image.row["framework"]
    if framework == "plain":
        pytest.skip(f"{image.name} has no framework")
    code = (
        "import sys; sys.path.insert(0, '/opt/base/lib')\n"
        f"import {framework} as module\n"
        "from gpu_smoke.layers import framework\n"
        f"adapter = framework.ADAPTERS['{framework}']\n"
        "for name, run in adapter.operations(module).items():\n"
        "    print(name, framework.difference(run(adapter.CPU), run(adapter.CPU)) <= framework.TOLERANCE[name])\n"
    )
    said = image.run("python", "-c", code).splitlines()[-4:]
    assert said == ["forward True", "backward True", "convolution True", "bf16 True"], f"{image.name}: {said}"


@pytest.fixture(scope="session")
def trimmed() -> dict[str, dict[str, int]]:
    """Return, for each row that was looked at, how many files each trim rule removed; the tests below fill it."""
    return {}


def test_what_was_trimmed_is_recorded(image: Built, trimmed: dict[str, dict[str, int]]) -> None:
    """The image says which rules removed how many files, and names no rule that the catalogue lacks."""
    text = image.run("sh", "-c", "cat /opt/base/trimmed/*.json")
    found = trimmed.setdefault(image.name, {})
    for part in re.findall(r"\[.*?\]", text, re.DOTALL):
        for rule in json.loads(part):
            found[rule["reason"]] = found.get(rule["reason"], 0) + rule["files"]
    assert sum(found.values()), f"{image.name}: nothing was trimmed"
    unknown = set(found) - {rule["reason"] for rule in CATALOG["trims"]}
    assert not unknown, f"{image.name}: rules that catalog.yml does not know: {sorted(unknown)}"


def test_every_trim_rule_still_does_something(trimmed: dict[str, dict[str, int]]) -> None:
    """Each rule of the catalogue found files in at least one image: a rule that no longer works is noticed."""
    missing = {row["name"] for row in live_rows(CATALOG)} - set(trimmed)
    if missing:
        pytest.skip(f"needs what was trimmed in every image; not looked at in this run: {', '.join(sorted(missing))}")
    counts = {rule["reason"]: sum(row.get(rule["reason"], 0) for row in trimmed.values()) for rule in CATALOG["trims"]}
    idle = [reason for reason, files in counts.items() if not files]
    assert not idle, f"these rules of catalog.yml found nothing in any image: {idle}"
