"""LitServe as its documentation shows batching; it waits for no batch by default."""

import os

import litserve
from bench_model.model import Model


class Api(litserve.LitAPI):
    """One model, batches of up to 32."""

    def setup(self, device: str) -> None:
        """Load."""
        self.model = Model()
        self.model.load("cpu")

    def decode_request(self, request: dict) -> str:
        """The text of a request."""
        return request["instances"][0]

    def predict(self, batch: list[str]) -> list[dict]:
        """Label the batch."""
        return self.model.predict(batch)


if __name__ == "__main__":
    server = litserve.LitServer(Api(max_batch_size=32, batch_timeout=0), accelerator="cpu", workers_per_device=1)
    server.run(port=int(os.environ["PORT"]), log_level="warning", generate_client_file=False)
