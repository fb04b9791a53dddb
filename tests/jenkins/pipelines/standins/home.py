"""The folder of a stand-in for a Docker Engine. Its commands come often: nothing is imported here that takes time."""

import os
import sys

HOME = os.environ["STANDIN_ENGINE"]
GPU = os.path.exists(f"{HOME}/nvidiactl")


def fail(text: str) -> int:
    """Say what went wrong as Docker does; return its exit code."""
    print(f"Error: {text}", file=sys.stderr)
    return 1


def folder_of(name: str) -> str:
    """Return the folder of an image: oci/ and the unpacked app/."""
    return f"{HOME}/images/{name.replace('/', '_').replace(':', '_')}"
