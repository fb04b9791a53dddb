"""What a training leaves for people and for the service."""

import csv
import hashlib
import io
from typing import Any

from ..batch.output import Output
from ..weights import LOCK, File, Lock, Weights


def as_csv(epochs: list[dict[str, Any]]) -> bytes:
    """Return the epochs as CSV with a header. All have the columns of the first."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(epochs[0]), lineterminator="\n", restval="", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(epochs)
    return text.getvalue().encode()


def leave_weights(store: Output, name: str, owner: str) -> None:
    """Put the best weights, with their lock, where scripts/weights and a service read them."""
    content = store.read(name) or b""
    file = File(name, len(content), hashlib.sha256(content).hexdigest())
    lock = Lock((Weights(owner, "scripts/train", "", (file,)),))
    store.write(f"weights/{owner}/{name}", content)
    store.write(f"weights/{LOCK}", lock.text().encode())
