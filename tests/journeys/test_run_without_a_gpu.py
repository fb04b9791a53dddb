"""My scikit-learn service needs no GPU in production: docs/how-to/run-without-a-gpu.md."""

from __future__ import annotations

import yaml

from tests.journeys.child import Child

TYPE = "service"
PAGE = "how-to/run-without-a-gpu.md"


def test_no_pod_requests_a_gpu_and_the_rest_of_the_base_stays(child: Child) -> None:
    rendered = child.follow("1. Patch the overlay")
    [pod] = [one["spec"]["template"]["spec"] for one in yaml.safe_load_all(rendered) if one["kind"] == "Deployment"]
    [container] = pod["containers"]
    assert "nvidia.com/gpu" not in str(pod)
    assert container["resources"]["limits"].items() >= {"cpu": "2", "memory": "2Gi"}.items()
    assert {"DEVICE", "PORT"} <= {one["name"] for one in container["env"]}
