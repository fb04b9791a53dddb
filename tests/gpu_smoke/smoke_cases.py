"""The injected failures: what is broken, and which cause, layer and fix the report must name."""

from __future__ import annotations

from tests.gpu_smoke.cases_driver import DRIVER
from tests.gpu_smoke.cases_software import SOFTWARE
from tests.gpu_smoke.cases_start import START
from tests.gpu_smoke.cases_threads import THREADS
from tests.gpu_smoke.cases_workload import WORKLOAD
from tests.gpu_smoke.smoke_setups import TF_ROW, Case

__all__ = ["CASES", "CUDA_CODES", "NVML_CODES", "TF_ROW", "Case"]
CASES = [*THREADS, *DRIVER, *START, *SOFTWARE, *WORKLOAD]

# Codes of the driver's start, injected under NVIDIA's real runtimes: code, finding, fix.
CUDA_CODES = [
    (3, "GS302", "uvm_disable_hmm=1"), (34, "GS219", "stubs"), (46, "GS313", "nvidia-smi -c 0"),
    (100, "GS328", "nvidia-modprobe -u"),
    (101, "GS314", "nvidia-smi -L"), (304, "GS303", "device nodes"), (802, "GS308", "nvidia-fabricmanager"),
    (803, "GS310", "Reboot"), (804, "GS311", "update the host driver"), (999, "GS312", "nvidia_uvm"),
    (2, "GS315", "2 means: no GPU memory"),
]  # fmt: skip
NVML_CODES = [
    (4, "GS401", "modes of /dev/nvidia"), (9, "GS402", "modprobe nvidia"), (12, "GS403", "Reinstall the driver"),
    (15, "GS404", "Reboot"), (16, "GS405", "gpu-reset"), (18, "GS406", "Reboot"), (999, "GS407", "Reboot"),
    (2, "GS409", "2 means: NVML_ERROR_INVALID_ARGUMENT"),
]  # fmt: skip
