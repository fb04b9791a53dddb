"""What the runner does with a pipeline: the order of the directives, agents, steps, results."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import git
from tests.jenkins.conftest import Run, pipeline, stage

MAIN, OTHER, TAG, CHANGE = {"branch": "main"}, {"branch": "release/1"}, {"tag": "v1.2"}, {"change": "7"}
NEITHER = "not { anyOf {\nbranch 'main'\nbuildingTag()\n} }"
DECLARED = "parameters {\nstring(name: 'NAME', defaultValue: 'no')\nchoice(name: 'WAVE', choices: ['canary', 'all']) }"
LAST = stage("echo 'x'", name="Later")


def report(cases: str) -> str:
    """Return steps that write a report of tests and show it."""
    return f"sh 'echo \"<testsuite>{cases}</testsuite>\" > r.xml'\njunit 'r.xml'"


@pytest.mark.parametrize(
    ("condition", "build", "runs"),
    [
        ("branch 'main'", MAIN, True), ("branch 'main'", OTHER, False), ("branch 'main'", TAG, False),
        ("branch 'release/*'", OTHER, True), ("tag 'v*'", TAG, True), ("tag 'v*'", MAIN, False),
        ("buildingTag()", TAG, True), ("buildingTag()", CHANGE, False), (NEITHER, CHANGE, True), (NEITHER, TAG, False),
        ("expression { env.CHANGE_ID == null && params.NAME == 'no' }", MAIN, True),
        ("expression { env.CHANGE_ID == null }", CHANGE, False), ("branch 'main'\nexpression { false }", MAIN, False),
    ],
)  # fmt: skip
def test_when(run: Run, condition: str, build: dict[str, str], runs: bool) -> None:
    trace = run(pipeline(stage("echo 'ran'", sections=f"when {{\n{condition}\n}}"), top=DECLARED), **build)
    assert (trace.result, trace.skipped) == ("SUCCESS", {} if runs else {"Only": "when"})


@pytest.mark.parametrize(
    ("flags", "branch", "steps"),
    [
        ("", "other", ["input", "node", "checkout", "when"]),
        ("beforeAgent true", "other", ["input", "when"]),
        ("", "main", ["input", "node", "checkout", "when", "echo", "post", "echo"]),
    ],
)
def test_stage_runs_input_agent_when_body_post_in_order(run: Run, flags: str, branch: str, steps: list[str]) -> None:
    sections = f"""agent any\noptions {{ timeout(5) }}\ninput {{ message 'Go?' }}\nwhen {{\n{flags}\nbranch 'main'\n}}
        environment {{ SAID = "${{env.STAGE_NAME}}" }}\npost {{ always {{ echo 'after' }} }}"""
    trace = run(pipeline(stage('echo "${SAID}"', sections=sections), agent="none"), branch=branch)
    assert [event.step for event in trace.stage("Only").events] == steps


def test_each_agent_is_a_fresh_clone_with_a_path_of_its_own(run: Run, source: Path, tmp_path: Path) -> None:
    (source / "untracked.txt").write_text("x")
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho a GPU\n")
    program.chmod(0o755)
    look = "sh 'ls; echo commit $GIT_COMMIT; nvidia-smi || true; touch left'"
    stages = [stage(look, name=name, sections=f"agent {{ label '{at}' }}") for name, at in (("A", "gpu"), ("B", "cpu"))]
    labels = {"cpu": None, "gpu": program.parent}
    trace = run(pipeline("".join(stages), agent="none"), labels=labels, env={"PATH": "/usr/bin:/bin"})
    assert (trace.result, trace.stage("A").label, trace.stage("B").label) == ("SUCCESS", "gpu", "cpu"), trace.log
    first, second = (command.output.splitlines() for command in trace.commands)
    assert f"commit {git(source, 'rev-parse', 'HEAD').strip()}" in second
    assert ("a GPU" in first, "a GPU" in second) == (True, False)
    assert "tracked.txt" in second
    assert not {"untracked.txt", "left"} & set(first + second)


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ("sh '''echo one\nfalse\necho two'''", "script returned exit code 1"),
        ("unstash 'wheel'", "No such saved stash 'wheel'"),
        ("stash name: 'wheel', includes: '*.whl'", "No files included in stash 'wheel'"),
        ("archiveArtifacts '*.whl'", 'No artifacts found that match "*.whl"'),
        ("junit 'reports/*.xml'", "No test report files were found. Configuration error?"),
        ("withCredentials([string(credentialsId: 'token', variable: 'T')]) { echo 'x' }", "entry with ID 'token'"),
        ("withCredentials([string(credentialsId: 'login', variable: 'T')]) { echo 'x' }", "'string' was expected"),
        ("script { shh 'x' }", "No such DSL method 'shh' found among steps"),
        ("echo unknown", "Jenkinsfile:8: groovy.lang.MissingPropertyException: No such property: unknown"),
        ("lock(label: 'gpu', quantity: 2) { echo 'x' }", "2 resources wanted, there is 1"),
        ("milestone 2\nmilestone 1", "Milestone 1 passed out of order"),
    ],
)
def test_step_fails_as_in_jenkins(run: Run, step: str, error: str) -> None:
    trace = run(pipeline(stage(step) + LAST), credentials={"login": ("me", "pw")})
    assert (trace.result, trace.ran, trace.skipped) == ("FAILURE", ["Only"], {"Later": "failure"})
    assert error in str(trace.error)
    assert error in trace.log


@pytest.mark.parametrize(
    ("step", "agent", "error"),
    [
        ("sh 'true'", "none", "needs an agent"), ("stash 'x'", "none", "needs an agent"),
        ("junit 'x'", "none", "needs an agent"), ("sh 'x'", "{ label 'gpu' }", "no nodes with the label 'gpu'; "),
    ],
)  # fmt: skip
def test_a_stage_without_the_agent_that_it_needs_fails(run: Run, step: str, agent: str, error: str) -> None:
    """Its post runs only where the body was reached."""
    sections = f"agent {agent}\npost {{ always {{ echo 'p' }} }}"
    trace = run(pipeline(stage(step, sections=sections), agent="none"))
    assert error in str(trace.error)
    assert bool(trace.stage("Only").of("post")) == (agent == "none")


def test_stash_and_archive_carry_the_matching_files(run: Run) -> None:
    make = """
        sh 'mkdir -p a/b; echo 1 > a/b/x; chmod 755 a/b/x; echo 2 > c; echo 3 > a/.gitignore'
        stash name: 's', includes: 'a/**'
        stash name: 'deep', includes: '**/c, **/x', excludes: 'a/b/**'
        archiveArtifacts artifacts: 'a/*, c', allowEmptyArchive: true
        deleteDir()
        sh 'test -z "$(ls)"'
    """
    take = "unstash 's'\nsh 'test -x a/b/x; test ! -e c; test ! -e a/.gitignore'"
    trace = run(pipeline(stage(make, name="A") + stage(take, name="B", sections="agent any")))
    assert trace.result == "SUCCESS", trace.log
    assert [event["files"] for event in trace.stage("A").of("stash")] == [["a/b/x"], ["c"]]
    assert trace.stage("A").of("archiveArtifacts")[0]["files"] == ["c"]
    assert (trace.archive / "c").is_file()


@pytest.mark.parametrize("inside", ["", "<failure/>", "<error/>"])
@pytest.mark.parametrize("top", ["", "options { skipStagesAfterUnstable() }"])
def test_failed_tests_make_a_build_unstable_and_stop_what_asks_for_it(run: Run, inside: str, top: str) -> None:
    xml = f"<testcase/><testcase>{inside}</testcase><testcase><skipped/></testcase>"
    asks = stage("echo 'x'", name="Asks", sections="when { expression { currentBuild.currentResult == 'SUCCESS' } }")
    trace = run(pipeline(stage(report(xml)) + asks + LAST, top=top))
    result = "UNSTABLE" if inside else "SUCCESS"
    assert (trace.result, trace.stage("Only").result) == (result, result)
    told = trace.stage("Only").reports[0]
    assert (told.total, told.failed, told.skipped) == (3, int(bool(inside)), 1)
    left_out = {"Asks": "unstable", "Later": "unstable"} if top else {"Asks": "when"}
    assert trace.skipped == (left_out if inside else {})


def test_credentials_are_bound_masked_and_taken_back(run: Run, tmp_path: Path) -> None:
    (tmp_path / "kube").write_text("cluster")
    steps = """
        withCredentials([string(credentialsId: "${env.ID}", variable: "TO${env.KEN}"),
                         file(credentialsId: 'kube', variable: 'KUBE'),
                         usernamePassword(credentialsId: 'login', usernameVariable: 'U', passwordVariable: 'P')]) {
            sh 'echo $TOKEN $U $P; cat $KUBE; echo $TOKEN | tr a-z A-Z; echo $KUBE > where'
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


@pytest.mark.parametrize(("options", "step"), [("options { timeout(time: 1, unit: 'HOURS') }", ""), ("", "timeout(6)")])
def test_timeout_stops_what_runs_and_aborts_but_post_runs(run: Run, tmp_path: Path, options: str, step: str) -> None:
    wait = f"sh 'echo started; (sleep 30; touch {tmp_path}/late) & sleep 30'"
    sections = f"{options}\npost {{ always {{ sh 'echo cleaned' }} }}"
    steps = f"{step} {{ {wait} }}" if step else wait
    trace = run(pipeline(stage(steps, sections=sections)), timeouts={"Only": 0.5})
    assert (trace.result, trace.stage("Only").result) == ("ABORTED", "ABORTED")
    assert trace.error == "Timeout has been exceeded"
    assert [command.exit_code for command in trace.commands] == [None, 0]
    assert trace.stage("Only").of("timeout")[0]["seconds"] == 0.5


@pytest.mark.parametrize(("number", "seen"), [(1, "unset unset"), (2, "canary no")])
def test_the_shell_knows_no_parameter_on_the_first_build(run: Run, number: int, seen: str) -> None:
    """`params` has the default from the start; the variable is there from the second build on (JENKINS-41929)."""
    steps = "echo \"${params.WAVE}\"\nsh 'echo ${WAVE-unset} ${NAME-unset}'"
    trace = run(pipeline(stage(steps), top=DECLARED), build_number=number)
    assert trace.stage("Only").of("echo")[0]["text"] == "canary"
    assert trace.commands[0].output.splitlines()[-1] == seen


def test_a_parameter_that_is_given_is_a_variable_and_an_impossible_one_is_refused(run: Run) -> None:
    text = pipeline(stage("sh 'echo $WAVE'"), top=DECLARED)
    assert run(text, params={"WAVE": "all"}).commands[0].output.splitlines()[-1] == "all"
    for params, message in (({"NAEM": "x"}, "no such parameter"), ({"WAVE": "none"}, "one of canary, all")):
        with pytest.raises(ValueError, match=message):
            run(text, params=params)


def test_input_refused_aborts_the_build(run: Run) -> None:
    ask = stage("echo 'x'", name="Ask", sections="input {\nmessage 'Deploy?'\nsubmitter 'people'\n}")
    trace = run(pipeline(ask + LAST, agent="none"), approve=False)
    assert (trace.result, trace.stage("Ask").result, trace.ran) == ("ABORTED", "ABORTED", ["Ask"])
    assert trace.skipped == {"Later": "aborted"}
    asked = trace.stage("Ask").of("input")[0]
    assert (asked["message"], asked["submitter"], asked["answer"]) == ("Deploy?", "people", "abort")


def test_error_in_post_fails_a_good_stage_and_cleanup_still_runs(run: Run) -> None:
    trace = run(pipeline(stage("echo 'x'", sections="post {\ncleanup { echo 'c' }\nalways { sh 'false' }\n}")))
    conditions = [event["condition"] for event in trace.events if event.step == "post"]
    assert (trace.result, conditions) == ("FAILURE", ["always", "cleanup"])


def test_the_cells_of_a_matrix_take_turns_and_a_failed_one_holds_back_only_itself(run: Run) -> None:
    shell = "sh 'echo $ROW on $SLOT0_DEVICE of $SLOT; test $ROW != plain'"
    build = f"lock(label: 'gpu', quantity: 1, variable: 'SLOT') {{ {shell} }}"
    cells = stage(build, name="Build", sections="agent any") + stage('echo "promoted ${env.ROW}"', name="Promote")
    axes = "axes { axis { name 'ROW'\nvalues 'torch', 'plain' } }"
    images = f"stage('Images') {{\nmatrix {{\n{axes}\nstages {{\n{cells}\n}}\n}}\n}}\n"
    trace = run(pipeline(images + LAST, agent="none"))
    results = {stage.name: stage.result for stage in trace.all_stages if stage.name.startswith("Matrix")}
    assert results == {"Matrix - ROW = 'torch'": "SUCCESS", "Matrix - ROW = 'plain'": "FAILURE"}, trace.log
    assert (trace.result, trace.stage("Later").skipped) == ("FAILURE", "failure")
    assert trace.stage("Promote", ROW="plain").skipped == "failure"
    assert [event.step for event in trace.events if event.step in ("sh", "echo")] == ["sh", "sh", "echo"]
    assert "torch on 0 of gpu-1" in trace.commands[0].output
    with pytest.raises(LookupError, match="2 stages are named 'Build'"):
        trace.stage("Build")


def test_script_is_groovy_and_with_env_sets_variables(run: Run) -> None:
    steps = """
        script { def number = env.BUILD_NUMBER.toInteger(); milestone(number - 1); milestone(number) }
        withEnv(["A=${currentBuild.getBuildCauses('a.TimerTrigger$TimerTriggerCause') ? '1' : ''}", 'B=x=y']) {
            sh 'echo "[$A] $B"'
        }
    """
    for timer, seen in ((True, "[1] x=y"), (False, "[] x=y")):
        trace = run(pipeline(stage(steps)), timer=timer, build_number=3)
        assert trace.commands[0].output.splitlines()[-1] == seen, trace.log
        assert [event["ordinal"] for event in trace.events if event.step == "milestone"] == [2, 3]


def test_a_stage_runs_alone_after_an_earlier_build(run: Run, tmp_path: Path) -> None:
    """As "Restart from Stage" does: with the stashes of that build and without the other stages."""
    take = stage("unstash 's'\nsh 'cat tracked.txt'", name="B")
    text = pipeline(stage("stash 's'\narchiveArtifacts '*'", name="A") + take)
    first = run(text, only=["A"])
    assert (first.ran, first.skipped) == (["A"], {"B": "only"})
    second = run(text, only=["B"], after=first, workdir=tmp_path / "again")
    assert (second.result, second.ran, second.skipped) == ("SUCCESS", ["B"], {"A": "only"})
    alone = run(text, only=["B"])
    assert (alone.error, alone.archive.exists()) == ("No such saved stash 's'", False)
    with pytest.raises(ValueError, match="'C': no such stage"):
        run(text, only=["C"])
