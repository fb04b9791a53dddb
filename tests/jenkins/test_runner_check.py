"""The static check: each fault is refused in its line with what would be right, and nothing else is."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.jenkins import jvm
from tests.jenkins.conftest import pipeline, stage
from tests.jenkins.runner import PipelineRefused, Problem, check, run_pipeline

ECHO = stage("echo 'x'")
# name: (text, line, part of what is wrong, part of what would be right)
FAULTS: dict[str, tuple[str, int, str, str]] = {
    "no agent": ("pipeline {\n stages {\n" + ECHO + "} }", 1, "'agent' is missing", "agent any"),
    "no stages": ("pipeline {\n agent any\n}", 1, "'stages' is missing", "stages {"),
    "empty stages": ("pipeline {\n agent any\n stages {\n }\n}", 3, "has no stage", "stage('...')"),
    "no pipeline": ("node {\n sh 'x'\n}", 1, "no pipeline block", "pipeline {"),
    "pipeline inside": ("timeout(5) {\n pipeline {\n }\n}", 2, "inside another block", "top level"),
    "unknown section": (pipeline(ECHO, top="agnet any"), 3, "'agnet'", "did you mean 'agent'"),
    "renamed section": (pipeline(ECHO, top="notifications {\n}"), 3, "'notifications'", "use 'post'"),
    "section twice": ("pipeline {\n agent any\n agent none\n stages {\n" + ECHO + "} }", 3, "twice", "keep one"),
    "two on a line": (pipeline(ECHO, top="post {\nalways { echo 'a' } cleanup { echo 'b' }\n}"), 4, "follows", "own"),
    "unknown stage section": (pipeline(stage("echo 'x'", sections="banana { }")), 6, "'banana'", "agent"),
    "steps outside steps": (pipeline("stage('A') {\n sh 'x'\n}"), 6, "'sh' is no section", "steps"),
    "nothing to do": (pipeline("stage('A') {\n agent any\n}"), 5, "nothing to do", "exactly one of"),
    "two bodies": (
        pipeline("stage('A') {\n steps {\n echo 'x'\n }\n stages {\n" + ECHO + "}\n}"), 5, "steps and stages", "one"),
    "empty steps": (pipeline("stage('A') {\n steps {\n }\n}"), 6, "has no step", "add a step"),
    "duplicate stage": (pipeline(ECHO + ECHO), 11, "two stages are named 'Only'", "name of its own"),
    "stage without name": (pipeline("stage {\n steps {\n echo 'x'\n }\n}"), 5, "no name", "stage('...')"),
    "computed stage name": (pipeline('stage("a ${b}") {\n steps {\n echo "x"\n }\n}'), 5, "plain string", "constant"),
    "stage in steps": (pipeline(stage("stage('B') { }")), 8, "'stage' is not allowed", "stages"),
    "code in steps": (pipeline(stage("def x = 1")), 8, "no step", "script {"),
    "if in steps": (pipeline(stage("if (true) { echo 'x' }")), 8, "no step", "script {"),
    "method in steps": (pipeline(stage("docker.build('x')")), 8, "'docker.build' is a method", "script {"),
    "unknown agent": (pipeline(ECHO, agent="{ dokcer 'x' }"), 2, "'dokcer'", "did you mean 'docker'"),
    "bare agent": (pipeline(ECHO, agent="gpu"), 2, "no agent", "agent any"),
    "two agents": (pipeline(ECHO, agent="{\n label 'a'\n docker 'b'\n}"), 2, "more than one type", "one of"),
    "docker without image": (pipeline(ECHO, agent="{ docker { label 'a' } }"), 2, "no image", "image '...'"),
    "docker setting": (pipeline(ECHO, agent="{ docker {\n imgae 'a'\n image 'b'\n} }"), 3, "'imgae'", "'image'"),
    "agent beside parallel": (
        pipeline("stage('A') {\n agent any\n parallel {\n" + ECHO + "}\n}"), 6, "'agent' is not allowed", "inside"),
    "parallel in parallel": (
        pipeline("stage('A') {\n parallel {\n stage('B') {\n parallel {\n" + ECHO + "}\n}\n}\n}"), 8, "inside", "use"),
    "empty environment": (pipeline(ECHO, top="environment {\n}"), 3, "empty", "NAME"),
    "environment twice": (pipeline(ECHO, top="environment {\n A = '1'\n A = '2'\n}"), 5, "'A' is set twice", "keep"),
    "environment name": (pipeline(ECHO, top="environment {\n $A = '1'\n}"), 4, "'$A' cannot name", "letters"),
    "environment value": (pipeline(ECHO, top="environment {\n A = params.B\n}"), 4, "no string", '"${...}"'),
    "bare dollar": (pipeline(ECHO, top="environment {\n A = ${B}\n}"), 4, "without quotes", '"${...}"'),
    "unknown option": (pipeline(ECHO, top="options {\n timestamp()\n}"), 4, "'timestamp'", "'timestamps'"),
    "pipeline option in stage": (
        pipeline(stage("echo 'x'", sections="options {\nquietPeriod(1)\n}")), 7, "not allowed in a stage", "pipeline"),
    "parameters in options": (pipeline(ECHO, top="options {\n parameters([])\n}"), 4, "no option", "section"),
    "misspelled step": (pipeline(stage("withCredentails([]) { sh 'x' }")), 8, "'withCredentails'", "'withCredentials'"),
    "misspelled inner step": (pipeline(stage("timeout(5) {\n junitt 'x'\n}")), 9, "'junitt'", "'junit'"),
    "undeclared parameter": (
        pipeline(stage('sh "echo ${params.CPU_LABLE}"'), top="parameters {\n string(name: 'CPU_LABEL')\n}"),
        10, "'CPU_LABLE' is no parameter", "'CPU_LABEL'"),
    "unknown parameter": (pipeline(ECHO, top="parameters {\n flag(name: 'A')\n}"), 4, "'flag'", "booleanParam"),
    "nameless parameter": (pipeline(ECHO, top="parameters {\n string(defaultValue: 'A')\n}"), 4, "no name", "name:"),
    "parameter setting": (pipeline(ECHO, top="parameters {\n string(namd: 'A')\n}"), 4, "'namd'", "'name'"),
    "unknown trigger": (pipeline(ECHO, top="triggers {\n corn('@daily')\n}"), 4, "'corn'", "'cron'"),
    "cron of 4 fields": (pipeline(ECHO, top="triggers {\n cron('H 3 * *')\n}"), 4, "4 fields", "cron takes 5"),
    "empty when": (pipeline(stage("echo 'x'", sections="when {\n}")), 6, "no condition", "branch"),
    "unknown condition": (pipeline(stage("echo 'x'", sections="when {\nbrnach 'x'\n}")), 7, "'brnach'", "'branch'"),
    "code in when": (pipeline(stage("echo 'x'", sections="when {\nparams.X == 'a'\n}")), 7, "something", "expression"),
    "not with two": (
        pipeline(stage("echo 'x'", sections="when {\nnot {\nbranch 'a'\nbranch 'b'\n}\n}")), 7, "2 conditions", "one"),
    "unknown post": (pipeline(ECHO, top="post {\n finally { echo 'x' }\n}"), 4, "unexpected token: finally", ""),
    "post condition": (pipeline(ECHO, top="post {\n sucess { echo 'x' }\n}"), 4, "'sucess'", "'success'"),
    "step in post": (pipeline(ECHO, top="post {\n echo 'x'\n}"), 4, "'echo' is no condition", "always"),
    "input without message": (pipeline(stage("echo 'x'", sections="input {\n ok 'Go'\n}")), 6, "no message", "message"),
    "matrix without axes": (pipeline("stage('A') {\n matrix {\n stages {\n" + ECHO + "}\n}\n}"), 6, "no 'axes'", "add"),
    "axis without values": (
        pipeline("stage('A') {\n matrix {\n axes {\n axis {\n name 'X'\n}\n}\n stages {\n" + ECHO + "}\n}\n}"),
        8, "no values", "one of them"),
    "step parameter": (pipeline(stage("sh(script: 'x', returnStdOut: true)")), 8, "'returnStdOut'", "'returnStdout'"),
    "step type": (pipeline(stage("timeout(time: 'soon') {\necho 'x'\n}")), 8, "'time' of timeout is", "number"),
    "step without its value": (pipeline(stage("timeout(unit: 'HOURS') {\necho 'x'\n}")), 8, "'time'", "timeout(time:"),
    "syntax": (pipeline(ECHO) + "}\n", 14, "unexpected token", ""),
    "unclosed string": (pipeline(stage("sh 'x")), 8, "", ""),
}  # fmt: skip

VALID = {
    "steps of a library": pipeline(stage("myEcho 'x'\nwithVault { publishReport() }")),
    "parameters of the job": pipeline(stage('echo "${params.FROM_THE_JOB}"')),
    "everything": """
        @groovy.transform.Field int counter = 0
        def loud(x) { return "${x}!" }
        pipeline {
            agent none
            options { timestamps(); buildDiscarder(logRotator(numToKeepStr: '5')); preserveStashes()
                      disableConcurrentBuilds(abortPrevious: env.BRANCH_NAME != 'main') }
            triggers { cron(env.BRANCH_NAME == 'main' ? 'H 3 * * *' : '') }
            parameters { string(name: 'A', defaultValue: '', description: "b"); choice(name: 'C', choices: ['1', '2']) }
            environment { A = 'x'; B = "${A}" + 'y'; C = credentials('id')
                          D = sh(script: 'x', returnStdout: true).trim() }
            stages {
                stage('One') {
                    agent { docker { image 'x@sha256:1'; label 'gpu'; args '--gpus all'; reuseNode true } }
                    options { lock(label: 'gpu', quantity: 1, variable: 'G'); timeout(time: 5, unit: 'MINUTES') }
                    input { message 'Go?'; parameters { booleanParam(name: 'X', defaultValue: true) } }
                    when { beforeAgent true; anyOf { branch 'main'; not { changeRequest() }
                                                     expression { params.A == 'x' } } }
                    steps {
                        somePluginStep(a: 1, b: [2]) { anotherOne 'x' }
                        sh label: 'x', script: 'y'
                        script { if (true) { echo loud('x') } else { stage('dynamic') { echo 'y' } } }
                    }
                    post { always { junit testResults: 'a.xml', allowEmptyResults: true }
                           cleanup { deleteDir() } }
                }
                stage('Two') { failFast true
                               matrix { axes { axis { name 'X'; values 'a', 'b' } }
                                        excludes { exclude { axis { name 'X'; notValues 'a' } } }
                                        agent { label 'linux && !gpu' }
                                        stages { stage('In') { steps { echo "${X}" } } } } }
                stage('Three') { steps { parallel(a: { echo 'a' }, b: { echo 'b' }, failFast: true) } }
            }
        }
    """,
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Problem]]:
    """Check all files at once; return the problems by name."""
    folder = tmp_path_factory.mktemp("check")
    texts = {name: fault[0] for name, fault in FAULTS.items()} | VALID
    names = {folder / f"{number}.groovy": name for number, name in enumerate(texts)}
    for path, name in names.items():
        path.write_text(texts[name])
    problems: dict[str, list[Problem]] = {name: [] for name in texts}
    for problem in check(*names):
        problems[names[problem.file]].append(problem)
    return problems


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_named_with_line_and_remedy(name: str, found: dict[str, list[Problem]]) -> None:
    text, line, what, right = FAULTS[name]
    matching = [one for one in found[name] if one.line == line and what in one.what and right in one.right]
    assert matching, (
        f"{name}: expected line {line}, {what!r}, {right!r}; found {[str(one) for one in found[name]]}\n{text}"
    )
    assert "\n" not in str(matching[0])


@pytest.mark.parametrize("name", VALID)
def test_valid_pipeline_has_no_problem(name: str, found: dict[str, list[Problem]]) -> None:
    assert [str(problem) for problem in found[name]] == []


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the launcher."""
    launcher = Path(jvm.__file__).parent / "jenkinsfile"
    return subprocess.run([launcher, *words], capture_output=True, text=True, check=False, env=os.environ)


