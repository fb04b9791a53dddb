"""The sections around a stage's body: their order, agents, when, environment, parameters, input, post."""

from __future__ import annotations

import pytest

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
        ("branch 'PR-*'", CHANGE, True),
        ("branch 'MAIN'", MAIN, True),
        ("branch 'v*'", TAG, True),
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
        ("environment name: 'NOT_SET', value: ''", MAIN, True),
        ("equals expected: 'main', actual: env.BRANCH_NAME", MAIN, True),
        ("equals expected: 2, actual: currentBuild.number", MAIN, False),
        ("triggeredBy 'TimerTrigger'", {"timer": True}, True),
        ("triggeredBy 'TimerTrigger'", {}, False),
        ("triggeredBy 'UserIdCause'", {"timer": True}, False),
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


@pytest.mark.parametrize(("number", "seen"), [(1, "unset"), (2, "canary")])
def test_the_shell_knows_no_parameter_on_the_first_build(run: Run, number: int, seen: str) -> None:
    """`params` has the default from the start; the variable is there from the second build on (JENKINS-41929)."""
    steps = "echo \"${params.WAVE}\"\nsh 'echo ${WAVE-unset}'"
    trace = run(pipeline(stage(steps), top=PARAMETERS), build_number=number)
    assert trace.stage("Only").of("echo")[0]["text"] == "canary"
    assert trace.commands[0].output.splitlines()[-1] == seen


def test_parameters_have_defaults_and_given_values(run: Run) -> None:
    say = 'echo "${PUBLISH.class.simpleName} ${env.WAVE}"'
    steps = f"sh 'echo $NAME $PUBLISH $WAVE'\nscript {{ if (params.PUBLISH) {{ {say} }} }}"
    text = pipeline(stage(steps), top=PARAMETERS)
    assert run(text).params == {"NAME": "none", "PUBLISH": False, "WAVE": "canary"}
    trace = run(text, params={"NAME": "x", "PUBLISH": True, "WAVE": "rest"})
    assert trace.commands[0].output.splitlines()[-1] == "x true rest"
    assert trace.stage("Only").of("echo")[0]["text"] == "String rest"


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
