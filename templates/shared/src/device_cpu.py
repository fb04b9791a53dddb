def _cpu() -> dict[str, str]:
    return {"device": "cpu", "name": platform.processor() or platform.machine(), "driver": "", "cuda": ""}


def _driver_version() -> str:
    """Version of the NVIDIA kernel module, "" where there is none (WSL keeps it on the Windows side)."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return ""
    found = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", text)
    return found[1] if found else ""
