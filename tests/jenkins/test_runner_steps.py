"""The steps: shell, files, reports, credentials, flow."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jenkins.conftest import Run, pipeline, stage
from tests.jenkins.runner import PipelineRefused


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


def test_what_would_leave_the_machine_is_only_noted(run: Run) -> None:
    trace = run(
        pipeline(
            stage("build job: 'other', wait: false\nmail to: 'a@example.com', subject: \"Build ${env.BUILD_NUMBER}\"")
        )
    )
    assert [(event.step, event["given"]) for event in trace.events if event.step in ("build", "mail")] == [
        ("build", {"job": "other", "wait": "false"}),
        ("mail", {"to": "a@example.com", "subject": "Build 1"}),
    ]


def test_error_outside_of_the_pipeline_block_fails_the_build_with_its_line(run: Run) -> None:
    trace = run("def x = [1][5].foo\n" + pipeline(stage("echo 'x'")))
    assert trace.result == "FAILURE"
    assert str(trace.error).startswith("Jenkinsfile:1: java.lang.NullPointerException")


def test_unknown_class_is_refused_with_its_line(run: Run) -> None:
    with pytest.raises(PipelineRefused, match=r"Jenkinsfile:2: syntax: unable to resolve class NoSuchThing"):
        run("// a comment\ndef x = new NoSuchThing()\n" + pipeline(stage("echo 'x'")))
