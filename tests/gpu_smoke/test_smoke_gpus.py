"""Which GPU: numbers, UUIDs and buses of CUDA, NVML and the kernel module put together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gpu_smoke.gpus import cuda_name, gpu_name, known
from gpu_smoke.host import Host
from gpu_smoke.platforms import detect
from gpu_smoke.policy import Options
from gpu_smoke.requested_gpus import uncounted
from gpu_smoke.row import Row
from gpu_smoke.verdicts import Context

from tests.gpu_smoke.smoke_machine import Machine
from tests.sampling import every, sampled

ONE, TWO = "GPU-aaaaaaaa-1111-2222-3333-444444444444", "GPU-bbbbbbbb-1111-2222-3333-444444444444"
SLICE = "cccccccc-1111-2222-3333-444444444444"


def context(tmp_path: Path, cuda: list[dict[str, Any]], nvml: list[dict[str, Any]], **nodes: Any) -> Context:
    """Return a machine of which CUDA and NVML say this."""
    host = Host(str(tmp_path))
    facts = {"driver-init": {"devices": cuda}, "nvml": {"devices": nvml}, "device-nodes": nodes}
    return Context(host, {}, detect(host, {}), Row("", False, {}), Options(), facts)


def test_a_mask_turns_the_numbers(tmp_path: Path) -> None:
    """CUDA_VISIBLE_DEVICES=1,0 in a container that was given the host's GPUs 3 and 6."""
    cuda = [{"number": 0, "uuid": TWO, "bus": "0000:5E:00.0", "name": "H100"}, {"number": 1, "uuid": ONE}]
    nvml = [{"number": 0, "uuid": ONE, "bus": "00000000:3B:00.0", "minor": 3},
            {"number": 1, "uuid": TWO, "bus": "00000000:5E:00.0", "minor": 6}]  # fmt: skip
    made = context(tmp_path, cuda, nvml)
    assert [(one["cuda"], one["nvml"], one["host"]) for one in known(made)] == [(1, 0, 3), (0, 1, 6)]
    assert cuda_name(made, 0) == f"GPU 0 (host's GPU 6, {TWO}, 0000:5e:00.0)"
    assert gpu_name(made, 0) == f"GPU 0 (host's GPU 3, {ONE}, 0000:3b:00.0)"


def test_a_mig_instance_has_its_own_name(tmp_path: Path) -> None:
    cuda = [{"number": 0, "uuid": f"GPU-{SLICE}", "bus": "0000:3B:00.0", "name": "H100 MIG 1g.10gb"}]
    nvml = [{"number": 0, "uuid": ONE, "bus": "00000000:3B:00.0", "minor": 0, "mig": True,
             "instances": [f"MIG-{SLICE}"]}]  # fmt: skip
    (one,) = known(context(tmp_path, cuda, nvml))
    assert (one["uuid"], one["mig"]) == (f"MIG-{SLICE}", [f"MIG-{SLICE}"])
    assert one["notes"] == ["MIG on, 1 instances visible"]


def test_without_nvml_the_kernel_module_tells_the_number_on_the_host(tmp_path: Path) -> None:
    listed = [{"bus": "0000:3b:00.0", "minor": "5", "uuid": "", "excluded": ""}]
    made = context(tmp_path, [{"number": 0, "bus": "0000:3B:00.0"}], [], listed=listed)
    assert (known(made)[0]["host"], known(made)[0]["nvml"]) == (5, None)


@pytest.mark.parametrize(
    ("device", "note"),
    [
        ({"persistence": 0}, "persistence mode off"),
        ({"mode": 3}, "compute mode exclusive"),
        ({"fabric": 2}, "fabric in progress"),
        ({"rows": {"corrected": 1, "pending": 0}}, "1 rows corrected"),
        ({"ecc_uncorrected": 4}, "4 uncorrected memory errors"),
        ({"reasons": 0x44}, "clocks: power limit, hardware thermal limit (0x44)"),
        ({"rc": 15}, "NVML gives 15 (NVML_ERROR_GPU_IS_LOST)"),
    ],
)
def test_what_stands_out_is_noted(tmp_path: Path, device: dict[str, Any], note: str) -> None:
    assert known(context(tmp_path, [], [{"number": 0, **device}]))[0]["notes"] == [note]


