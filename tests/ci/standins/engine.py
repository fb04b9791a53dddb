"""Stands in for a Docker Engine: images are the files of `docker save`, containers are processes of this machine.

What is real: the image's bytes (the project's src/ as one layer, a config), its digest, pushes and pulls over HTTP with
the login that was given (by skopeo), and the commands, which run with the packages of this Python. What is not: base
images, isolation, limits. A pushed image is run from the files that were pulled, not from the checkout. A folder holds
one engine, so that two agents share nothing but the registry; `nvidiactl` beside it is the GPU.
"""

import os
import sys

HOME = os.environ["STANDIN_ENGINE"]
GPU = os.path.exists(f"{HOME}/nvidiactl")


def fail(text: str) -> int:
    """Print what went wrong as Docker does; return its exit code."""
    print(f"Error: {text}", file=sys.stderr)
    return 1


def file_of(name: str) -> str:
    """Return the file of an image."""
    return f"{HOME}/images/{name.replace('/', '_').replace(':', '_')}"


def main(arguments: list[str]) -> int:
    """Do one command of `docker`. The first ones come often: nothing is imported for them that takes time."""
    match arguments:
        case ["info", "--format", "{{.DockerRootDir}}"]:
            print("/on-another-machine")
        case ["info", "--format", *_]:
            print('{"nvidia":{},"runc":{}}' if GPU else '{"runc":{}}')
        case ["info", *_]:
            print("a stand-in")
        case ["run", "--rm", "--network=none", "--entrypoint", "cat", _, "/opt/base/image.json"]:
            print('{"certificates": []}')
        case ["builder", "prune", *_] | ["buildx", "version"]:
            pass
        case ["image", "inspect", name] if not os.path.exists(file_of(name)):
            # A base image of a child is always there, and never looked into.
            return 0 if "-cu1" in name and "@" not in name else fail(f"No such image: {name}")
        case _:
            import images

            return images.main(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
