"""BentoML as its documentation shows adaptive batching."""

import bentoml
from models import Model


@bentoml.service(workers=1, traffic={"timeout": 60})
class Service:
    """One model, batches of up to 32."""

    def __init__(self) -> None:
        """Load."""
        self.model = Model()
        self.model.load("cpu")

    @bentoml.api(batchable=True, max_batch_size=32, max_latency_ms=1000)
    def predict(self, texts: list[str]) -> list[dict]:
        """Label the batch."""
        return self.model.predict(texts)