@pytest.mark.parametrize(
    "device", [{"persistence": 1, "mode": 0, "fabric": 0, "reasons": 1, "rows": {"pending": 0}}, {}]
)
def test_a_healthy_idle_gpu_has_no_notes(tmp_path: Path, device: dict[str, Any]) -> None:
    assert known(context(tmp_path, [], [{"number": 0, **device}]))[0]["notes"] == []


def test_text_and_json_name_each_gpu(machine: Machine) -> None:
    result = machine.good().set(COUNT=2, PERSISTENCE=0).run("--require", "gpu")
    assert [one["cuda"] for one in result.report["gpus"]] == [0, 1]
    for one in result.report["gpus"]:
        assert one["uuid"] in result.text
        assert one["bus"] in result.text
    assert result.text.count("persistence mode off") == 2


def test_the_one_of_eight_that_is_missing_is_named(machine: Machine) -> None:
    found = machine.good().set(COUNT=7, NVML_COUNT=8).run("--require", "gpu").finding("GS121")
    assert "missing: GPU 7 (" in found["evidence"]
    assert "GPU 6 (" not in found["evidence"]


def test_a_node_that_nvml_does_not_list_is_named(machine: Machine) -> None:
    machine.good().nodes("nvidia1", "nvidia2").set(COUNT=2, NVML_COUNT=2)
    found = machine.run("--require", "gpu").finding("GS121")
    assert found["evidence"].endswith("missing: /dev/nvidia2"), found


def test_one_gpu_without_a_name_at_nvml_stands_there_once(tmp_path: Path) -> None:
    """Jetson: NVML answers, and knows neither UUID nor bus."""
    (one,) = known(context(tmp_path, [{"number": 0, "uuid": ONE, "bus": "", "name": "Orin"}], [{"number": 0, "rc": 0}]))
    assert (one["cuda"], one["nvml"], one["uuid"], one["name"]) == (0, 0, ONE, "Orin")


def test_a_mig_gpu_among_whole_ones_hides_no_loss(tmp_path: Path) -> None:
    nvml = [{"number": 0, "rc": 0, "uuid": "GPU-aaaaaaaa-0", "mig": True},
            {"number": 1, "rc": 0, "uuid": ONE}, {"number": 2, "rc": 0, "uuid": TWO}]  # fmt: skip
    lost = uncounted(context(tmp_path, [{"number": 0, "uuid": ONE}], nvml))
    assert lost is not None
    assert f"missing: GPU 2 ({TWO})" in lost.evidence
    assert uncounted(context(tmp_path, [{"number": 0, "uuid": ONE}, {"number": 1, "uuid": TWO}], nvml)) is None


@pytest.mark.parametrize(
    ("mask", "mixed"),
    sampled(
        [("0,GPU-11111111", True), ("GPU-22222222,0", True), ("0,1", False), ("GPU-11111111,GPU-22222222", False)],
        every(3),
    ),
)
def test_a_mask_of_numbers_and_uuids_is_heard_where_cuda_sees_none(machine: Machine, mask: str, mixed: bool) -> None:
    machine.good().nodes("nvidia1").set(NVML_COUNT=2, CUINIT_RC=100).variables(CUDA_VISIBLE_DEVICES=mask)
    cause = machine.run("--require", "gpu").report["cause"]
    assert cause["code"] == "GS328", cause
    assert ("which may be one GPU" in cause["evidence"]) is mixed, f"{mask}: {cause['evidence']}"
    assert "`CUDA_VISIBLE_DEVICES=0 gpu-smoke --require gpu`" in cause["apart"]
