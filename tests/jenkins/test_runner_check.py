"""The static check: each fault is refused in its line with what would be right, and nothing else is."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.jenkins import jvm
from tests.jenkins.conftest import pipeline, stage
from tests.jenkins.runner import PipelineRefused, Problem, check, run_pipeline

ECHO = stage("echo 'x'")
MATRIX = "matrix {\n axes { axis { name 'X'\n values '1' } }\n stages {\n" + ECHO + "}\n}\n"


def options(text: str) -> str:
    return pipeline(ECHO, top=f"options {{\n{text}\n}}")


def sections(text: str) -> str:
    return pipeline(stage("echo 'x'", sections=text))


def parameters(text: str) -> str:
    return pipeline(ECHO, top=f"parameters {{\n{text}\n}}")


# name: (text, line, part of what is wrong, part of what would be right)
FAULTS: dict[str, tuple[str, int, str, str]] = {
    "no agent": ("pipeline {\n stages {\n" + ECHO + "} }", 1, "'agent' is missing", "add agent"),
    "empty stages": ("pipeline {\n agent any\n stages {\n }\n}", 3, "has no stage", "stage('...')"),
    "no pipeline": ("node {\n sh 'x'\n}", 1, "no pipeline block", "pipeline {"),
    "unknown section": (pipeline(ECHO, top="agnet any"), 3, "'agnet'", "did you mean 'agent'"),
    "section twice": ("pipeline {\n agent any\n agent none\n stages {\n" + ECHO + "} }", 3, "twice", "keep one"),
    "two on a line": (options("timestamps() skipStagesAfterUnstable()"), 4, "follows another", "own"),
    "steps outside steps": (pipeline("stage('A') {\n sh 'x'\n}"), 6, "'sh' is not a known section", "steps"),
    "nothing to do": (pipeline("stage('A') {\n agent any\n}"), 5, "nothing to do", "one of"),
    "two bodies": (
        pipeline("stage('A') {\n steps {\n echo 'x'\n }\n stages {\n" + ECHO + "}\n}"), 5, "steps and stages", "one"),
    "empty steps": (pipeline("stage('A') {\n steps {\n }\n}"), 6, "has no step", "add a step"),
    "duplicate stage": (pipeline(ECHO + ECHO), 11, "two stages are named 'Only'", "name of its own"),
    "computed stage name": (pipeline('stage("a ${b}") {\n steps {\n echo "x"\n }\n}'), 5, "plain string", "stage"),
    "stage in steps": (pipeline(stage("stage('B') { }")), 8, "'stage' is not allowed", "place of its own"),
    "code in steps": (pipeline(stage("def x = 1")), 8, "not a step", "script {"),
    "method in steps": (pipeline(stage("docker.build('x')")), 8, "not a step", "script {"),
    "unknown agent": (pipeline(ECHO, agent="{ labell 'x' }"), 2, "'labell'", "did you mean 'label'"),
    "bare agent": (pipeline(ECHO, agent="gpu"), 2, "not an agent", "agent any"),
    "agent beside matrix": (
        pipeline("stage('A') {\n agent any\n" + MATRIX + "}"), 5, "'agent' is not allowed", "inside"),
    "matrix in matrix": (
        pipeline("stage('A') {\n" + MATRIX.replace(ECHO, f"stage('B') {{\n{MATRIX}}}\n") + "}"), 11, "inside", "use"),
    "environment twice": (pipeline(ECHO, top="environment {\n A = '1'\n A = '2'\n}"), 5, "'A' is set twice", "keep"),
    "environment value": (pipeline(ECHO, top="environment {\n A = params.B\n}"), 4, "not a string", '"${...}"'),
    "bare dollar": (pipeline(ECHO, top="environment {\n A = ${B}\n}"), 4, "without quotes", '"${...}"'),
    "sandbox": (pipeline(stage('echo "${System.env}"')), 8, "refused by the sandbox", "use"),
    "unknown option": (options("timestamp()"), 4, "'timestamp'", "'timestamps'"),
    "pipeline option in stage": (sections("options {\nskipStagesAfterUnstable()\n}"), 7, "a known option", "timeout"),
    "misspelled step": (pipeline(stage("withCredentails([]) { sh 'x' }")), 8, "'withCredentails'", "'withCredentials'"),
    "misspelled inner step": (pipeline(stage("timeout(5) {\n junitt 'x'\n}")), 9, "'junitt'", "'junit'"),
    "undeclared parameter": (
        pipeline(stage('sh "echo ${params.CPU_LABLE}"'), top="parameters {\n string(name: 'CPU_LABEL')\n}"),
        10, "'CPU_LABLE' is not a known name of a parameter", "'CPU_LABEL'"),
    "unknown parameter": (parameters("strign(name: 'A')"), 4, "'strign'", "string"),
    "nameless parameter": (parameters("string(defaultValue: 'A')"), 4, "'name' of the parameter string", "name:"),
    "cron of 4 fields": (pipeline(ECHO, top="triggers {\n cron('H 3 * *')\n}"), 4, "4 fields", "cron takes 5"),
    "empty when": (sections("when {\n}"), 6, "no condition", "branch"),
    "unknown condition": (sections("when {\nbrnach 'x'\n}"), 7, "'brnach'", "'branch'"),
    "not with two": (sections("when {\nnot {\nbranch 'a'\nbranch 'b'\n}\n}"), 7, "2 conditions", "one"),
    "post condition": (sections("post {\n alwyas { echo 'x' }\n}"), 7, "'alwyas'", "'always'"),
    "input without message": (sections("input {\n ok 'Go'\n}"), 6, "no message", "message"),
    "matrix without axes": (pipeline("stage('A') {\n matrix {\n stages {\n" + ECHO + "}\n}\n}"), 6, "no 'axes'", "add"),
    "axis without values": (
        pipeline("stage('A') {\n matrix {\n axes {\n axis {\n name 'X'\n}\n}\n stages {\n" + ECHO + "}\n}\n}"),
        8, "no values", "add values"),
    "syntax": (pipeline(ECHO) + "}\n", 14, "unexpected token", ""),
    # Names and types, as the plugins define them: Jenkins refuses each.
    "abortOlder": (options("disableConcurrentBuilds(abortOlder: true)"), 4, "'abortOlder'", "'abortPrevious'"),
    "abort as text": (options("disableConcurrentBuilds(abortPrevious: 'true')"), 4, "is true", "without quotes"),
    "numToKeep": (options("buildDiscarder(logRotator(numToKeepString: '5'))"), 4, "'numToKeepString'", "KeepStr'"),
    "numToKeepStr number": (options("buildDiscarder(logRotator(numToKeepStr: 5))"), 4, "is 5", "a string"),
    "buildDiscarder without": (options("buildDiscarder()"), 4, "'strategy' of the option", "write"),
    "buildDiscarder of text": (options("buildDiscarder('5')"), 4, "'strategy'", "logRotator"),
    "discarder of else": (options("buildDiscarder(logRotater(numToKeepStr: '5'))"), 4, "'logRotater'", "logRotator"),
    "preserveStashes": (options("preserveStashes(buildCount: '5')"), 4, "'buildCount'", "number"),
    "timestamps with value": (options("timestamps(true)"), 4, "no value without a name", ""),
    "timeout in options": (options("timeout(tiem: 5)"), 4, "'tiem'", "'time'"),
    "option with a block": (options("timeout(time: 5) { echo 'x' }"), 4, "has a block", "without one"),
    "quantiy": (pipeline(stage("lock(label: 'a', quantiy: 1) { echo 'x' }")), 8, "'quantiy'", "'quantity'"),
    "quantity as text": (pipeline(stage("lock(label: 'a', quantity: '1') { echo 'x' }")), 8, "'quantity'", "number"),
    "lock without a block": (pipeline(stage("lock('a')")), 8, "has no block", "{ ... }"),
    "step parameter": (pipeline(stage("sh(script: 'x', returnStdOut: true)")), 8, "'returnStdOut'", "'returnStdout'"),
    "step type": (pipeline(stage("timeout(time: '5') {\necho 'x'\n}")), 8, "'time' of the step timeout is 5", "number"),
    "unit": (pipeline(stage("timeout(time: 5, unit: 'HOUR') {\necho 'x'\n}")), 8, "'unit'", "HOURS"),
    "step without its value": (pipeline(stage("timeout(unit: 'HOURS') {\necho 'x'\n}")), 8, "'time'", "timeout(time:"),
    "two values": (pipeline(stage("stash 'a', 'b'")), 8, "more than one value", "name them"),
    "milestone as text": (pipeline(stage("milestone '1'")), 8, "'ordinal'", "number"),
    "junit": (pipeline(stage("junit testResults: 'x', allowEmptyResult: true")), 8, "'allowEmptyResult'", "Results'"),
    "binding": (
        pipeline(stage("withCredentials([usernamePassword(credentialId: 'a')]) {\necho 'x'\n}")),
        8, "'credentialId'", "'credentialsId'"),
    "binding half": (
        pipeline(stage("withCredentials([string(credentialsId: 'a')]) {\necho 'x'\n}")), 8, "'variable'", "variable:"),
    "unknown binding": (pipeline(stage("withCredentials([strign('a')]) {\necho 'x'\n}")), 8, "'strign'", "'string'"),
    "choice without": (parameters("choice(name: 'A')"), 4, "'choices' of the parameter choice", "choices:"),
    "trim as text": (parameters("string(name: 'A', trim: 'true')"), 4, "'trim'", "without quotes"),
    "branch as number": (sections("when {\nbranch 5\n}"), 7, "'pattern' of the condition branch is 5", "string"),
    "input twice": (sections("input {\n message 'a'\n message 'b'\n}"), 8, "'message' appears twice", "keep"),
}  # fmt: skip
LEFT_OUT = {  # right in Jenkins, and nothing that our pipelines do
    "docker agent": pipeline(ECHO, agent="{ docker 'x' }"),
    "tools": pipeline(ECHO, top="tools { maven 'x' }"),
    "step of a library": pipeline(stage("publishReport()")),
    "step": pipeline(stage("readJSON file: 'x'")),
    "condition": sections("when { changeRequest() }"),
    "post": sections("post { failure { echo 'x' } }"),
    "post of the pipeline": pipeline(ECHO, top="post { always { echo 'x' } }"),
    "post of a matrix": pipeline("stage('A') {\n" + MATRIX + "post { always { echo 'x' } }\n}"),
    "parallel": pipeline("stage('A') {\n parallel {\n" + ECHO + "}\n}"),
}
OURS = [ROOT / "Jenkinsfile", ROOT / "hooks" / "fleet.Jenkinsfile", ROOT / "templates" / "shared" / "Jenkinsfile"]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Problem]]:
    """Check all files at once; return the problems by name."""
    folder = tmp_path_factory.mktemp("check")
    texts = {name: fault[0] for name, fault in FAULTS.items()} | LEFT_OUT
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
    assert matching, f"expected line {line}, {what!r}, {right!r}; found {[str(one) for one in found[name]]}\n{text}"
    assert "\n" not in str(matching[0])


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_is_not_run_here_is_called_that_and_no_fault(name: str, found: dict[str, list[Problem]]) -> None:
    assert {problem.kind for problem in found[name]} == {"not run here"}


def test_run_refuses_before_anything_ran(tmp_path: Path) -> None:
    jenkinsfile = tmp_path / "Jenkinsfile"
    jenkinsfile.write_text(pipeline(stage("sh 'touch ran'") + stage("def x = 1", name="Other")))
    with pytest.raises(PipelineRefused, match="not a step") as refused:
        run_pipeline(jenkinsfile, tmp_path, workdir=tmp_path / "work")
    assert [problem.line for problem in refused.value.problems] == [14]
    assert not (tmp_path / "work").exists()


def test_the_definitions_hold_what_our_pipelines_use_and_nothing_else() -> None:
    """What no pipeline of ours uses needs no code here."""
    defined = json.loads(jvm.DEFINITIONS.read_text())
    defined.pop("not run here")
    texts = "\n".join(file.read_text() for file in OURS)
    stage_options = set(defined.pop("stage options"))
    unused = {
        f"{group}: {name}"
        for group, entries in defined.items()
        for name in entries
        if not re.search(rf"\b{name}\b", texts)
    }
    assert (unused, stage_options) == (set(), {"timeout"})
