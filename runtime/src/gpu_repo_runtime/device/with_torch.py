"""The device (PyTorch)."""

import torch


def why_no_gpu() -> str:
    if torch.version.cuda is None:
        return "this build of torch has no CUDA"
    # is_available() alone can say yes while CUDA_VISIBLE_DEVICES hides every GPU.
    if not torch.cuda.is_available() or torch.cuda.device_count() == 0:
        return "torch sees no NVIDIA GPU"
    return ""


def name_and_cuda() -> tuple[str, str]:
    """Return the name of the GPU and the version of CUDA."""
    return torch.cuda.get_device_name(), torch.version.cuda or ""


def memory() -> tuple[int, int, int, int]:
    """Return the fields of Memory, in bytes."""
    free, total = torch.cuda.mem_get_info()
    return torch.cuda.memory_allocated(), free, total, torch.cuda.max_memory_allocated()


def reset_peak() -> None:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()


def release() -> None:
    torch.cuda.empty_cache()
