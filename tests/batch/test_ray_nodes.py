"""What the nodes of a Ray cluster have: the same code and weights, and Ray itself where a child asks for it."""

from __future__ import annotations

import shutil

import pytest

from tests.answers import AnswerSet
from tests.batch.conftest import PACKAGE, Output, texts, write_jsonl
from tests.batch.ray_cluster import done, head, python_with_ray  # noqa: F401 - a fixture
from tests.templates.test_child import own_copy, run


@pytest.mark.release
@pytest.mark.parametrize(("other", "what"), [("model.py", "code"), ("weights.bin", "weights")])
def test_a_node_whose_code_or_weights_are_others_is_refused(python, child, tmp_path, out, other, what):
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
        assert f"the {what}" in said
        assert not out.complete


@pytest.mark.release
def test_ray_is_an_extra_of_a_real_child(render, tmp_path_factory):
    """What the page says: the extra into pyproject.toml, scripts/lock, scripts/setup, scripts/run --on."""
    place = tmp_path_factory.mktemp("ray-child")
    child = own_copy(render, AnswerSet("batch", "plain"), place)
    run(child, "scripts/setup")
    project = child / "pyproject.toml"
    project.write_text(project.read_text().replace('"numpy>=2",', '"numpy>=2",\n  "gpu-repo-runtime[ray]",'))
    run(child, "scripts/lock")
    assert "\nray" in (child / "requirements.lock").read_text()
    run(child, "scripts/setup")
    write_jsonl(child / "a.jsonl", texts(300))
    options = ("--input", "a.jsonl", "--part-rows", "50", "--output")
    with head(child / ".venv" / "bin" / "python", child) as cluster:
        names = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN")
        (child / ".env").write_text("".join(f"{name}={cluster.environment[name]}\n" for name in names))
        said = run(child, "scripts/run", *options, "on-ray", "--on", f"ray://127.0.0.1:{cluster.client}")
    assert "1 workers at a time on Ray" in said
    run(child, "scripts/run", *options, "here")
    assert Output(child / "on-ray").digest() == Output(child / "here").digest()