def test_command_prints_one_line_for_a_fault_and_exits_with_2(tmp_path: Path) -> None:
    jenkinsfile = tmp_path / "Jenkinsfile"
    jenkinsfile.write_text("pipeline {\n agent any\n stages {\n }\n}\n")
    done = command("check", str(jenkinsfile))
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout == f"{jenkinsfile}:3: 'stages' has no stage; add stage('...') {{ ... }}\n"


def test_command_exits_with_3_for_a_syntax_error(tmp_path: Path) -> None:
    jenkinsfile = tmp_path / "Jenkinsfile"
    jenkinsfile.write_text("pipeline {\n agent any\n")
    done = command("check", str(jenkinsfile))
    assert done.returncode == 3, done.stdout + done.stderr
    assert done.stdout.startswith(f"{jenkinsfile}:"), done.stdout


def test_command_refuses_an_unknown_option_in_one_line(tmp_path: Path) -> None:
    done = command("run", str(tmp_path), "--wrokdir", "x")
    assert (done.returncode, done.stdout, done.stderr) == (64, "", "jenkinsfile: there is no option --wrokdir\n")


def test_run_refuses_before_anything_ran(tmp_path: Path) -> None:
    jenkinsfile = tmp_path / "Jenkinsfile"
    jenkinsfile.write_text(pipeline(stage("sh 'touch ran'") + stage("def x = 1", name="Other")))
    with pytest.raises(PipelineRefused, match="no step") as refused:
        run_pipeline(jenkinsfile, tmp_path, workdir=tmp_path / "work")
    assert [problem.line for problem in refused.value.problems] == [14]
    assert not (tmp_path / "work").exists()
