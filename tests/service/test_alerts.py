"""Prometheus itself reads the configuration, the alerts and the panels, and says when an alert fires.

Real: promtool of Debian's prometheus, the child's files. Simulated: the series.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from tests.answers import AnswerSet
from tests.service.test_manifests import ANSWERS, METRICS

LABELS = 'app="topic-finder", namespace="prod", pod="topic-finder-0"'
Series = dict[str, str]


def _waits(within: int) -> Series:
    """Return the series of a histogram in which so many of 100 texts a minute wait at most a second."""
    counts = {"0.5": 50, "1": within, "2.5": 100, "+Inf": 100}
    return {f'service_queue_wait_seconds_bucket{{%s, le="{le}"}}': f"0+{count}x30" for le, count in counts.items()}


# alert -> series that make it fire, the labels it then carries, series close to them that do not
CASES: dict[str, tuple[Series, dict[str, str], Series]] = {
    "ServiceErrors": (
        {'service_requests_total{%s, route="/predict", status="200"}': "0+94x30",
         'service_requests_total{%s, route="/v2/models/topic_finder/infer", status="503"}': "0+3x30",
         'service_requests_total{%s, route="/own", status="500"}': "0+3x30"},
        {"app": "topic-finder", "namespace": "prod"},
        {'service_requests_total{%s, route="/predict", status="200"}': "0+96x30",
         'service_requests_total{%s, route="/predict", status="503"}': "0+4x30",
         'service_requests_total{%s, route="/readyz", status="503"}': "0+50x30",
         'service_requests_total{%s, route="/v2/models/topic_finder/ready", status="503"}': "0+50x30",
         'service_requests_total{%s, route="/metrics", status="500"}': "0+50x30"},
    ),
    "ServiceQueueWait": (
        _waits(within=90),
        {"app": "topic-finder", "namespace": "prod"},
        _waits(within=96),
    ),
    "ServiceRejects": (
        {'service_rejected_total{%s, reason="queue_full"}': "0+1x30"},
        {"app": "topic-finder", "namespace": "prod"},
        {'service_rejected_total{%s, reason="queue_full"}': "7x30",
         'service_rejected_total{%s, reason="client_gone"}': "0+9x30"},
    ),
    "ServiceGpuError": (
        {'DCGM_FI_DEV_XID_ERRORS{gpu="0", pod="topic-finder-0"}': "79x30"},
        {"gpu": "0", "pod": "topic-finder-0"},
        {'DCGM_FI_DEV_XID_ERRORS{gpu="0", pod="topic-finder-0"}': "0x30",
         'DCGM_FI_DEV_XID_ERRORS{gpu="1", pod="another-0"}': "79x30"},
    ),
    "ServiceScalingMetricGone": (
        {'service_queue_depth{app="another"}': "0x30"},
        {"app": "topic-finder"},
        {"service_queue_depth{%s}": "0x30"},
    ),
    "JobFailed": (
        {'kube_job_failed{namespace="prod", job_name="topic-finder-29411", condition="true"}': "1x30"},
        {"namespace": "prod", "job_name": "topic-finder-29411"},
        {'kube_job_failed{namespace="prod", job_name="topic-finder-29411", condition="true"}': "0x30",
         'kube_job_failed{namespace="prod", job_name="topic-finder-29411", condition="false"}': "1x30",
         'kube_job_failed{namespace="prod", job_name="topic-finder-gpu-check", condition="true"}': "1x30"},
    ),
    "JobRunsLong": (  # Prometheus's clock starts at 0 here
        {'kube_job_status_start_time{namespace="prod", job_name="topic-finder"}': "-50000x30",
         'kube_job_status_active{namespace="prod", job_name="topic-finder"}': "1x30"},
        {"namespace": "prod", "job_name": "topic-finder"},
        {'kube_job_status_start_time{namespace="prod", job_name="topic-finder"}': "-50000x30",
         'kube_job_status_active{namespace="prod", job_name="topic-finder"}': "0x30",
         'kube_job_status_start_time{namespace="prod", job_name="topic-finder-1"}': "-40000x30",
         'kube_job_status_active{namespace="prod", job_name="topic-finder-1"}': "1x30"},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def child(render: Callable[[AnswerSet], Path]) -> Path:
    return render(ANSWERS)


@pytest.fixture(scope="module")
def promtool() -> Callable[..., str]:
    """Return a function that runs promtool, with its output; a failure carries the output."""

    def run(*arguments: str | Path) -> str:
        done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"promtool {arguments[0]}: {done.stdout}{done.stderr}"
        return done.stdout

    return run


@pytest.fixture(scope="module")
def alerts(render: Callable[[AnswerSet], Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the rules of each type as Prometheus reads them: without the object of its operator around them."""
    files = {}
    for project_type, answers in (("service", ANSWERS), ("batch", AnswerSet("batch", "plain"))):
        text = (render(answers) / "deploy/base/monitoring/alerts.yaml").read_text()
        [rules] = [one["spec"] for one in yaml.safe_load_all(text) if one["kind"] == "PrometheusRule"]
        files[project_type] = tmp_path_factory.mktemp(project_type) / "alerts.yaml"
        files[project_type].write_text(yaml.safe_dump(rules))
    return files


