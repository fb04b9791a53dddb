"""Ray Serve as its documentation shows dynamic request batching."""

import os
import signal

import ray
from models import Model
from ray import serve
from starlette.requests import Request


@serve.deployment(max_ongoing_requests=256, ray_actor_options={"num_cpus": 0.5})
class Service:
    """One model, batches of up to 32."""

    def __init__(self) -> None:
        """Load."""
        self.model = Model()
        self.model.load("cpu")

    @serve.batch(max_batch_size=32, batch_wait_timeout_s=float(os.environ["BENCH_WAIT_MS"]) / 1e3)
    async def answer(self, texts: list[str]) -> list[dict]:
        """Label the batch."""
        return self.model.predict(texts)

    async def __call__(self, request: Request) -> dict:
        """Answer one request."""
        return await self.answer((await request.json())["text"])


if __name__ == "__main__":
    names = ("BENCH_MODEL", "BENCH_WAIT_MS", "PYTHONPATH")
    variables = {name: os.environ[name] for name in names}
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": variables})
    serve.start(http_options={"host": "127.0.0.1", "port": int(os.environ["PORT"]), "access_log": False})
    serve.run(Service.bind(), name="bench", route_prefix="/predict")
    signal.sigwait([signal.SIGTERM])
    ray.shutdown()
