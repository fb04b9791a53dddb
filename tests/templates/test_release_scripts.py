"""What the scripts before a release believe: no file beside the commit, no missing report, no other commit's image."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.answers import AnswerSet
from tests.conftest import ROOT, git
from tests.templates.own import own_copy, run, stand_in

WITH_LOGIN = f"'{ROOT}/base-images/with-login'"
DIGEST = f"sha256:{'a' * 64}"
STAGING = "registry.example.com/ml-staging/topic-finder"
SECOND = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: second
spec:
  replicas: 1
  selector: {matchLabels: {app: second}}
  template:
    metadata:
      name: not-this-one
      labels: {app: second}
    spec:
      containers:
      - name: second
        image: IMAGE:v0
        args: ["--image=IMAGE:v1", "IMAGE", "before IMAGE:v1 after"]
"""
AUTHOR = {f"GIT_{who}_{what}": "o@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


@pytest.fixture(scope="module")
def committed(render: Callable[[AnswerSet], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a committed service with Kubernetes files."""
    return own_copy(render(AnswerSet("service", "plain", kubernetes=True)), tmp_path_factory.mktemp("release"), True)


@pytest.fixture
def child(committed: Path, tmp_path: Path) -> Path:
    """Return a copy of the child."""
    return own_copy(committed, tmp_path)


def commit_of(child: Path) -> str:
    """Return the commit that is checked out."""
    return git(child, "rev-parse", "HEAD").strip()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("src/topic_finder/forgotten.py", True), ("requirements-more.lock", True), ("wheels/more.whl", True),
        ("notes.txt", False), ("src/topic_finder/__pycache__/a.pyc", False),
    ],
)  # fmt: skip
def test_a_new_file_that_the_image_takes_is_not_the_commit(child: Path, name: str, counts: bool) -> None:
    stand_in(child, "docker", "echo '<testsuite><testcase/></testsuite>' >build/test-results/unit.xml")
    (child / name).parent.mkdir(parents=True, exist_ok=True)
    (child / name).write_text("x = 1\n")
    done = run(child, "scripts/test", RUN_IN="docker")
    proved = (child / "build" / "proof" / "test").read_text()
    assert proved == commit_of(child) + ("-dirty\n" if counts else "\n"), f"{name}: {done.stderr}"


@pytest.mark.slow
def test_a_test_run_without_a_report_fails_and_an_old_report_is_not_taken(child: Path) -> None:
    stand_in(child, "docker", "exit 0 # as a test that ends pytest with os._exit(0)")
    report = child / "build" / "test-results" / "unit.xml"
    report.parent.mkdir(parents=True)
    report.write_text("<testsuites/>")
    done = run(child, "scripts/test", RUN_IN="docker")
    assert done.returncode == 1, done.stderr
    assert "pytest ended before it wrote its report" in done.stderr
    assert not (child / "build" / "proof" / "test").exists(), "a report of an earlier run proved this commit"


@pytest.mark.slow
def test_a_smoke_test_that_says_nothing_fails(child: Path) -> None:
    stand_in(child, "docker", "exit 0")
    done = run(child, "scripts/smoke --require model", RUN_IN="docker")
    assert done.returncode == 1, done.stderr
    assert "gpu-smoke ended without a report" in done.stderr
    done = run(child, "scripts/smoke --require model", RUN_IN="pushed")
    assert done.returncode == 2, done.stderr
    assert "build/image.txt is missing" in done.stderr


def pushed(child: Path, image: str, commit: str) -> None:
    """Write what scripts/push leaves."""
    (child / "build").mkdir(exist_ok=True)
    (child / "build" / "image.txt").write_text(f"{image}\n{commit}\n2026-01-01T00:00:00.0Z\n")


@pytest.mark.slow
def test_only_the_released_image_of_this_commit_is_deployed(child: Path) -> None:
    """Where a build has proofs, that of scripts/promote has to be among them, about this very push."""
    stand_in(child, "kubectl", 'echo "$@" >>../kubectl.log')

    def said(image: str, commit: str) -> str:
        pushed(child, image, commit)
        done = run(child, "scripts/deploy prod", STAGING="registry.example.com/ml-staging")
        assert done.returncode in (1, 2), done.stderr
        return done.stderr

    commit, image = commit_of(child), f"{STAGING}@{DIGEST}"
    for other in (f"evil.example.com/x@{DIGEST}", f"{STAGING}@sha256:abc"):
        assert "not an image of" in said(other, commit)
    assert "the image was pushed from 000" in said(image, "0" * 40)
    proof = child / "build" / "proof" / "promote"
    proof.parent.mkdir()
    assert "scripts/promote did not release" in said(image, commit)
    proof.write_text(f"{image}\n{commit}\n2025-01-01T00:00:00.0Z\n")
    assert "scripts/promote did not release" in said(image, commit)
    assert not (child.parent / "kubectl.log").exists(), "the cluster was asked"


class Cluster:
    """A stand-in for a cluster that keeps what it was told (standins/cluster.py), and a child deployed to it."""

    def __init__(self, child: Path) -> None:
        self.child, self.file = child, child.parent / "bin" / "applied.json"
        standin = ROOT / "tests" / "ci" / "standins" / "cluster.py"
        stand_in(child, "kubectl", f"STANDIN_ENGINE='{self.file.parent}' exec '{sys.executable}' '{standin}' \"$@\"")
        (child.parent / "kubeconfig").write_text("cluster: test\n")

    def commit(self, day: int) -> str:
        """Commit something on a day in 2030; return the commit."""
        (self.child / "notes.txt").write_text(str(day))
        when = {"GIT_COMMITTER_DATE": f"2030-01-{day:02}T00:00:00Z"}
        done = run(self.child, "git add notes.txt; git commit --quiet -m Day", **AUTHOR, **when)
        assert done.returncode == 0, done.stderr
        return commit_of(self.child)

    def deploy(self, at: str, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Deploy a commit; what fails must not reach the cluster."""
        git(self.child, "checkout", "--quiet", at)
        pushed(self.child, f"{STAGING}@{DIGEST}", commit_of(self.child))
        before = self.applied
        variables |= {"STAGING": STAGING.rpartition("/")[0], "KUBECONFIG": str(self.child.parent / "kubeconfig")}
        done = run(self.child, f"scripts/deploy prod {' '.join(options)}", **variables)
        reached = "rollout status" in done.stdout
        assert (f': "{at} 20' in self.applied) if reached else self.applied == before, done.stderr
        return done

    @property
    def applied(self) -> str:
        """What the cluster was told last, "" when nothing."""
        return self.file.read_text() if self.file.exists() else ""


@pytest.fixture
def cluster(child: Path) -> Cluster:
    """Return a cluster that runs nothing yet."""
    return Cluster(child)


def refused(done: subprocess.CompletedProcess[str]) -> bool:
    """Tell whether a deployment was refused because the commit is older; else it was done."""
    assert done.returncode in (0, 1), done.stderr
    assert (done.returncode == 1) == ("is older" in done.stderr), done.stderr
    return done.returncode == 1


@pytest.mark.slow
def test_an_older_commit_is_not_deployed_over_a_newer_one(cluster: Cluster) -> None:
    """Unless a person says so: --back, or that very commit in DEPLOY_BACK."""
    older, newer = cluster.commit(1), cluster.commit(2)
    assert not refused(cluster.deploy(older)), "nothing is known of a cluster at first"
    assert not refused(cluster.deploy(newer))
    assert not refused(cluster.deploy(newer)), "a failed deployment is repeated"
    assert refused(cluster.deploy(older))
    assert refused(cluster.deploy(older, DEPLOY_BACK=newer))
    assert not refused(cluster.deploy(older, DEPLOY_BACK=older))
    assert not refused(cluster.deploy(newer)), "forwards again"
    done = cluster.deploy(older, "--back")
    assert "--back is now --allow-older" in done.stderr
    assert not refused(done)
    assert cluster.deploy(older, "--forwards").returncode == 2


def test_every_mention_is_the_released_digest_and_each_deployment_is_waited_for(cluster: Cluster) -> None:
    repository = "registry.example.com/ml/topic-finder"
    prod = cluster.child / "deploy/overlays/prod"
    (prod / "second.yaml").write_text(SECOND.replace("IMAGE", repository))
    kustomization = prod / "kustomization.yaml"
    kustomization.write_text(kustomization.read_text().replace("\nresources:\n", "\nresources:\n  - second.yaml\n"))
    git(cluster.child, "add", "--all")
    done = cluster.deploy(cluster.commit(1))
    assert done.returncode == 0, done.stderr
    [second] = [one for one in json.loads(cluster.applied)["items"] if one["metadata"]["name"] == "second"]
    [container], released = second["spec"]["template"]["spec"]["containers"], f"{repository}@{DIGEST}"
    assert container["image"] == released
    assert container["args"] == [f"--image={repository}:v1", released, f"before {released} after"]
    waited = re.findall(r"rollout status (.*) --timeout", done.stdout)
    assert sorted(waited) == [
        "deployment/second --namespace topic-finder",
        "deployment/topic-finder --namespace topic-finder",
    ]


# Pods that are wanted, that run, that run afterwards; the limit of the rollout and the exit code.
ROLLOUTS = [
    (8, 8, 8, "50%", 0),
    (8, 5, 5, "50%", 0),
    (8, 4, 4, 6, 0),
    (8, 4, 3, 6, 1),
    (2, 1, 1, 2, 0),
    (1, 1, 1, "50%", 0),
]


@pytest.mark.slow
def test_a_rollout_goes_on_where_pods_wait_for_a_gpu(cluster: Cluster) -> None:
    """It replaces half of the pods that run, and ends when as many as before run the new image."""
    older, newer = cluster.commit(1), cluster.commit(2)
    assert cluster.deploy(older).returncode == 0
    told = json.loads(cluster.applied)
    [now] = [one for one in told["items"] if one["kind"] == "Deployment"]
    for wanted, ready, after, limit, code in ROLLOUTS:
        now["spec"]["replicas"], now["status"] = wanted, {"availableReplicas": ready}
        cluster.file.write_text(json.dumps(told))
        rollout = {"replicas": wanted, "updatedReplicas": wanted, "availableReplicas": after}
        done = cluster.deploy(newer, ROLLOUT=json.dumps(rollout))
        [new] = [one for one in json.loads(cluster.applied)["items"] if one["kind"] == "Deployment"]
        assert new["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": limit}, done.stderr
        assert done.returncode == code, done.stderr


@pytest.mark.slow
def test_a_cluster_that_does_not_answer_is_no_permission(cluster: Cluster) -> None:
    commit = cluster.commit(1)
    program = cluster.child.parent / "bin" / "kubectl"
    program.write_text(program.read_text().replace("\n", "\n[[ $1 != get ]] || { echo forbidden >&2; exit 1; }\n", 1))
    done = cluster.deploy(commit)
    assert (done.returncode, "kubectl get failed" in done.stderr) == (1, True), done.stderr


# A cluster whose pod is this machine: `exec` runs the command here. It keeps the Job that was created.
POD = """
case $1 in
    kustomize | annotate) exec {kubectl} "$@" ;;
    create) cat >../job.json ;;
    delete) echo "$*" >../deleted ;;
    exec) while [[ $1 != -- ]]; do shift; done; shift; {command} ;;
esac
"""
REPORT = '{"layers": [{"name": "model", "state": "pass"}], "verdict": "pass", "require": "model"}'


def pod(child: Path, command: str) -> None:
    """Let kubectl be a cluster with such a pod, and let an image be pushed."""
    real = shutil.which("kubectl")
    stand_in(child, "kubectl", POD.replace("{kubectl}", str(real)).replace("{command}", command))
    pushed(child, f"{STAGING}@{DIGEST}", commit_of(child))


@pytest.mark.slow
@pytest.mark.parametrize("ends", [0, 1])
def test_a_gpu_of_the_cluster_smokes_the_pushed_image_and_returns_the_proof(child: Path, ends: int) -> None:
    pod(child, f"case $* in *' cat '*) echo '{REPORT}' ;; *gpu-smoke*) exit {ends} ;; esac")
    done = run(child, "scripts/smoke --require model", RUN_IN="cluster")
    assert done.returncode == ends, done.stderr
    job = json.loads((child.parent / "job.json").read_text())
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"{STAGING}@{DIGEST}"
    assert f"job {job['metadata']['name']} " in (child.parent / "deleted").read_text(), "a GPU is not given back"
    proof = json.loads((child / "build/proof/smoke.json").read_text())
    assert (proof["image"], proof["commit"]) == (f"{STAGING}@{DIGEST}", commit_of(child))
    assert proof["report"] == json.loads(REPORT)


@pytest.mark.slow
@pytest.mark.parametrize("ends", [0, 1])
def test_a_gpu_of_the_cluster_probes_the_pushed_image_with_the_settings_of_ci(child: Path, ends: int) -> None:
    told = "[[ $2 == gpu_repo_runtime.serving.probe && $3 == gpu_repo_runtime.serving ]] || exit 6"
    asked = '[[ $DATABASE_PASSWORD == "it\'s \\$HOME" ]] || exit 7'
    stand_in(child, "python", f"{told}\n{asked}\nexit {ends}")
    pod(child, 'env -u DATABASE_PASSWORD "$@"')
    done = run(child, "scripts/probe", RUN_IN="cluster", CI="true", CI_ENV="DATABASE_PASSWORD=it's $HOME")
    assert done.returncode == ends, done.stderr
    assert (child / "build/proof/probe").exists() == (ends == 0), done.stderr


@pytest.mark.slow
def test_a_password_of_a_command_reaches_the_registry_of_the_parent(child: Path) -> None:
    stand_in(child, "docker", "cat >../password")
    variables = {
        "REGISTRY_USER": "robot",
        "REGISTRY_PASSWORD_COMMAND": "echo token",
        "REGISTRY": "registry.example.com/ml",
    }
    done = run(child, f"{WITH_LOGIN} true", **variables)
    assert done.returncode == 0, done.stderr
    assert (child.parent / "password").read_text() == "token\n"
    failing = run(child, f"{WITH_LOGIN} true", **variables | {"REGISTRY_PASSWORD_COMMAND": "false"})
    assert failing.returncode == 1, failing.stderr
    assert "gave no password" in failing.stderr


@pytest.mark.slow
def test_a_key_that_is_a_text_becomes_a_file_that_ends_with_the_step(child: Path) -> None:
    """GitHub has no secret files: `make push` and `make promote` read the path in SIGN."""
    stand_in(child, "docker", "cat >/dev/null")
    told = 'echo "$SIGN"; cat "$SIGN"; stat -c %a "${SIGN%/*}"; echo "text: ${SIGNING_KEY:-gone}"'
    login = {"REGISTRY_USER": "robot", "REGISTRY_PASSWORD": "word", "REGISTRY": "registry.example.com/ml"}
    done = run(child, f"{WITH_LOGIN} bash -c '{told}'", **login, SIGNING_KEY="-----BEGIN\nkey")
    assert done.returncode == 0, done.stderr
    path, *lines = done.stdout.splitlines()
    assert lines == ["-----BEGIN", "key", "700", "text: gone"]
    assert not Path(path).exists()
    unsigned = run(child, f"{WITH_LOGIN} bash -c 'echo ${{SIGN:-none}}'", **login, SIGNING_KEY="")
    assert unsigned.stdout == "none\n"
