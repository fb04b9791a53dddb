"""The sections around a stage's body: their order, agents, when, environment, parameters, input, post."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.conftest import git
from tests.jenkins.conftest import Run, pipeline, stage


def when(condition: str, flags: str = "") -> str:
    """Return a pipeline whose one stage has this condition."""
    return pipeline(stage("echo 'ran'", sections=f"when {{\n{flags}\n{condition}\n}}"))


MAIN: dict[str, object] = {"branch": "main"}
TAG: dict[str, object] = {"tag": "v1.2"}
CHANGE: dict[str, object] = {"change": "7", "change_target": "main"}


@pytest.mark.parametrize(
    ("condition", "arguments", "runs"),
    [
        ("branch 'main'", MAIN, True),
        ("branch 'main'", {"branch": "other"}, False),
        ("branch 'main'", TAG, False),
        ("branch 'PR-7'", CHANGE, False),
        ("branch 'release/*'", {"branch": "release/1"}, True),
        ("branch pattern: 'release-\\\\d+', comparator: 'REGEXP'", {"branch": "release-12"}, True),
        ("tag 'v*'", TAG, True),
        ("tag 'v*'", MAIN, False),
        ("buildingTag()", TAG, True),
        ("buildingTag()", MAIN, False),
        ("changeRequest()", CHANGE, True),
        ("changeRequest()", MAIN, False),
        ("changeRequest target: 'main'", CHANGE, True),
        ("changeRequest target: 'next'", CHANGE, False),
        ("expression { params.X != 'x' && env.BRANCH_NAME == 'main' }", MAIN, True),
        ("expression { return false }", MAIN, False),
        ("environment name: 'BRANCH_NAME', value: 'main'", MAIN, True),
        ("environment name: 'BRANCH_NAME', value: 'MAIN', ignoreCase: true", MAIN, True),
        ("environment name: 'BRANCH_NAME', value: 'MAIN'", MAIN, False),
        ("equals expected: 'main', actual: env.BRANCH_NAME", MAIN, True),
        ("equals expected: 2, actual: currentBuild.number", MAIN, False),
        ("triggeredBy 'TimerTrigger'", {"timer": True}, True),
        ("triggeredBy 'TimerTrigger'", {}, False),
        ("changeset '**/*.py'", {"changed": ["a/b.py"]}, True),
        ("changeset 'docs/**'", {"changed": ["a/b.py"]}, False),
        ("not { branch 'main' }", MAIN, False),
        ("anyOf {\nbranch 'main'\nbuildingTag()\n}", TAG, True),
        ("anyOf {\nbranch 'main'\nbuildingTag()\n}", CHANGE, False),
        ("allOf {\nbranch 'main'\nnot { changeRequest() }\n}", MAIN, True),
        ("branch 'main'\nexpression { false }", MAIN, False),
    ],
)
def test_when(run: Run, condition: str, arguments: dict[str, object], runs: bool) -> None:
    trace = run(when(condition), **arguments)
    assert trace.result == "SUCCESS"
    assert trace.stage("Only").ran is runs
    assert trace.skipped == ({} if runs else {"Only": "when"})


@pytest.mark.parametrize(
    ("flags", "steps"),
    [
        ("", ["lock", "input", "node", "checkout", "when", "unlock"]),
        ("beforeAgent true", ["lock", "input", "when", "unlock"]),
        ("beforeInput true", ["lock", "when", "unlock"]),
        ("beforeOptions true", ["when"]),
    ],
)
def test_when_is_evaluated_at_its_moment(run: Run, flags: str, steps: list[str]) -> None:
    sections = f"agent any\noptions {{ lock('gpu') }}\ninput {{ message 'Go?' }}\nwhen {{\n{flags}\nbranch 'main'\n}}"
    trace = run(pipeline(stage("echo 'x'", sections=sections), agent="none"), branch="other")
    assert [event.step for event in trace.stage("Only").events] == steps


def test_stage_runs_options_input_agent_when_environment_body_post(run: Run) -> None:
    sections = """
        agent { label 'gpu' }
        options { lock('gpu') }
        input { message 'Go?' }
        when { branch 'main' }
        environment { TOKEN = credentials('token') }
        post { always { echo 'after' } }
    """
    trace = run(
        pipeline(stage("echo 'body'", sections=sections), agent="none"), labels=["gpu"], credentials={"token": "s"}
    )
    assert [event.step for event in trace.stage("Only").events] == [
        "lock", "input", "node", "checkout", "when", "credentials", "echo", "post", "echo", "unlock",
    ]  # fmt: skip


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


def test_environment_is_inherited_overridden_and_expanded(run: Run) -> None:
    sections = """
        environment { B = 'stage'
                      C = "${A}-${B}"
                      D = '$A/bin'
                      E = sh(script: 'echo out', returnStdout: true).trim() }
    """
    trace = run(
        pipeline(
            stage("sh 'echo $A $B $C $D $E $STAGE_NAME'", sections=sections), top="environment { A = 'a'\nB = 'b' }"
        )
    )
    assert trace.commands[-1].output.splitlines()[-1] == "a stage a-stage a/bin out Only"


def test_assigned_env_lasts_and_environment_wins_over_it(run: Run) -> None:
    stages = stage("script {\nenv.A = 'assigned'\nenv.B = 'assigned'\n}", name="Set") + stage(
        "sh 'echo $A $B'", name="Get"
    )
    trace = run(pipeline(stages, top="environment { B = 'section' }"))
    assert trace.stage("Get").commands[0].output.splitlines()[-1] == "assigned section"


PARAMETERS = """
parameters {
    string(name: 'NAME', defaultValue: 'none')
    booleanParam(name: 'PUBLISH', defaultValue: false)
    choice(name: 'WAVE', choices: ['canary', 'rest'])
}
"""


def test_parameters_have_defaults_and_given_values(run: Run) -> None:
    text = pipeline(
        stage("sh 'echo $NAME $PUBLISH $WAVE'\nscript { if (params.PUBLISH) { echo 'yes' } }"), top=PARAMETERS
    )
    assert run(text).params == {"NAME": "none", "PUBLISH": False, "WAVE": "canary"}
    trace = run(text, params={"NAME": "x", "PUBLISH": True, "WAVE": "rest"})
    assert trace.commands[0].output.splitlines()[-1] == "x true rest"
    assert trace.stage("Only").of("echo")[0]["text"] == "yes"


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"NAEM": "x"}, "no such parameter; there are NAME"),
        ({"WAVE": "all"}, "one of canary, rest"),
        ({"PUBLISH": "x"}, "true or"),
    ],
)
def test_impossible_parameters_are_refused(run: Run, params: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(pipeline(stage("echo 'x'"), top=PARAMETERS), params=params)


INPUT = """
stage('Ask') {
    agent none
    input { message 'Deploy?'
            parameters { string(name: 'WHY', defaultValue: 'because') } }
    steps { echo "why: ${WHY}" }
}
stage('After') { steps { echo 'x' } }
"""


def test_input_approved_gives_its_values(run: Run) -> None:
    trace = run(pipeline(INPUT, agent="none"), input_values={"WHY": "test"})
    assert trace.stage("Ask").inputs == [("Deploy?", "approve")]
    assert trace.stage("Ask").of("echo")[0]["text"] == "why: test"


@pytest.mark.parametrize("answer", [False, {"Ask": False}])
def test_input_refused_aborts_the_build(run: Run, answer: object) -> None:
    trace = run(pipeline(INPUT, agent="none"), approve=answer)
    assert (trace.result, trace.stage("Ask").result, trace.ran) == ("ABORTED", "ABORTED", ["Ask"])
    assert trace.skipped == {"After": "aborted"}


def test_answer_for_an_unknown_stage_is_refused(run: Run) -> None:
    with pytest.raises(ValueError, match="no such stage; there are: Ask, After"):
        run(pipeline(INPUT, agent="none"), approve={"Aks": False})


POST = """
post {
    cleanup { echo 'x' }
    notBuilt { echo 'x' }
    failure { echo 'x' }
    unstable { echo 'x' }
    unsuccessful { echo 'x' }
    success { echo 'x' }
    aborted { echo 'x' }
    regression { echo 'x' }
    fixed { echo 'x' }
    changed { echo 'x' }
    always { echo 'x' }
}
"""


@pytest.mark.parametrize(
    ("step", "previous", "conditions"),
    [
        ("echo 'x'", None, ["always", "changed", "success", "cleanup"]),
        ("echo 'x'", "SUCCESS", ["always", "success", "cleanup"]),
        ("echo 'x'", "FAILURE", ["always", "changed", "fixed", "success", "cleanup"]),
        ("error 'x'", "FAILURE", ["always", "unsuccessful", "failure", "cleanup"]),
        ("error 'x'", "SUCCESS", ["always", "changed", "regression", "unsuccessful", "failure", "cleanup"]),
        ("unstable 'x'", "SUCCESS", ["always", "changed", "regression", "unsuccessful", "unstable", "cleanup"]),
        ("input 'x'", "ABORTED", ["always", "aborted", "unsuccessful", "cleanup"]),
    ],
)
@pytest.mark.parametrize("where", ["stage", "pipeline"])
def test_post_runs_the_conditions_in_order(
    run: Run, where: str, step: str, previous: str | None, conditions: list[str]
) -> None:
    sections, top = (POST, "") if where == "stage" else ("", POST)
    trace = run(pipeline(stage(step, sections=sections), top=top), previous_result=previous, approve=False)
    assert [event["condition"] for event in trace.events if event.step == "post"] == conditions


def test_error_in_post_fails_a_good_stage_and_later_conditions_see_it(run: Run) -> None:
    sections = "post {\nalways { error 'in post' }\nsuccess { echo 'success' }\nfailure { echo 'failure' }\n}"
    trace = run(pipeline(stage("echo 'x'", sections=sections)))
    assert (trace.result, trace.error) == ("FAILURE", "in post")
    assert [event["condition"] for event in trace.stage("Only").of("post")] == ["always", "failure"]


def test_result_in_post_is_the_logical_one(run: Run) -> None:
    trace = run(pipeline(stage("error 'x'", sections="post { always { echo currentBuild.currentResult } }")))
    assert trace.stage("Only").of("echo")[0]["text"] == "FAILURE"


def test_pipeline_post_runs_when_its_agent_is_missing(run: Run) -> None:
    trace = run(pipeline(stage("echo 'x'"), agent="{ label 'nobody' }", top="post { failure { echo 'told' } }"))
    assert [event["text"] for event in trace.events if event.step == "echo"] == ["told"]
    assert trace.skipped == {"Only": "failure"}


def test_failure_skips_the_stages_after_it(run: Run) -> None:
    trace = run(pipeline(stage("error 'broken'", name="A") + stage("echo 'x'", name="B")))
    assert (trace.result, trace.ran, trace.skipped) == ("FAILURE", ["A"], {"B": "failure"})
    assert (trace.stage("A").error, trace.stage("B").result) == ("broken", "NOT_BUILT")


@pytest.mark.parametrize(("top", "ran"), [("", ["A", "B"]), ("options { skipStagesAfterUnstable() }", ["A"])])
def test_unstable_goes_on_unless_it_is_told_not_to(run: Run, top: str, ran: list[str]) -> None:
    trace = run(pipeline(stage("unstable 'hm'", name="A") + stage("echo 'x'", name="B"), top=top))
    assert (trace.result, trace.ran) == ("UNSTABLE", ran)
    assert trace.stage("A").result == "UNSTABLE"
    assert trace.skipped == ({} if not top else {"B": "unstable"})


def test_processes_left_on_an_agent_end_with_it(run: Run) -> None:
    trace = run(pipeline(stage("sh 'sleep 300 & echo $!'", sections="agent any"), agent="none"))
    left = int(trace.commands[0].output.split()[-1])
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(left)], capture_output=True, text=True, check=False
    ).stdout.strip()
    assert state in ("", "Z", "Zs"), f"process {left} is still {state}"
