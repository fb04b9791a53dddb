"""Agents: nodes and their labels, workspaces and what is checked out, images."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.conftest import git
from tests.jenkins.conftest import Run, pipeline, stage


def test_each_agent_has_an_empty_workspace_with_the_tracked_files(run: Run) -> None:
    stages = stage("sh 'ls; touch left'", name="A", sections="agent any") + stage(
        "sh 'ls'", name="B", sections="agent any"
    )
    trace = run(pipeline(stages, agent="none"))
    assert trace.stage("B").commands[0].output == "+ ls\ntracked.txt\n"
    nested = (
        "stage('G') {\nagent any\nstages {\n" + stage("sh 'touch left'", name="A") + stage("sh 'ls'", name="B") + "}\n}"
    )
    assert "left" in run(pipeline(nested, agent="none")).stage("B").commands[0].output


def test_checkout_is_a_clone_of_the_commit(run: Run, source: Path) -> None:
    git(source, "init", "--quiet")
    git(source, "add", "--all")
    git(source, "commit", "--quiet", "--message=one")
    (source / "untracked.txt").write_text("x")
    commit = git(source, "rev-parse", "HEAD").strip()
    trace = run(pipeline(stage("sh 'ls; git rev-parse HEAD; echo $GIT_COMMIT'")))
    lines = [line for line in trace.commands[0].output.splitlines() if not line.startswith("+")]
    assert lines == ["tracked.txt", commit, commit]


def test_skip_default_checkout_and_checkout_scm(run: Run) -> None:
    trace = run(pipeline(stage("sh 'ls'\ncheckout scm\nsh 'ls'"), top="options { skipDefaultCheckout() }"))
    assert [command.output for command in trace.commands] == ["+ ls\n", "+ ls\ntracked.txt\n"]


@pytest.mark.parametrize(
    ("label", "node"),
    [
        ("gpu", "linux-2"),
        ("linux && !gpu", "linux-1"),
        ("windows || gpu", "linux-2"),
        ("(gpu && linux) || x", "linux-2"),
    ],
)
def test_label_expression_finds_a_node(run: Run, label: str, node: str) -> None:
    trace = run(pipeline(stage("echo \"${env.NODE_NAME}\"", sections=f"agent {{ label '{label}' }}"), agent="none"),
                labels=["linux", "linux gpu"])  # fmt: skip
    assert (trace.stage("Only").label, trace.stage("Only").node) == (label, node)
    assert trace.events[2]["text"] == node


def test_label_that_no_node_has_fails_the_stage(run: Run) -> None:
    trace = run(
        pipeline(stage("echo 'x'", sections="agent { label 'gpu' }\npost { always { echo 'p' } }"), agent="none")
    )
    assert trace.result == "FAILURE"
    assert trace.error == "There are no nodes with the label 'gpu'; there are: [linux]"
    assert [event.step for event in trace.stage("Only").events] == ["failed"], (
        "post runs only after the body was reached"
    )


def test_folder_of_a_label_is_first_on_path_there_only(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvidia-smi").write_text("#!/bin/sh\necho fake\n")
    (tmp_path / "bin" / "nvidia-smi").chmod(0o755)
    text = "sh 'command -v nvidia-smi || echo none'"
    stages = stage(text, name="A", sections="agent { label 'gpu' }") + stage(
        text, name="B", sections="agent { label 'cpu' }"
    )
    trace = run(
        pipeline(stages, agent="none"), labels={"cpu": None, "gpu": tmp_path / "bin"}, env={"PATH": "/usr/bin:/bin"}
    )
    assert str(tmp_path / "bin") in trace.stage("A").commands[0].output
    assert str(tmp_path / "bin") not in trace.stage("B").commands[0].output


def test_step_on_files_without_an_agent_fails(run: Run) -> None:
    for step in ("sh 'true'", "junit 'x.xml'", "stash 'x'", "deleteDir()"):
        trace = run(pipeline(stage(step), agent="none"))
        assert trace.result == "FAILURE", step
        assert "node" in str(trace.error) or "needs an agent" in str(trace.error), f"{step}: {trace.error}"


def test_docker_agent_runs_through_the_wrapper(run: Run, tmp_path: Path) -> None:
    wrapper = tmp_path / "wrapper"
    wrapper.write_text('#!/bin/sh\necho "$@" >> calls\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n')
    wrapper.chmod(0o755)
    sections = """
        agent { docker { image "${env.IMAGE}"; label 'gpu'; args '--gpus all' } }
        environment { MINE = 'set' }
    """
    trace = run(pipeline(stage("sh 'echo $MINE; cat calls'", sections=sections), agent="none"),
                labels=["gpu"], docker=wrapper, env={"IMAGE": "image@sha256:1"})  # fmt: skip
    assert (trace.result, trace.stage("Only").image, trace.stage("Only").label) == ("SUCCESS", "image@sha256:1", "gpu")
    output = trace.commands[0].output
    assert "run --image image@sha256:1 --workspace" in output
    assert "--args --gpus all" in output
    assert "--env MINE" in output
    assert "--env PATH" not in output
    refused = run(pipeline(stage("sh 'true'", sections="agent { docker 'x' }"), agent="none"))
    assert refused.error == "a docker agent needs a docker command: --docker WRAPPER"


def test_docker_command_mounts_the_workspace_and_passes_variables(run: Run, tmp_path: Path, source: Path) -> None:
    (tmp_path / "docker").write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    (tmp_path / "docker").chmod(0o755)
    (source / "Dockerfile").write_text("FROM scratch\n")
    sections = """
        agent { dockerfile { filename 'Dockerfile'
                             args '--gpus all'
                             additionalBuildArgs '--build-arg A=1' } }
        environment { MINE = 'set' }
    """
    path = f"{tmp_path}:/usr/bin:/bin"
    trace = run(pipeline(stage("sh 'true'", sections=sections), agent="none"), env={"PATH": path},
                docker=Path(__file__).parent / "docker_agent")  # fmt: skip
    image = trace.stage("Only").image
    assert f"<build><--file><./Dockerfile><--tag><{image}><--build-arg><A=1><.>" in trace.log
    output, workspace = trace.commands[0].output, next(iter(trace.events))["workspace"]
    assert output.startswith("<run><--rm><--init><--user>")
    assert f"<--volume><{workspace}:{workspace}><--volume><{workspace}@tmp:{workspace}@tmp>" in output
    assert "<--env><MINE>" in output
    assert f"<--gpus><all><{image}><sh><-xe>" in output


def test_processes_left_on_an_agent_end_with_it(run: Run) -> None:
    trace = run(pipeline(stage("sh 'sleep 300 & echo left: $!'", sections="agent any"), agent="none"))
    # The shell's own trace of `sleep 300` may come before or after it.
    left = int(re.findall(r"(?m)^left: (\d+)$", trace.commands[0].output)[0])
    for _ in range(100):
        listed = subprocess.run(["ps", "-o", "stat=", "-p", str(left)], capture_output=True, text=True, check=False)
        if listed.stdout.strip()[:1] in ("", "Z"):
            return
        time.sleep(0.02)
    pytest.fail(f"process {left} still runs: {listed.stdout}")
