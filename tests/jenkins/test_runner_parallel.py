"""What runs at the same time: parallel stages, matrices, locks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jenkins.conftest import Run, pipeline, stage


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
