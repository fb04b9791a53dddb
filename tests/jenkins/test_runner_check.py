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
TWICE = MATRIX.replace(ECHO, f"stage('B') {{\n{MATRIX}}}\n")
OURS = [ROOT / "Jenkinsfile", ROOT / "hooks" / "fleet.Jenkinsfile", ROOT / "templates" / "shared" / "Jenkinsfile"]


def top(section: str, text: str) -> str:
    return pipeline(ECHO, top=f"{section} {{\n{text}\n}}")


def inner(section: str, text: str) -> str:
    return pipeline(stage("echo 'x'", sections=f"{section} {{\n{text}\n}}"))


def step(text: str) -> str:
    return pipeline(stage(text))


def one(body: str) -> str:
    return pipeline("stage('A') {\n" + body + "}")


# name: (text, line, part of what is wrong, part of what would be right)
FAULTS: dict[str, tuple[str, int, str, str]] = {
    "no agent": ("pipeline {\n stages {\n" + ECHO + "} }", 1, "'agent' is missing", "add agent"),
    "empty stages": ("pipeline {\n agent any\n stages {\n }\n}", 3, "has no stage", "stage('...')"),
    "no pipeline": ("node {\n sh 'x'\n}", 1, "no pipeline block", "pipeline {"),
    "unknown section": (pipeline(ECHO, top="agnet any"), 3, "'agnet'", "did you mean 'agent'"),
    "section twice": ("pipeline {\n agent any\n agent none\n stages {\n" + ECHO + "} }", 3, "twice", "keep one"),
    "two on a line": (top("options", "timestamps() skipStagesAfterUnstable()"), 4, "follows another", "own"),
    "steps outside steps": (one(" sh 'x'\n"), 6, "'sh' is not a known section", "steps"),
    "nothing to do": (one(" agent any\n"), 5, "nothing to do", "one of"),
    "two bodies": (one(" steps {\n echo 'x'\n }\n stages {\n" + ECHO + "}\n"), 5, "steps and stages", "one"),
    "empty steps": (one(" steps {\n }\n"), 6, "has no step", "add a step"),
    "duplicate stage": (pipeline(ECHO + ECHO), 11, "two stages are named 'Only'", "name of its own"),
    "computed stage name": (pipeline('stage("a ${b}") {\n steps {\n echo "x"\n }\n}'), 5, "plain string", "stage"),
    "stage in steps": (step("stage('B') { }"), 8, "'stage' is not allowed", "place of its own"),
    "code in steps": (step("def x = 1"), 8, "not a step", "script {"),
    "method in steps": (step("docker.build('x')"), 8, "not a step", "script {"),
    "unknown agent": (pipeline(ECHO, agent="{ labell 'x' }"), 2, "'labell'", "did you mean 'label'"),
    "bare agent": (pipeline(ECHO, agent="gpu"), 2, "not an agent", "agent any"),
    "agent beside matrix": (one(" agent any\n" + MATRIX), 5, "'agent' is not allowed", "inside"),
    "matrix in matrix": (one(TWICE), 11, "inside", "use"),
    "environment twice": (top("environment", " A = '1'\n A = '2'"), 5, "'A' is set twice", "keep"),
    "environment value": (top("environment", " A = params.B"), 4, "not a string", '"${...}"'),
    "bare dollar": (top("environment", " A = ${B}"), 4, "without quotes", '"${...}"'),
    "sandbox": (step('echo "${System.env}"'), 8, "refused by the sandbox", "use"),
    "unknown option": (top("options", "timestamp()"), 4, "'timestamp'", "'timestamps'"),
    "pipeline option in stage": (inner("options", "skipStagesAfterUnstable()"), 7, "a known option", "timeout"),
    "misspelled step": (step("withCredentails([]) { sh 'x' }"), 8, "'withCredentails'", "'withCredentials'"),
    "misspelled inner step": (step("timeout(5) {\n junitt 'x'\n}"), 9, "'junitt'", "'junit'"),
    "undeclared parameter": (
        pipeline(stage('sh "echo ${params.CPU_LABLE}"'), top="parameters {\n string(name: 'CPU_LABEL')\n}"),
        10, "'CPU_LABLE' is not a known name of a parameter", "'CPU_LABEL'"),
    "unknown parameter": (top("parameters", "strign(name: 'A')"), 4, "'strign'", "string"),
    "nameless parameter": (top("parameters", "string(defaultValue: 'A')"), 4, "'name' of the parameter", "name:"),
    "cron of 4 fields": (top("triggers", "cron('H 3 * *')"), 4, "4 fields", "cron takes 5"),
    "empty when": (inner("when", ""), 6, "no condition", "branch"),
    "unknown condition": (inner("when", "brnach 'x'"), 7, "'brnach'", "'branch'"),
    "not with two": (inner("when", "not {\nbranch 'a'\nbranch 'b'\n}"), 7, "2 conditions", "one"),
    "post condition": (inner("post", " alwyas { echo 'x' }"), 7, "'alwyas'", "'always'"),
    "input without message": (inner("input", " ok 'Go'"), 6, "no message", "message"),
    "matrix without axes": (one(" matrix {\n stages {\n" + ECHO + "}\n}\n"), 6, "no 'axes'", "add"),
    "axis without values": (one(MATRIX.replace("\n values '1'", "")), 7, "no values", "add values"),
    "syntax": (pipeline(ECHO) + "}\n", 14, "unexpected token", ""),
    # Names and types, as the plugins define them: Jenkins refuses each.
    "abortOlder": (top("options", "disableConcurrentBuilds(abortOlder: true)"), 4, "'abortOlder'", "'abortPrevious'"),
    "abort as text": (top("options", "disableConcurrentBuilds(abortPrevious: 'true')"), 4, "is true", "quotes"),
    "numToKeep": (top("options", "buildDiscarder(logRotator(numToKeepString: '5'))"), 4, "KeepString'", "KeepStr'"),
    "numToKeepStr": (top("options", "buildDiscarder(logRotator(numToKeepStr: 5))"), 4, "is 5", "a string"),
    "buildDiscarder without": (top("options", "buildDiscarder()"), 4, "'strategy' of the option", "write"),
    "buildDiscarder of text": (top("options", "buildDiscarder('5')"), 4, "'strategy'", "logRotator"),
    "discarder of else": (top("options", "buildDiscarder(logRotater())"), 4, "'logRotater'", "logRotator"),
    "timestamps with value": (top("options", "timestamps(true)"), 4, "no value without a name", ""),
    "option with a block": (top("options", "timeout(time: 5) { echo 'x' }"), 4, "has a block", "without one"),
    "quantiy": (step("lock(label: 'a', quantiy: 1) { echo 'x' }"), 8, "'quantiy'", "'quantity'"),
    "quantity as text": (step("lock(label: 'a', quantity: '1') { echo 'x' }"), 8, "'quantity'", "number"),
    "lock without a block": (step("lock('a')"), 8, "has no block", "{ ... }"),
    "unit": (step("timeout(time: 5, unit: 'HOUR') {\necho 'x'\n}"), 8, "'unit'", "HOURS"),
    "step without its value": (step("timeout(unit: 'HOURS') {\necho 'x'\n}"), 8, "'time'", "timeout(time:"),
    "two values": (step("stash 'a', 'b'"), 8, "more than one value", "name them"),
    "binding": (step("withCredentials([file(credentialId: 'a')]) {\n}"), 8, "'credentialId'", "'credentialsId'"),
    "binding half": (step("withCredentials([string(credentialsId: 'a')]) {\n}"), 8, "'variable'", "variable:"),
    "unknown binding": (step("withCredentials([strign('a')]) {\necho 'x'\n}"), 8, "'strign'", "'string'"),
    "choice without": (top("parameters", "choice(name: 'A')"), 4, "'choices' of the parameter choice", "choices:"),
    "branch as number": (inner("when", "branch 5"), 7, "'pattern' of the condition branch is 5", "string"),
}  # fmt: skip
LEFT_OUT = {  # right in Jenkins, and nothing that our pipelines do
    "docker agent": pipeline(ECHO, agent="{ docker 'x' }"),
    "tools": top("tools", " maven 'x'"),
    "step of a library": step("publishReport()"),
    "step": step("readJSON file: 'x'"),
    "condition": inner("when", "changeRequest()"),
    "post": inner("post", "failure { echo 'x' }"),
    "post of the pipeline": top("post", "always { echo 'x' }"),
    "post of a matrix": one(MATRIX + "post { always { echo 'x' } }\n"),
    "parallel": one(" parallel {\n" + ECHO + "}\n"),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Problem]]:
    """Check all files at once; return the problems by name."""
    texts = {name: fault[0] for name, fault in FAULTS.items()} | LEFT_OUT
    folder = tmp_path_factory.mktemp("check")
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
    (tmp_path / "Jenkinsfile").write_text(pipeline(stage("sh 'touch ran'") + stage("def x = 1", name="Other")))
    with pytest.raises(PipelineRefused, match="not a step") as refused:
        run_pipeline(tmp_path / "Jenkinsfile", tmp_path, workdir=tmp_path / "work")
    assert [problem.line for problem in refused.value.problems] == [14]
    assert not (tmp_path / "work").exists()


def test_the_definitions_hold_what_our_pipelines_use_and_nothing_else() -> None:
    """What no pipeline of ours uses needs no code here."""
    defined = json.loads(jvm.DEFINITIONS.read_text())
    assert (defined.pop("not run here") != {}, defined.pop("stage options")) == (True, ["timeout"])
    texts = "\n".join(file.read_text() for file in OURS)
    names = {name for entries in defined.values() for name in entries}
    assert {name for name in names if not re.search(rf"\b{name}\b", texts)} == set()
