"""The steps: shell, files, reports, credentials, flow; and what runs at the same time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jenkins.conftest import Run, pipeline, stage


def test_sh_stops_at_the_first_failure_and_says_its_exit_code(run: Run) -> None:
    trace = run(pipeline(stage("sh '''echo one\nfalse\necho two'''")))
    assert (trace.result, trace.error) == ("FAILURE", "script returned exit code 1")
    assert (trace.commands[0].exit_code, trace.commands[0].output) == (1, "+ echo one\none\n+ false\n")
    assert trace.commands[0].script == "echo one\nfalse\necho two"


def test_sh_returns_status_and_stdout(run: Run) -> None:
    steps = """
        script {
            echo "status ${sh(script: 'exit 3', returnStatus: true)}"
            echo "out ${sh(script: 'echo hidden >&2; echo text', returnStdout: true).trim()}."
        }
        sh '''#!/usr/bin/env python3
print("python")'''
    """
    trace = run(pipeline(stage(steps)))
    assert [event["text"] for event in trace.stage("Only").of("echo")] == ["status 3", "out text."]
    assert trace.commands[2].output == "python\n"
    assert "hidden" in trace.log


def test_stash_carries_files_to_another_agent(run: Run) -> None:
    make = "sh 'mkdir a; echo 1 > a/x; chmod 755 a/x; echo 2 > b'\nstash name: 's', includes: 'a/**'"
    stages = stage(make, name="A", sections="agent any") + stage(
        "unstash 's'\nsh 'ls -R; test -x a/x'", name="B", sections="agent any"
    )
    trace = run(pipeline(stages, agent="none", top="options { skipDefaultCheckout() }"))
    assert trace.result == "SUCCESS"
    assert trace.stage("A").stashes == {"s": ["a/x"]}
    assert trace.stage("B").unstashed == ["s"]
    assert "b\n" not in trace.stage("B").commands[0].output


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ("unstash 'wheel'", "No such saved stash 'wheel'"),
        ("stash name: 'wheel', includes: '*.whl'", "No files included in stash 'wheel'"),
        ("archiveArtifacts '*.whl'", 'No artifacts found that match the file pattern "*.whl". Configuration error?'),
        ("junit 'reports/*.xml'", "No test report files were found. Configuration error?"),
        ("withCredentials([string(credentialsId: 'token', variable: 'T')]) { echo 'x' }",
         "Could not find credentials entry with ID 'token'"),
        ("shh 'x'", "No such DSL method 'shh' found among steps"),
        ("echo unknown", "Jenkinsfile:8: groovy.lang.MissingPropertyException: No such property: unknown for class"),
        ("readFile 'none'", "NoSuchFileException"),
        ("lock('a') { lock('a') { echo 'x' } }", "it would wait for ever"),
    ],
)  # fmt: skip
def test_step_fails_as_in_jenkins(run: Run, step: str, error: str) -> None:
    trace = run(pipeline(stage(step)))
    assert trace.result == "FAILURE"
    assert error in str(trace.error)
    assert error in trace.log


def test_archive_keeps_the_matching_files(run: Run) -> None:
    trace = run(
        pipeline(
            stage(
                "sh 'mkdir -p d/e; touch d/e/a.whl d/b.txt'\narchiveArtifacts artifacts: 'd/**', excludes: '**/*.txt'"
            )
        )
    )
    assert trace.stage("Only").archived == ["d/e/a.whl"]
    assert (trace.archive / "d/e/a.whl").is_file()


REPORT = "<testsuite><testcase/><testcase>{}</testcase><testcase><skipped/></testcase></testsuite>"


@pytest.mark.parametrize(
    ("inside", "arguments", "result", "failed"),
    [("", "'r.xml'", "SUCCESS", 0), ("<failure/>", "'r.xml'", "UNSTABLE", 1), ("<error/>", "'r.xml'", "UNSTABLE", 1),
     ("<failure/>", "testResults: 'r.xml', skipMarkingBuildUnstable: true", "SUCCESS", 1),
     ("", "testResults: 'none/*.xml', allowEmptyResults: true", "SUCCESS", None)],
)  # fmt: skip
def test_junit_counts_and_marks_unstable(
    run: Run, inside: str, arguments: str, result: str, failed: int | None
) -> None:
    trace = run(pipeline(stage(f'writeFile file: "r.xml", text: """{REPORT.format(inside)}"""\njunit {arguments}')))
    assert trace.result == result
    report = trace.stage("Only").reports[0]
    assert (report.total, report.failed, report.skipped) == ((3, failed, 1) if failed is not None else (0, 0, 0))


def test_files_of_a_workspace(run: Run) -> None:
    steps = """
        dir('sub') { writeFile file: 'a.json', text: '{"n": [1, 2]}' }
        script {
            echo readFile('sub/a.json')
            echo "${fileExists('sub/a.json')} ${fileExists('no')} ${readJSON(file: 'sub/a.json').n[1]}"
            echo findFiles(glob: '**/*.json')[0].name
        }
        deleteDir()
        sh 'ls'
    """
    trace = run(pipeline(stage(steps)))
    assert [event["text"] for event in trace.stage("Only").of("echo")] == ['{"n": [1, 2]}', "true false 2", "a.json"]
    assert trace.commands[0].output == "+ ls\n"


def test_credentials_are_bound_masked_and_taken_back(run: Run, tmp_path: Path) -> None:
    (tmp_path / "kube").write_text("cluster")
    steps = """
        withCredentials([string(credentialsId: 'token', variable: 'TOKEN'),
                         file(credentialsId: 'kube', variable: 'KUBE'),
                         usernamePassword(credentialsId: 'login', usernameVariable: 'U', passwordVariable: 'P')]) {
            sh 'echo $TOKEN $U $P; cat $KUBE; echo $TOKEN | tr a-z A-Z'
            echo "in Groovy: ${TOKEN}"
        }
        sh 'echo "[$TOKEN]"'
    """
    secrets = {"token": "s3cret", "login": ("me", "passw0rd"), "kube": tmp_path / "kube"}
    trace = run(pipeline(stage(steps)), credentials=secrets)
    assert trace.result == "SUCCESS"
    assert trace.stage("Only").credentials == ["token", "kube", "login"]
    assert "S3CRET" in trace.commands[0].output, "the command itself had the secret"
    assert "\n**** me ****\n" in trace.commands[0].output
    assert "\ncluster" in trace.commands[0].output
    assert trace.commands[1].output.endswith("[]\n")
    written = (trace.workdir / "trace.json").read_text() + trace.log
    assert "s3cret" not in written
    assert "passw0rd" not in written
    assert not list(trace.workdir.glob("workspace/*/secretFiles/*"))


def test_environment_credentials_have_user_and_password(run: Run) -> None:
    sections = "environment { LOGIN = credentials('login') }"
    steps = "sh 'test $LOGIN = me:pw-1; test $LOGIN_USR = me; test $LOGIN_PSW = pw-1'"
    trace = run(pipeline(stage(steps, sections=sections)),
                credentials={"login": ("me", "pw-1")})  # fmt: skip
    assert trace.result == "SUCCESS"
    missing = run(pipeline(stage("echo 'x'", sections=sections + "\npost { always { echo 'p' } }")))
    assert missing.error == "Could not find credentials entry with ID 'login'"
    assert missing.stage("Only").of("post") == []


def test_credential_of_another_type_is_refused(run: Run) -> None:
    steps = "withCredentials([string(credentialsId: 'login', variable: 'T')]) { echo 'x' }"
    trace = run(pipeline(stage(steps)), credentials={"login": ("me", "pw")})
    assert trace.error == "Credentials 'login' is of type 'Username with password' where 'Secret text' was expected"


def test_timeout_stops_the_processes_and_aborts_but_post_runs(run: Run, tmp_path: Path) -> None:
    sections = "options { timeout(time: 1, unit: 'HOURS') }\npost { aborted { sh 'echo cleaned' } }"
    steps = f"sh 'echo started; (sleep 30; touch {tmp_path}/late) & sleep 30'"
    trace = run(pipeline(stage(steps, sections=sections)), timeouts={"Only": 0.7})
    assert (trace.result, trace.stage("Only").result, trace.error) == (
        "ABORTED",
        "ABORTED",
        "Timeout has been exceeded",
    )
    assert [command.exit_code for command in trace.commands] == [None, 0]
    assert trace.stage("Only").duration_ms < 10000
    assert trace.stage("Only").of("timeout")[0]["seconds"] == 0.7


def test_timeout_that_does_not_exist_cannot_be_replaced(run: Run) -> None:
    with pytest.raises(ValueError, match="it has no timeout to replace"):
        run(pipeline(stage("echo 'x'")), timeouts={"Only": 1})


def test_activity_timeout_counts_silence(run: Run) -> None:
    talking = "sh 'for i in 1 2 3 4; do sleep 0.3; echo $i; done'"
    steps = f"timeout(time: 700, unit: 'MILLISECONDS', activity: true) {{ {talking} }}"
    assert run(pipeline(stage(steps))).result == "SUCCESS"


def test_retry_repeats_failures_but_not_an_outer_timeout(run: Run) -> None:
    steps = "retry(3) { sh 'echo x >> n; test $(wc -l < n) = 3' }"
    trace = run(pipeline(stage(steps)))
    assert (trace.result, [command.exit_code for command in trace.commands]) == ("SUCCESS", [1, 1, 0])
    assert [event["attempt"] for event in trace.stage("Only").of("retry")] == [2, 3]
    assert len(run(pipeline(stage("retry(2) { sh 'false' }"))).commands) == 2
    outer = run(pipeline(stage("timeout(time: 300, unit: 'MILLISECONDS') { retry(2) { sh 'sleep 9' } }")))
    assert (outer.result, len(outer.commands)) == ("ABORTED", 1)
    inner = run(pipeline(stage("retry(2) { timeout(time: 300, unit: 'MILLISECONDS') { sh 'sleep 9' } }")))
    assert (inner.result, len(inner.commands)) == ("ABORTED", 2)


@pytest.mark.parametrize(
    ("step", "build", "of_stage"),
    [
        ("catchError { error 'x' }", "FAILURE", "FAILURE"),
        ("catchError(buildResult: 'UNSTABLE', stageResult: 'FAILURE') { error 'x' }", "UNSTABLE", "FAILURE"),
        ("catchError(buildResult: 'SUCCESS', stageResult: 'UNSTABLE') { error 'x' }", "SUCCESS", "UNSTABLE"),
        ("warnError('hm') { error 'x' }", "UNSTABLE", "UNSTABLE"),
        ("unstable 'hm'", "UNSTABLE", "UNSTABLE"),
        ("script { currentBuild.result = 'UNSTABLE' }", "UNSTABLE", "UNSTABLE"),
        ("script { try { error 'x' } catch (e) { echo e.message } }", "SUCCESS", "SUCCESS"),
    ],
)
def test_caught_errors_set_the_results_and_go_on(run: Run, step: str, build: str, of_stage: str) -> None:
    trace = run(pipeline(stage(step + "\necho 'reached'")))
    assert (trace.result, trace.stage("Only").result) == (build, of_stage)
    assert trace.stage("Only").of("echo")[-1]["text"] == "reached"


def test_script_is_groovy_with_functions_and_fields(run: Run) -> None:
    text = "import groovy.transform.Field\n@Field int count = 0\ndef twice(text) { count++; echo text + text }\n"
    steps = (
        "script {\nfor (x in ['a', 'b']) { twice(x) }\n['c'].each { twice(it) }\nsleep 0\nprintln \"count ${count}\"\n}"
    )
    trace = run(text + pipeline(stage(steps)))
    assert [event["text"] for event in trace.stage("Only").of("echo")] == ["aa", "bb", "cc"]
    assert "[Only] count 3" in trace.log


def test_with_env_adds_replaces_and_prepends(run: Run) -> None:
    steps = "withEnv(['A=1', 'B=$A/x', 'PATH+MINE=/mine']) { sh 'echo $A $B; echo $PATH' }\nsh 'echo [$A]'"
    trace = run(pipeline(stage(steps), top="environment { A = '0' }"))
    lines = trace.commands[0].output.splitlines()
    assert lines[1] == "1 1/x"
    assert lines[3].startswith("/mine:")
    assert trace.commands[1].output.endswith("[0]\n")


def parallel(first: str, second: str, flags: str = "") -> str:
    """Return a pipeline with two parallel stages A and B."""
    stages = stage(first, name="A", sections="agent any") + stage(second, name="B", sections="agent any")
    return pipeline(
        f"stage('Both') {{\n{flags}\nparallel {{\n{stages}}}\n}}\n" + stage("echo 'x'", name="Last"), agent="none"
    )


def test_parallel_stages_run_at_the_same_time(run: Run, tmp_path: Path) -> None:
    wait = "sh 'touch {0}/{1}; for i in $(seq 200); do test -e {0}/{2} && exit; sleep 0.05; done; exit 1'"
    trace = run(parallel(wait.format(tmp_path, "a", "b"), wait.format(tmp_path, "b", "a")))
    assert (trace.result, trace.stage("Both").result) == ("SUCCESS", "SUCCESS")
    assert trace.stage("A").node is not None
    assert trace.stage("A").path == ("Both", "A")


def test_parallel_without_fail_fast_lets_the_others_end(run: Run) -> None:
    trace = run(parallel("error 'A broke'", "sh 'sleep 0.5'"))
    assert (trace.result, trace.error) == ("FAILURE", "A broke")
    assert [trace.stage(name).result for name in ("Both", "A", "B", "Last")] == [
        "FAILURE",
        "FAILURE",
        "SUCCESS",
        "NOT_BUILT",
    ]


@pytest.mark.parametrize("where", ["failFast true", "top"])
def test_fail_fast_stops_the_others_but_their_post_runs(run: Run, where: str) -> None:
    text = parallel("sleep 1\nerror 'A broke'", "sh 'sleep 30'", "failFast true" if where != "top" else "")
    if where == "top":
        text = text.replace("stages {", "options { parallelsAlwaysFailFast() }\nstages {", 1)
    text = text.replace("stage('B') {", "stage('B') {\npost { always { sh 'echo after' } }")
    trace = run(text)
    assert (trace.result, trace.error, trace.stage("B").result) == ("FAILURE", "A broke", "ABORTED")
    assert [command.exit_code for command in trace.stage("B").commands] == [None, 0]


def test_post_of_a_branch_does_not_see_the_result_of_another(run: Run) -> None:
    text = parallel("error 'x'", "sleep 1")
    text = text.replace("stage('B') {", "stage('B') {\npost { success { echo 'good' } }")
    assert [event["text"] for event in run(text).stage("B").of("echo")] == ["good"]


def test_lock_is_held_by_one_at_a_time_in_the_order_of_asking(run: Run) -> None:
    one = "stage('{0}') {{\nagent any\noptions {{ lock(resource: 'gpu') }}\nsteps {{ sh 'sleep 0.3' }}\n}}\n"
    trace = run(
        pipeline("stage('All') {\nparallel {\n" + "".join(one.format(name) for name in "ABCD") + "}\n}", agent="none")
    )
    order = [(event.step, event.stage) for event in trace.events if event.step in ("lock", "unlock")]
    assert [step for step, _ in order] == ["lock", "unlock"] * 4, order
    assert all(order[at][1] == order[at + 1][1] for at in range(0, 8, 2)), order
    waited = [event["waited_ms"] for event in trace.events if event.step == "lock"]
    assert waited == sorted(waited), "first come, first served"


def test_lock_by_label_gives_the_resources_that_are_free(run: Run) -> None:
    sections = "agent any\noptions { lock(label: 'gpu', quantity: 1, variable: 'SLOT') }"
    both = "".join(stage("sh 'sleep 1; echo $SLOT'", name=name, sections=sections) for name in "AB")
    text = pipeline("stage('All') {\nparallel {\n" + both + "}\n}", agent="none")
    trace = run(text, resources={"gpu": 2})
    assert sorted(trace.stage("A").locks + trace.stage("B").locks) == ["gpu-1", "gpu-2"]
    assert {event["waited_ms"] < 900 for event in trace.events if event.step == "lock"} == {True}
    assert trace.stage("A").commands[0].output.splitlines()[-1] == trace.stage("A").locks[0]


def test_timeout_around_parallel_stops_every_branch(run: Run) -> None:
    text = parallel(
        "sh 'sleep 30'",
        "sh 'sleep 30'",
        "options { timeout(time: 500, unit: 'MILLISECONDS') }\npost { always { sleep 0 } }",
    )
    trace = run(text)
    assert [trace.stage(name).result for name in ("Both", "A", "B")] == ["ABORTED"] * 3
    assert trace.duration_ms < 10000


MATRIX = """
stage('Images') {
    matrix {
        axes { axis { name 'FLAVOR'
                      values 'torch', 'plain' }
               axis { name 'CUDA'
                      values '12', '13', 'cpu' } }
        excludes { exclude { axis { name 'FLAVOR'
                                    values 'torch' }
                             axis { name 'CUDA'
                                    notValues '13' } } }
        agent { label 'docker' }
        when { beforeAgent true
               not { environment name: 'CUDA', value: '12' } }
        environment { ROW = "${FLAVOR}-${CUDA}" }
        post { always { echo "row ${ROW}" } }
        stages { stage('Build') { steps { sh 'echo $ROW; test $ROW != plain-13' } }
                 stage('Promote') { steps { echo "promoted ${ROW}" } } }
    }
}
stage('Last') { steps { echo 'x' } }
"""


def test_matrix_runs_its_cells_and_a_failed_cell_holds_back_only_itself(run: Run) -> None:
    trace = run(pipeline(MATRIX, agent="none"), labels=["docker"])
    cells = {stage.name: (stage.result, stage.skipped) for stage in trace.all_stages if stage.name.startswith("Matrix")}
    assert cells == {
        "Matrix - FLAVOR = 'torch', CUDA = '13'": ("SUCCESS", None),
        "Matrix - FLAVOR = 'plain', CUDA = '12'": ("NOT_BUILT", "when"),
        "Matrix - FLAVOR = 'plain', CUDA = '13'": ("FAILURE", None),
        "Matrix - FLAVOR = 'plain', CUDA = 'cpu'": ("SUCCESS", None),
    }
    assert trace.result == "FAILURE"
    assert trace.stage("Promote", FLAVOR="torch").ran
    assert trace.stage("Promote", FLAVOR="plain", CUDA="cpu").ran
    assert trace.stage("Promote", FLAVOR="plain", CUDA="13").skipped == "failure"
    assert trace.stage("Promote", FLAVOR="plain", CUDA="12").skipped == "when"
    assert trace.stage("Last").skipped == "failure"
    assert trace.stage("Build", FLAVOR="torch").label == "docker"
    said = {event["text"] for event in trace.events if event.step == "echo"}
    assert said == {"row torch-13", "row plain-13", "row plain-cpu", "promoted torch-13", "promoted plain-cpu"}


def test_stage_of_the_trace_must_be_named_exactly(run: Run) -> None:
    trace = run(pipeline(MATRIX, agent="none"), labels=["docker"])
    with pytest.raises(LookupError, match="4 stages are named 'Build'"):
        trace.stage("Build")
    with pytest.raises(LookupError, match="0 stages are named 'Biuld'"):
        trace.stage("Biuld")


def test_node_and_parallel_steps_in_script(run: Run) -> None:
    steps = "script {\nparallel(a: { node('gpu') { sh 'ls' } }, b: { echo env.STAGE_NAME })\n}"
    trace = run(pipeline(stage(steps), agent="none"), labels=["gpu"])
    assert (trace.result, trace.commands[0].label, trace.commands[0].output) == ("SUCCESS", "gpu", "+ ls\n")


def test_milestone_and_description(run: Run) -> None:
    trace = run(pipeline(stage("milestone 1\nmilestone 2\nscript { currentBuild.description = 'torch' }")))
    assert (trace.result, trace.description) == ("SUCCESS", "torch")
    assert run(pipeline(stage("milestone 2\nmilestone 1"))).result == "FAILURE"


def test_runs_do_not_see_each_other(run: Run) -> None:
    first = run(pipeline(stage("script { env.LEFT = 'x' }\nstash 's'\narchiveArtifacts '*'")))
    second = run(pipeline(stage("sh 'echo [$LEFT]'")))
    assert first.result == second.result == "SUCCESS"
    assert second.commands[0].output.endswith("[]\n")
    assert not second.archive.exists()
