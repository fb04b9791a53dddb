"""I add packages of PyPI, of a git repository and of Debian, and serve an ONNX model: docs/how-to/add-packages.md."""

from __future__ import annotations

from pathlib import Path

from tests.journeys.child import Child

OWN = Path(__file__).parent / "own"
TYPE = "service"
PAGE = "how-to/add-packages.md"
ADDRESS = "git+https://git.example.com/ml/parcel-rates.git"
PACKAGE = """
mkdir ../rates && cd ../rates && git init -q -b main && mkdir parcel_rates
echo 'NZ = 9.5' >parcel_rates/__init__.py
printf '[project]\\nname = "parcel-rates"\\nversion = "1.0"\\n' >pyproject.toml
git add -A && git -c user.name=Me -c user.email=me@example.com commit -qm Rates && git tag v1.0
"""


def test_packages_of_pypi_are_locked_installed_and_can_be_imported(child: Child) -> None:
    child.follow("From PyPI")
    child.sh('.venv/bin/python -c "import onnxruntime, pandas, sklearn, transformers"')


def test_my_onnx_model_is_served_with_them(child: Child) -> None:
    package = child.path("src/<package>")
    export = "uv run --no-project --with scikit-learn --with skl2onnx"
    child.sh(f".venv/bin/{export} {OWN}/flowers_to_onnx.py {package}/flowers.onnx")
    child.sh(f"cp {OWN}/flowers.py {package}/model.py && scripts/test", expect="passed")
    child.serve("scripts/run", "/readyz")
    ask = """-H 'Content-Type: application/json' -d '{"instances": [{"lengths": [6.5, 3, 5.2, 2]}]}'"""
    child.sh(f"curl -sf localhost:8000/predict {ask}", expect='"kind":2')
    child.stop()


def test_the_wheel_of_a_git_repository_is_locked_and_installed(child: Child) -> None:
    child.sh(PACKAGE)
    child.environment |= {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{child.folder.parent}/rates.insteadOf",
        "GIT_CONFIG_VALUE_0": ADDRESS.removeprefix("git+"),
    }
    child.follow("From a git repository")
    assert child.sh('.venv/bin/python -c "import parcel_rates; print(parcel_rates.NZ)"') == "9.5\n"
    assert "parcel-rates==1.0" in child.path("requirements.lock").read_text()


def test_lint_accepts_the_documented_line_of_apt(child: Child) -> None:
    child.sh("git add -A && git -c user.name=Me -c user.email=me@example.com commit -qm Packages")
    child.follow("From Debian")
