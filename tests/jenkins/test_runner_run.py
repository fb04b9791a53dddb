"""What the runner does with a pipeline: the order of the directives, agents, steps, results."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.conftest import git
from tests.jenkins.conftest import Run, pipeline, stage

MAIN: dict[str, object] = {"branch": "main"}
OTHER: dict[str, object] = {"branch": "release/1"}
TAG: dict[str, object] = {"tag": "v1.2"}
CHANGE: dict[str, object] = {"change": "7"}
PARAMETERS = (
    "parameters {\nstring(name: 'NAME', defaultValue: 'none')\nchoice(name: 'WAVE', choices: ['canary', 'rest'])\n}"
)


@pytest.mark.parametrize(
    ("condition", "arguments", "runs"),
    [
        ("branch 'main'", MAIN, True),
        ("branch 'main'", OTHER, False),
        ("branch 'main'", TAG, False),
        ("branch 'release/*'", OTHER, True),
        ("tag 'v*'", TAG, True),
        ("tag 'v*'", MAIN, False),
        ("buildingTag()", TAG, True),
        ("buildingTag()", CHANGE, False),
        ("expression { env.CHANGE_ID == null && params.NAME == 'none' }", MAIN, True),
        ("expression { env.CHANGE_ID == null }", CHANGE, False),
        ("not { anyOf {\nbranch 'main'\nbuildingTag()\n} }", CHANGE, True),
        ("not { anyOf {\nbranch 'main'\nbuildingTag()\n} }", TAG, False),
        ("branch 'main'\nexpression { false }", MAIN, False),
    ],
)
def test_when(run: Run, condition: str, arguments: dict[str, object], runs: bool) -> None:
    trace = run(pipeline(stage("echo 'ran'", sections=f"when {{\n{condition}\n}}"), top=PARAMETERS), **arguments)
    assert (trace.result, trace.skipped) == ("SUCCESS", {} if runs else {"Only": "when"})


@pytest.mark.parametrize(
    ("flags", "branch", "steps"),
    [
        ("", "other", ["input", "node", "when"]),
        ("beforeAgent true", "other", ["input", "when"]),
        ("", "main", ["input", "node", "when", "echo", "post", "echo"]),
    ],
)
def test_stage_runs_input_agent_when_body_post_in_order(run: Run, flags: str, branch: str, steps: list[str]) -> None:
    sections = f"""
        agent any
        options {{ timeout(5) }}
        input {{ message 'Go?' }}
        when {{\n{flags}\nbranch 'main'\n}}
        environment {{ SAID = "${{env.STAGE_NAME}}" }}
        post {{ always {{ echo 'after' }} }}
    """
    trace = run(pipeline(stage('echo "${SAID}"', sections=sections), agent="none"), branch=branch)
    assert [event.step for event in trace.stage("Only").events] == steps


def test_agents_have_workspaces_paths_and_processes_of_their_own(run: Run, source: Path, tmp_path: Path) -> None:
    """Each is a fresh clone of the commit; the folder of a label is on PATH there alone; what it left running ends."""
    git(source, "init", "--quiet")
    git(source, "add", "--all")
    git(source, "commit", "--quiet", "--message=one")
    (source / "untracked.txt").write_text("x")
    commit = git(source, "rev-parse", "HEAD").strip()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvidia-smi").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "nvidia-smi").chmod(0o755)
    look = "sh 'ls; echo commit $GIT_COMMIT; command -v nvidia-smi || true; sleep 300 & echo left: $!'"
    stages = stage(f"sh 'touch left'\n{look}", name="A", sections="agent { label 'gpu' }") + stage(
        look, name="B", sections="agent { label 'cpu' }"
    )
    labels = {"cpu": None, "gpu": tmp_path / "bin"}
    trace = run(pipeline(stages, agent="none"), labels=labels, env={"PATH": "/usr/bin:/bin"})
    assert trace.result == "SUCCESS", trace.log
    output = {name: trace.stage(name).commands[-1].output for name in "AB"}
    assert (trace.stage("A").label, trace.stage("B").label) == ("gpu", "cpu")
    assert f"commit {commit}" in output["B"]
    assert "untracked" not in output["A"]
    assert ("nvidia-smi\n" in output["A"].replace("command -v nvidia-smi", ""), "\nleft\n" in output["B"]) == (
        True,
        False,
    )
    for name in "AB":
        # The shell in the background may write its own trace on the same line.
        left = int(re.findall(r"left: (\d+)", output[name])[0])
        for _ in range(100):
            command = ["ps", "-o", "stat=", "-p", str(left)]
            if subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()[:1] in ("", "Z"):
                break
            time.sleep(0.02)
        else:
            pytest.fail(f"process {left} of {name} still runs")


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ("sh '''echo one\nfalse\necho two'''", "script returned exit code 1"),
        ("unstash 'wheel'", "No such saved stash 'wheel'"),
        ("stash name: 'wheel', includes: '*.whl'", "No files included in stash 'wheel'"),
        ("archiveArtifacts '*.whl'", 'No artifacts found that match "*.whl"'),
        ("junit 'reports/*.xml'", "No test report files were found. Configuration error?"),
        ("withCredentials([string(credentialsId: 'token', variable: 'T')]) { echo 'x' }", "entry with ID 'token'"),
        (
            "withCredentials([string(credentialsId: 'login', variable: 'T')]) { echo 'x' }",
            "where 'string' was expected",
        ),
        ("script { shh 'x' }", "No such DSL method 'shh' found among steps"),
        ("echo unknown", "Jenkinsfile:8: groovy.lang.MissingPropertyException: No such property: unknown"),
        ("lock(label: 'gpu', quantity: 2) { echo 'x' }", "2 resources wanted, 'gpu' has 1"),
        ("milestone 2\nmilestone 1", "Milestone 1 passed out of order"),
    ],
)
def test_step_fails_as_in_jenkins(run: Run, step: str, error: str) -> None:
    trace = run(pipeline(stage(step) + stage("echo 'x'", name="Later")), credentials={"login": ("me", "pw")})
    assert (trace.result, trace.ran, trace.skipped) == ("FAILURE", ["Only"], {"Later": "failure"})
    assert error in str(trace.error)
    assert error in trace.log


@pytest.mark.parametrize("step", ["sh 'true'", "junit 'x.xml'", "stash 'x'"])
def test_step_on_files_without_an_agent_fails(run: Run, step: str) -> None:
    assert "needs an agent" in str(run(pipeline(stage(step), agent="none")).error)


def test_label_that_no_node_has_fails_the_stage_and_runs_no_post(run: Run) -> None:
    sections = "agent { label 'gpu' }\npost { always { echo 'p' } }"
    trace = run(pipeline(stage("echo 'x'", sections=sections), agent="none"))
    assert trace.error == "There are no nodes with the label 'gpu'; there are: linux"
    assert [event.step for event in trace.stage("Only").events] == ["failed"]


def test_stash_and_archive_carry_the_matching_files(run: Run) -> None:
    make = """
        sh 'mkdir -p a/b; echo 1 > a/b/x; chmod 755 a/b/x; echo 2 > c; echo 3 > a/.gitignore'
        stash name: 's', includes: 'a/**'
        archiveArtifacts artifacts: 'a/*, c', allowEmptyArchive: true
        deleteDir()
        sh 'test -z "$(ls)"'
    """
    stages = stage(make, name="A", sections="agent any") + stage(
        "unstash 's'\nsh 'test -x a/b/x; test ! -e c; test ! -e a/.gitignore'", name="B", sections="agent any"
    )
    trace = run(pipeline(stages, agent="none"))
    assert trace.result == "SUCCESS", trace.log
    assert trace.stage("A").of("stash")[0]["files"] == ["a/b/x"]
    assert trace.stage("A").of("archiveArtifacts")[0]["files"] == ["c"]
    assert (trace.archive / "c").is_file()


@pytest.mark.parametrize(
    ("inside", "result", "failed"), [("", "SUCCESS", 0), ("<failure/>", "UNSTABLE", 1), ("<error/>", "UNSTABLE", 1)]
)
@pytest.mark.parametrize("top", ["", "options { skipStagesAfterUnstable() }"])
def test_junit_marks_unstable_and_that_stops_the_stages_where_it_should(
    run: Run, inside: str, result: str, failed: int, top: str
) -> None:
    xml = f"<testsuite><testcase/><testcase>{inside}</testcase><testcase><skipped/></testcase></testsuite>"
    trace = run(pipeline(stage(f"sh 'echo \"{xml}\" > r.xml'\njunit 'r.xml'") + stage("echo 'x'", name="B"), top=top))
    assert (trace.result, trace.stage("Only").result) == (result, result)
    report = trace.stage("Only").reports[0]
    assert (report.total, report.failed, report.skipped) == (3, failed, 1)
    assert trace.skipped == ({"B": "unstable"} if failed and top else {})


def test_credentials_are_bound_masked_and_taken_back(run: Run, tmp_path: Path) -> None:
    (tmp_path / "kube").write_text("cluster")
    steps = """
        withCredentials([string(credentialsId: "${env.ID}", variable: "TO${env.KEN}"),
                         file(credentialsId: 'kube', variable: 'KUBE'),
                         usernamePassword(credentialsId: 'login', usernameVariable: 'U', passwordVariable: 'P')]) {
            sh 'echo $TOKEN $U $P; cat $KUBE; echo $TOKEN | tr a-z A-Z; cp $KUBE kept; echo $KUBE > where'
            echo "in Groovy: ${TOKEN}"
        }
        sh 'echo "[$TOKEN]"; test ! -e "$(cat where)"'
    """
    secrets = {"token": "s3cret", "login": ("me", "passw0rd"), "kube": tmp_path / "kube"}
    trace = run(pipeline(stage(steps)), credentials=secrets, env={"ID": "token", "KEN": "KEN"})
    assert trace.result == "SUCCESS", trace.log
    assert [event["id"] for event in trace.stage("Only").of("credentials")] == ["token", "kube", "login"]
    assert "S3CRET" in trace.commands[0].output, "the command itself had the secret"
    assert "\n**** me ****\n" in trace.commands[0].output
    assert "\n[]\n" in trace.commands[1].output
    assert not [secret for secret in ("s3cret", "passw0rd") if secret in trace.log or secret in str(trace.events)]


def test_timeout_stops_the_processes_and_aborts_but_post_runs(run: Run, tmp_path: Path) -> None:
    sections = "options { timeout(time: 1, unit: 'HOURS') }\npost { always { sh 'echo cleaned' } }"
    steps = f"sh 'echo started; (sleep 30; touch {tmp_path}/late) & sleep 30'"
    trace = run(pipeline(stage(steps, sections=sections)), timeouts={"Only": 0.5})
    assert (trace.result, trace.stage("Only").result, trace.error) == (
        "ABORTED",
        "ABORTED",
        "Timeout has been exceeded",
    )
    assert [command.exit_code for command in trace.commands] == [None, 0]
    assert trace.stage("Only").of("timeout")[0]["seconds"] == 0.5


@pytest.mark.parametrize(
    ("timeouts", "message"), [({"Olny": 1}, "there are: Only"), ({"Only": 1}, "no timeout to replace")]
)
def test_timeout_that_does_not_exist_cannot_be_replaced(run: Run, timeouts: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(pipeline(stage("echo 'x'")), timeouts=timeouts)


@pytest.mark.parametrize(("number", "seen"), [(1, "unset unset"), (2, "canary none")])
def test_the_shell_knows_no_parameter_on_the_first_build(run: Run, number: int, seen: str) -> None:
    """`params` has the default from the start; the variable is there from the second build on (JENKINS-41929)."""
    steps = "echo \"${params.WAVE}\"\nsh 'echo ${WAVE-unset} ${NAME-unset}'"
    trace = run(pipeline(stage(steps), top=PARAMETERS), build_number=number)
    assert trace.stage("Only").of("echo")[0]["text"] == "canary"
    assert trace.commands[0].output.splitlines()[-1] == seen


@pytest.mark.parametrize(
    ("params", "message"), [({"NAEM": "x"}, "no such parameter"), ({"WAVE": "all"}, "one of canary, rest")]
)
def test_impossible_parameters_are_refused(run: Run, params: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(pipeline(stage("echo 'x'"), top=PARAMETERS), params=params)
    given = run(pipeline(stage("sh 'echo $WAVE'"), top=PARAMETERS), params={"WAVE": "rest"})
    assert given.commands[0].output.splitlines()[-1] == "rest"


def test_input_refused_aborts_the_build(run: Run) -> None:
    ask = stage("echo 'x'", name="Ask", sections="input {\nmessage 'Deploy?'\nsubmitter 'people'\n}")
    trace = run(pipeline(ask + stage("echo 'x'", name="After"), agent="none"), approve=False)
    assert (trace.result, trace.stage("Ask").result, trace.ran) == ("ABORTED", "ABORTED", ["Ask"])
    assert trace.skipped == {"After": "aborted"}
    asked = trace.stage("Ask").of("input")[0]
    assert (asked["message"], asked["submitter"], asked["answer"]) == ("Deploy?", "people", "abort")


def test_error_in_post_fails_a_good_stage_and_cleanup_still_runs(run: Run) -> None:
    trace = run(pipeline(stage("echo 'x'", sections="post {\ncleanup { echo 'c' }\nalways { sh 'false' }\n}")))
    assert (trace.result, [event["condition"] for event in trace.events if event.step == "post"]) == (
        "FAILURE", ["always", "cleanup"],
    )  # fmt: skip


def matrix(stages: str) -> str:
    """Return a stage with a matrix of two rows."""
    axes = "axes { axis { name 'ROW'\nvalues 'torch', 'plain' } }"
    return f"stage('Images') {{\nmatrix {{\n{axes}\nstages {{\n{stages}\n}}\n}}\n}}\n"


def test_matrix_runs_its_cells_and_a_failed_cell_holds_back_only_itself(run: Run) -> None:
    build = stage("sh 'echo $ROW; test $ROW != plain'", name="Build", sections="agent { label 'docker' }")
    text = matrix(build + stage('echo "promoted ${env.ROW}"', name="Promote")) + stage("echo 'x'", name="Last")
    trace = run(pipeline(text, agent="none"), labels=["docker"])
    cells = {stage.name: stage.result for stage in trace.all_stages if stage.name.startswith("Matrix")}
    assert cells == {"Matrix - ROW = 'torch'": "SUCCESS", "Matrix - ROW = 'plain'": "FAILURE"}
    assert (trace.result, trace.stage("Last").skipped) == ("FAILURE", "failure")
    assert trace.stage("Promote", ROW="torch").ran
    assert trace.stage("Promote", ROW="plain").skipped == "failure"
    assert {event["text"] for event in trace.events if event.step == "echo"} == {"promoted torch"}
    with pytest.raises(LookupError, match="2 stages are named 'Build'"):
        trace.stage("Build")


@pytest.mark.parametrize(("resources", "together"), [({}, False), ({"gpu": 2}, True)])
def test_cells_run_together_and_wait_for_a_lock(run: Run, resources: dict[str, int], together: bool) -> None:
    """With one resource one waits for the other; with two each has a device of its own."""
    meet = "for i in 1 2 3 4 5 6; do test $(ls here-* | wc -l) = 2 && break; sleep 0.1; done; ls here-* | wc -l"
    shell = f"cd $WORKSPACE/..; touch here-$ROW; {meet}; echo $SLOT0_DEVICE; rm here-$ROW"
    steps = f"lock(label: 'gpu', quantity: 1, variable: 'SLOT') {{\nsh '{shell}'\n}}"
    text = matrix(stage(steps, sections="agent any"))
    trace = run(pipeline(text, agent="none"), resources=resources)
    assert trace.result == "SUCCESS", trace.log
    cells = [trace.stage("Only", ROW=row).commands[0].output for row in ("torch", "plain")]
    said = sorted(tuple(re.findall(r"(?m)^\d$", output)) for output in cells)
    if together:
        assert ("2", "0") in said or ("2", "1") in said, trace.log
        assert {device for _, device in said} == {"0", "1"}
    else:
        assert said == [("1", "0"), ("1", "0")]


def test_script_is_groovy_and_with_env_sets_variables(run: Run) -> None:
    steps = """
        script {
            def number = env.BUILD_NUMBER.toInteger()
            if (number > 1) { milestone(number - 1) }
            milestone(number)
        }
        withEnv(["A=${currentBuild.getBuildCauses('a.TimerTrigger$TimerTriggerCause') ? '1' : ''}", 'B=x=y']) {
            sh 'echo "[$A] $B"'
        }
    """
    for timer, seen in ((True, "[1] x=y"), (False, "[] x=y")):
        trace = run(pipeline(stage(steps)), timer=timer, build_number=3)
        assert trace.result == "SUCCESS", trace.log
        assert trace.commands[0].output.splitlines()[-1] == seen
        assert [event["ordinal"] for event in trace.events if event.step == "milestone"] == [2, 3]


@pytest.mark.parametrize(("inside", "result"), [("", "SUCCESS"), ("<failure/>", "UNSTABLE")])
def test_a_condition_knows_the_result_so_far(run: Run, inside: str, result: str) -> None:
    xml = f"<testsuite><testcase>{inside}</testcase></testsuite>"
    when = "when { expression { currentBuild.currentResult == 'SUCCESS' } }"
    stages = stage(f"sh 'echo \"{xml}\" > r.xml'\njunit 'r.xml'") + stage("echo 'x'", name="B", sections=when)
    trace = run(pipeline(stages))
    assert (trace.result, trace.skipped) == (result, {} if result == "SUCCESS" else {"B": "when"})


def test_runs_do_not_see_each_other(run: Run) -> None:
    first = run(pipeline(stage("stash 's'\narchiveArtifacts '*'")))
    second = run(pipeline(stage("unstash 's'")))
    assert (first.result, second.error, second.archive.exists()) == ("SUCCESS", "No such saved stash 's'", False)


def test_a_stage_runs_alone_after_an_earlier_build(run: Run, tmp_path: Path) -> None:
    """As "Restart from Stage" does: with the stashes of that build, and without the other stages."""
    text = pipeline(stage("stash 's'", name="A") + stage("unstash 's'\nsh 'cat tracked.txt'", name="B"))
    first = run(text, only=["A"])
    assert (first.ran, first.skipped) == (["A"], {"B": "only"})
    second = run(text, only=["B"], after=first, workdir=tmp_path / "again")
    assert (second.result, second.ran, second.skipped) == ("SUCCESS", ["B"], {"A": "only"})
    assert run(text, only=[]).ran == []
    with pytest.raises(ValueError, match="'C': no such stage"):
        run(text, only=["C"])
