"""``python -m <package>.serving``: the command of every version."""

from gpu_repo_runtime.serving.__main__ import main

if __name__ == "__main__":
    assert __package__
    main(__package__.split(".")[0])