@pytest.fixture(scope="module")
def rules(alerts: dict[str, Path]) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Return each alert with its file."""
    groups = {file: group for file in alerts.values() for group in yaml.safe_load(file.read_text())["groups"]}
    return {rule["alert"]: (file, rule) for file, group in groups.items() for rule in group["rules"]}


def test_every_alert_has_a_case_and_asks_in_valid_promql(rules: dict[str, tuple[Path, dict[str, Any]]]) -> None:
    assert rules.keys() == CASES.keys()
    for _, rule in rules.values():
        promql_parser.parse(rule["expr"])


def _case(alert: str, series: Series, fires: list[dict[str, Any]]) -> dict[str, Any]:
    healthy = {} if alert == "ServiceScalingMetricGone" else {"service_queue_depth{%s}": "0x30"}
    values = [{"series": name.replace("%s", LABELS), "values": value} for name, value in (healthy | series).items()]
    expected = [{"eval_time": "20m", "alertname": alert, "exp_alerts": fires}]
    return {"name": alert, "interval": "1m", "input_series": values, "alert_rule_test": expected}


@pytest.mark.needs("promtool")
def test_an_alert_fires_when_it_should_and_only_then(
    rules: dict[str, tuple[Path, dict[str, Any]]], promtool: Callable[..., str], tmp_path: Path
) -> None:
    """After twenty minutes of the bad series the alert fires with its labels; over the harmless one it is silent."""
    cases = []
    for alert, (bad, labels, harmless) in CASES.items():
        _, rule = rules[alert]
        job = labels.get("job_name", "")
        about = {key: text.replace("{{ $labels.job_name }}", job) for key, text in rule["annotations"].items()}
        fires = [{"exp_labels": labels | rule["labels"], "exp_annotations": about}]
        cases += [_case(alert, bad, fires), _case(alert, harmless, [])]
    told = {"rule_files": sorted({str(file) for file, _ in rules.values()}), "tests": cases}
    (tmp_path / "cases.yaml").write_text(yaml.safe_dump(told))
    promtool("test", "rules", tmp_path / "cases.yaml")


@pytest.mark.needs("promtool")
def test_prometheus_reads_the_configuration(
    child: Path, alerts: dict[str, Path], promtool: Callable[..., str], tmp_path: Path
) -> None:
    """The configuration in compose.yaml is whole. A service without Kubernetes has the rule file too."""
    configuration = yaml.safe_load((child / "compose.yaml").read_text())["configs"]["prometheus"]["content"]
    configuration += f"rule_files: [{alerts['service']}]\n"
    (tmp_path / "prometheus.yml").write_text(configuration)
    assert "5 rules found" in promtool("check", "config", tmp_path / "prometheus.yml")


def test_every_panel_asks_in_valid_promql(child: Path, rules: dict[str, tuple[Path, dict[str, Any]]]) -> None:
    """Each query of the dashboard, with Grafana's variables filled in, is valid PromQL, for metrics that exist."""
    dashboard = json.loads((child / "deploy/base/monitoring/dashboard.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    assert len(queries) > 20, "the dashboard lost its panels"
    others = [query for query in queries for found in re.findall(r"\{[^}]*\}", query) if "pod=~'$pod'" not in found]
    assert not others, "of pods of other services"
    filled = [query.replace("$__rate_interval", "1m").replace("$pod", ".*") for query in queries]
    assert not [query for query in filled if "$" in query], "a variable that Grafana does not know"
    for query in filled:
        promql_parser.parse(query)
    exported = set(re.findall(r'"(service_\w+)"', METRICS.read_text()))
    for name in re.findall(r"\b(service_\w+)", " ".join([*queries, *(rule["expr"] for _, rule in rules.values())])):
        assert re.sub(r"_(total|bucket|sum|count)$", "", name) in exported or name in exported, name
