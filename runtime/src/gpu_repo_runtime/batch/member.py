"""What a node of a cluster would compute with, as JSON: python -m ...batch.member PACKAGE OUTPUT TOKEN [first].

The first node leaves a file in the output folder, and the others look for it: a folder that each node has for itself,
under the same name, would never hold a whole result.
"""

import contextlib
import json
import platform
import sys
import time

from .exits import BadConfiguration, JobError
from .plan import code_fingerprint
from .provenance import versions, weights
from .store import SUCCESS, FinishedElsewhere, open_store

MEMBERS = "_members"
# A network disk shows to others what is new after a while.
PATIENCE = 15.0


def look(package: str, output: str, token: str, first: bool) -> dict[str, object]:
    """Return code, weights and versions of this node. Raises JobError when it does not see the shared output."""
    store = open_store(output)
    name = f"{MEMBERS}/{token}"
    if first and store.read(SUCCESS) is None:
        # One that completes meanwhile has no place for it, and no work that could go wrong.
        with contextlib.suppress(FinishedElsewhere, FileNotFoundError):
            store.prepare()
            store.write(name, platform.node().encode())
    deadline = time.monotonic() + PATIENCE
    while not first and store.read(name) is None and store.read(SUCCESS) is None:
        if time.monotonic() > deadline:
            raise BadConfiguration(
                f"it does not see in {output} what another node has written there: --output has to be storage that "
                "all nodes share, such as s3://, NFS or a volume that is mounted on each"
            )
        time.sleep(0.2)
    return {"code": code_fingerprint(package), "weights": weights(package), "versions": versions()}


if __name__ == "__main__":
    try:
        print(json.dumps(look(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:] == ["first"])))
    except (JobError, OSError) as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        sys.exit(1)
