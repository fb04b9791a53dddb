"""The job on Ray: places and refusals in this process, and all its promises on a cluster of two nodes."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from gpu_repo_runtime.batch.exits import JobError
from gpu_repo_runtime.batch.onray import places_for

from tests.batch.conftest import PACKAGE, Job, Output, texts, write_jsonl
from tests.batch.ray_cluster import begun, done, ended, head, members, python_with_ray, two_nodes, wait_for  # noqa: F401 - fixtures

OPTIONS = ("--part-rows", 25, "--batch-size", 8, "--on-error", "quarantine", "--max-bad", "0.5")


@pytest.mark.parametrize(
    ("nodes", "device", "workers", "places"),
    [
        ([{"CPU": 4}, {"CPU": 4}], "auto", None, (2, False)),
        ([{"CPU": 16}, {"CPU": 4}], "cpu", None, (2, False)),
        ([{"CPU": 8}, {"CPU": 8, "GPU": 4}], "auto", None, (4, True)),
        ([{"CPU": 8, "GPU": 1}, {"CPU": 8, "GPU": 1}], "cpu", None, (2, False)),
        ([{"CPU": 1}], "auto", 3, (3, False)),
        ([{}], "cuda", 2, (2, True)),
    ],
)
def test_a_place_for_each_gpu_or_node(nodes, device, workers, places):
    assert places_for(nodes, device, workers) == places


def test_a_gpu_that_is_asked_for_is_not_replaced(capsys):
    with pytest.raises(JobError, match="no node of the Ray cluster has a GPU"):
        places_for([{"CPU": 4}], "cuda", None)
    places_for([{"CPU": 4}], "auto", None)
    assert "cpu: no node of the Ray cluster has a GPU" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--on", "ray://127.0.0.1:1"), 'add "gpu-repo-runtime[ray]" to the dependencies'),
        (("--ray-address", "spark://a:1"), "write ray://HOST:PORT"),
        (("--ray-address", "ray://127.0.0.1:1", "--shard", "0/2"), "splits the work itself"),
    ],
)
def test_what_cannot_be_is_one_line(job, out, tmp_path, capsys, monkeypatch, options, message):
    monkeypatch.setitem(sys.modules, "ray", None)
    lines = write_jsonl(tmp_path / "a.jsonl", ["x"])
    assert job("--input", lines, "--output", out.path, *options) == 78
    assert message in capsys.readouterr().err
    assert not out.path.exists()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an input with bad rows."""
    source = tmp_path / "in"
    source.mkdir()
    lines = texts(600)
    lines[7] = lines[403] = "RAISE"
    write_jsonl(source / "a.jsonl", lines)
    (source / "b.jsonl").write_text('{"text": 1}\n')
    return source


@pytest.fixture
def whole(job: Job, folder: Path, tmp_path: Path) -> Output:
    """Return the output of a run on one machine that nobody disturbs."""
    output = Output(tmp_path / "whole")
    assert job("--input", folder, "--output", output.path, *OPTIONS) == 0
    assert len(output.quarantined()) == 3
    return output


@pytest.fixture
def arguments(folder: Path, tmp_path: Path):
    """Return what gives an output of a name, and the options of a run into it."""

    def made(name: str) -> tuple[Output, tuple[object, ...]]:
        output = Output(tmp_path / name)
        return output, ("--input", folder, "--output", output.path, *OPTIONS)

    return made


@pytest.mark.release
def test_two_nodes_give_what_one_machine_gives_also_when_a_worker_is_killed(cluster, whole, arguments):
    undisturbed, options = arguments("undisturbed")
    said = done(cluster.run(*options))
    assert undisturbed.digest() == whole.digest(), said

    killed, options = arguments("worker killed")
    process = cluster.run(*options)
    wait_for(begun(killed), process)
    os.kill(max(members()), signal.SIGKILL)
    said = done(process)
    assert killed.digest() == whole.digest(), said


@pytest.mark.release
def test_a_start_over_ray_itself_is_killed_and_stopped(cluster, whole, arguments):
    """The node that a client talks to keeps its actors for a while; the next start does not wait for that."""
    killed, options = arguments("client killed")
    process = cluster.run(*options)
    wait_for(begun(killed), process)
    ended(process)
    assert not killed.complete
    said = done(cluster.run(*options))
    assert killed.digest() == whole.digest(), said

    stopped, options = arguments("client stopped")
    process = cluster.run(*options)
    wait_for(begun(stopped), process)
    process.terminate()
    done(process, 143)
    assert not stopped.complete
    said = done(cluster.run(*options))
    assert stopped.digest() == whole.digest(), said


@pytest.mark.release
def test_stops_bad_rows_and_a_lost_node(cluster, folder, whole, arguments):
    """Started on a node of the cluster, as a RayJob is; the node is killed last."""

    resumed, options = arguments("driver killed")
    process = cluster.run_inside(*options)
    wait_for(begun(resumed), process)
    ended(process)
    both = [cluster.run_inside(*options), cluster.run_inside(*options)]
    said = "".join(done(one) for one in both)
    assert resumed.digest() == whole.digest(), said

    stopped, options = arguments("stopped")
    process = cluster.run_inside(*options)
    wait_for(begun(stopped), process)
    process.terminate()
    done(process, 143)
    assert not stopped.complete
    done(cluster.run_inside(*options))
    assert stopped.digest() == whole.digest()

    other, options = arguments("bad")
    said = done(cluster.run_inside("--input", folder, "--output", other.path), 65)
    assert "a.jsonl, row 7: ValueError" in said
    assert not other.complete

    lost, options = arguments("node killed")
    process = cluster.run_inside(*options)
    wait_for(begun(lost), process)
    os.killpg(cluster.nodes[1].pid, signal.SIGKILL)
    said = done(process)
    assert lost.digest() == whole.digest(), said


@pytest.mark.release
@pytest.mark.parametrize("other", ["model.py", "weights.bin"])
def test_a_node_whose_code_or_weights_are_others_is_refused(python, child, tmp_path, out, other):
    """The second node sees a package of its own where the first one has the checkout's, as in another image."""
    own = tmp_path / "src"
    shutil.copytree(child / "src", own)
    with (own / PACKAGE / other).open("a") as file:
        file.write("# another version\n")
    lines = write_jsonl(tmp_path / "a.jsonl", texts(300))
    with head(python, child) as cluster:
        mounted = f"mount --bind {own} {child / 'src'} && exec "
        cluster.join(("unshare", "--mount", "sh", "-c", mounted + '"$0" "$@"'))
        cluster.has(2)
        said = done(cluster.run("--input", lines, "--output", out.path, "--part-rows", 25), 78)
        assert "the code, or a file next to it, has changed" in said
        assert not out.complete
