"""How the processes of a training on several nodes find each other in a Kubernetes Job."""

import json
import os
from typing import Any

from ..batch.exits import BadConfiguration

CONFIG = "TF_CONFIG"
# HOST:PORT of all processes, in the order of their index, as deploy/pipelines/kubeflow.yaml gives them.
WORKERS = "TRAINING_WORKERS"
INDEX = "JOB_COMPLETION_INDEX"


def tensorflow_cluster() -> dict[str, Any]:
    """Return what TF_CONFIG says, {} for one process. Raises BadConfiguration.

    Where there is none, the workers of an Indexed Job and the pod's index make it, for TensorFlow to read as well.
    """
    if CONFIG not in os.environ and (workers := os.environ.get(WORKERS)):
        names, index = workers.split(","), os.environ.get(INDEX, "")
        if not index.isdecimal() or int(index) >= len(names):
            raise BadConfiguration(
                f"{WORKERS} names {len(names)} workers and {INDEX} is {index!r}: the Job needs completionMode Indexed "
                "and as many completions as workers"
            )
        os.environ[CONFIG] = json.dumps({"cluster": {"worker": names}, "task": {"type": "worker", "index": int(index)}})
    try:
        cluster: dict[str, Any] = json.loads(os.environ.get(CONFIG) or "{}")
    except ValueError as error:
        raise BadConfiguration(f"{CONFIG} is not JSON: {error}") from error
    return cluster
