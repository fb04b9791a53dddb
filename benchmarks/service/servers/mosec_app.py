"""mosec as its documentation shows dynamic batching; a batch waits 5 ms for more."""

import os
import sys

from bench_model.model import Model
from mosec import Server, Worker


class Labels(Worker):
    """One model, batches of up to 32."""

    def __init__(self) -> None:
        """Load."""
        super().__init__()
        self.model = Model()
        self.model.load("cpu")

    def forward(self, data: list[dict]) -> list[dict]:
        """Label the batch."""
        return self.model.predict([request["instances"][0] for request in data])


if __name__ == "__main__":
    sys.argv += ["--port", os.environ["PORT"], "--address", "127.0.0.1", "--timeout", "60000"]
    server = Server()
    server.append_worker(Labels, num=1, max_batch_size=32, max_wait_time=5)
    server.run()
