"""The answer sets: every valid combination of answers that changes what is rendered."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from itertools import product

import yaml

from tests.shared import ROOT

TYPES = tuple(one["name"] for one in yaml.safe_load((ROOT / "templates" / "types.yml").read_text(encoding="utf-8")))
CATALOG = yaml.safe_load((ROOT / "base-images" / "catalog.yml").read_text(encoding="utf-8"))
FRAMEWORKS = tuple(one["name"] for one in CATALOG["frameworks"])
KUBEFLOW = tuple(one["name"] for one in CATALOG["frameworks"] if one.get("kubeflow"))
DRIVERS = ("580", "525")
COMPONENTS = ("gateway", "keda", "login")
WEIGHTS = ("weights-image", "weights-init", "weights-volume")  # one of them at most in an overlay


@dataclass(frozen=True)
class AnswerSet:
    """Answers to the questions; `id` names the set where a test fails."""

    project_type: str
    framework: str
    gpu_driver: str = "580"
    kubernetes: bool = True
    project_name: str = "topic-finder"
    description: str = "Find the topic of a text"
    gpu_resource: str = "nvidia.com/gpu"
    pipeline: tuple[str, ...] = ()
    components: tuple[str, ...] = ()
    ci: tuple[str, ...] = ("jenkins",)
    framework_version: str = "newest"
    layout: int = 2
    training: bool = False
    update_job: bool = False

    @property
    def id(self) -> str:
        """Name the set by the answers that are not the usual ones."""
        parts = [self.project_type, self.framework, self.gpu_driver]
        for field in fields(self)[3:]:
            value = getattr(self, field.name)
            if value != field.default and field.name not in ("description", "gpu_resource"):
                text = "-".join(value) if isinstance(value, tuple) else value
                parts.append(f"no_{field.name}" if value is False else f"{field.name}_{text}")
        return "-".join(parts)

    @property
    def package_name(self) -> str:
        """Return the package's name, which follows from the project's."""
        return self.project_name.replace("-", "_")

    def as_dict(self) -> dict[str, object]:
        """Return the answers to the questions that are asked for this type."""
        lists = {name: list(getattr(self, name)) for name in ("pipeline", "components", "ci")}
        answers: dict[str, object] = asdict(self) | lists
        for name, usual in (("framework_version", "newest"), ("layout", 2), ("training", False), ("update_job", False)):
            if answers[name] == usual:
                del answers[name]
        if self.project_type != "batch" or not self.kubernetes:
            del answers["pipeline"]
        if self.project_type == "library" or not self.kubernetes:
            del answers["components"]
        if self.project_type == "library":
            del answers["kubernetes"], answers["gpu_resource"]
        elif not self.kubernetes:
            del answers["gpu_resource"]
        return answers


def every_answer_set() -> list[AnswerSet]:
    """Return types x frameworks x driver lines, types x frameworks without Kubernetes, and awkward texts and names."""
    sets = [
        AnswerSet(project_type, framework, driver, kubernetes)
        for project_type, framework, driver, kubernetes in product(TYPES, FRAMEWORKS, DRIVERS, (True, False))
        if kubernetes or (project_type != "library" and driver == DRIVERS[0])  # neither knows of the other
    ]
    tools = {one: ("pachyderm", "flyte", *(["kubeflow"] if one in KUBEFLOW else [])) for one in FRAMEWORKS}
    sets += [AnswerSet("batch", one, pipeline=tools[one], training=True) for one in FRAMEWORKS]
    sets += [AnswerSet("batch", "plain", pipeline=("flyte",))]
    sets += [AnswerSet("service", "plain", components=("keda",))]
    parts = {"batch": WEIGHTS, "service": COMPONENTS + WEIGHTS}
    systems = ("jenkins", "github", "gitlab")
    sets += [AnswerSet(t, "plain", components=parts.get(t, ()), ci=systems, update_job=True) for t in TYPES]
    sets += [AnswerSet(t, "plain", layout=1) for t in TYPES]
    sets += [
        AnswerSet("batch", "plain", kubernetes=False, ci=("github", "gitlab")),
        AnswerSet("service", "plain", ci=()),
    ]
    awkward = "Says \"5 × 3 = 15\" for $HOME, {{ x }}, #1 & 'more': \\n <b>né</b> 🙂"
    sets += [AnswerSet(t, "plain", project_name="a", description=awkward) for t in TYPES]
    long_name = "z" + "-9" * 19 + "z"
    sets += [AnswerSet("service", "torch", project_name=long_name, gpu_resource="nvidia.com/mig-1g.10gb")]
    return sets
