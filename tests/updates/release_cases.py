"""Changes of a small family of templates: what the release check refuses, and what it lets through."""

from collections.abc import Callable

Files = dict[str, str]
SETTINGS = """
_subdirectory: t
_exclude:
  - |
    {% if flavour == 'a' %}
    only-b
    {% endif %}
    {% if _copier_operation == 'update' %}
    README.md
    {% endif %}
project_name: {type: str, default: x}
flavour:
  type: str
  choices: [a, b]
  default: a
  validator: >-
    {% set rows %}{% include 'base-images/catalog.yml' %}{% endset %}
    {% if flavour == 'b' and 'name: two, state: retired' in rows %}the image two is retired{% endif %}
gpu: {type: bool, default: true}
"""
ANSWERS_FILE = "t/{{ _copier_conf.answers_file }}.jinja"
TITLE = "title: {type: str, default: x}\n"
TOOLS = """tools:
  type: str
  multiselect: true
  choices: [p, q]
  default: []
  validator: "{% if flavour == 'a' and 'q' in tools %}no q for a{% endif %}"
"""


def images(**states: str) -> str:
    """Return the text of base-images/catalog.yml with these rows."""
    rows = (f"{{name: {name}, state: {state}, framework: plain, driver_min: 580}}" for name, state in states.items())
    return f"images: [{', '.join(rows)}]\n"


GOOD: Files = {
    ".gitignore": "/build/\n",
    "copier.yml": SETTINGS + TITLE,
    "VERSION": "1.0.0\n",
    "CHANGELOG.md": "## 1.0.0\n",
    "base-images/catalog.yml": images(one="supported", two="supported"),
    "base-images/released.json": '{"two": {"smoke": {"on_a_gpu": true}}}\n',
    "templates/retired.yml": "[]\n",
    "t/.copier-ownership.yml": "managed: {Dockerfile: d, scripts/: s, only-b: b, '.copier-*.yml': a}\n"
    "seed: {README.md: r}\n",
    "t/scripts/build": "build\n",
    "t/README.md": "readme\n",
    "t/only-b": "b\n",
    "t/Dockerfile.jinja": "FROM {{ 'one' if flavour == 'a' else 'two' }}\n",
    "t/scripts/tools/copier.lock": "copier==9.18.0 \\\n    --hash=sha256:0\n",
}


def change(**files: str | None) -> Callable[[Files], Files]:
    """Return a change of GOOD: names with / and . written as __ and _dot_; None removes a file."""

    def apply(good: Files) -> Files:
        named = {name.replace("__", "/").replace("_dot_", "."): text for name, text in files.items()}
        return {name: text for name, text in (good | named).items() if text is not None}

    return apply


def retire(kind: str, name: str, version: str = "1.1.0") -> str:
    """Return the text of templates/retired.yml with one entry."""
    return f"[{{kind: {kind}, name: {name}, version: {version}, reason: none needs it}}]\n"


def settings(old: str, new: str) -> Callable[[Files], Files]:
    """Return a change of GOOD's copier.yml."""
    assert old in GOOD["copier.yml"], old
    return change(copier_dot_yml=GOOD["copier.yml"].replace(old, new))


LISTS = GOOD["t/.copier-ownership.yml"]
LIST = "t___dot_copier-ownership_dot_yml"
ALL_MANAGED = LISTS.replace("seed: {README.md: r}", "seed: {}").replace("{Dockerfile", "{README.md: r, Dockerfile")
RETIRED_ROWS = "".join(f"- {{kind: {kind}, name: {name}, version: 1.1.0, reason: none needs it}}\n"
                       for kind, name in (("image", "two"), ("choice", "flavour=b"), ("file", "only-b")))  # fmt: skip
RETIRED_IMAGE = images(one="supported", two="retired")
SHORT = 'title: {type: str, default: x, validator: "{% if title | length > 30 %}short{% endif %}"}\n'
WIDE = 'title: {type: str, default: x, validator: "{% if not title %}x{% endif %}"}\n'
NO_B = GOOD["copier.yml"].replace("[a, b]", "[a]")
REFUSED = {
    "line ends of Windows": (change(t__scripts__build="echo\r\n"), "mixed-line-ending: scripts/build: fixed"),
    "a private key": (
        change(t__scripts__key="-----BEGIN RSA PRIVATE" + " KEY-----\n"), "detect-private-key: Private key found: "
    ),
    "a byte order mark": (change(t__scripts__build="\ufeffbuild\n"), "fix-byte-order-marker: scripts/build"),
    "a file that a child's ignore rule hides": (
        change(t___dot_gitignore="build\n", **{LIST: LISTS.replace("scripts/: s", ".gitignore: g, scripts/: s")}),
        "scripts/build is hidden by a .gitignore of the child",
    ),
    "a lock without its wheel": (
        change(t__scripts__tools__copier_dot_lock="copier==9.18.0\nx @ file:wheels/x-1.0-py3-none-any.whl\n"),
        "scripts/tools/copier.lock names wheels/x-1.0-py3-none-any.whl, which is not there",
    ),
    "a key twice": (change(t__scripts__a_dot_yaml="x: 1\nx: 2\n"), "check-yaml: "),
    "a broken script": (change(t__scripts__a_dot_sh="if true; then\n"), "shellcheck: scripts/a.sh:1:"),
    "a Copier that children do not have": (
        change(copier_dot_yml='_min_copier_version: "9.19.1"\n' + GOOD["copier.yml"]),
        "children cannot update: they have Copier 9.18.0, the template needs 9.19.1",
    ),
    "a managed file becomes a seed": (
        change(**{LIST: LISTS.replace("only-b: b, ", "").replace("{README.md", "{only-b: b, README.md")}),
        "only-b was managed and is a seed now",
    ),
    "another image for the same answers": (
        change(t__Dockerfile_dot_jinja="FROM two\n"), "children change from the image one to two: keep it"
    ),
    "a file is gone": (change(t__scripts__build=None, t__scripts__new="n"), "scripts/build is gone: keep it, or"),
    "a choice is gone": (change(copier_dot_yml=NO_B), "the answer flavour=b becomes a: keep it, or list it"),
    "a question is gone": (
        change(copier_dot_yml=GOOD["copier.yml"].replace("gpu: {type: bool, default: true}\n", "")),
        "the answer gpu is no longer recorded: keep it, or list it",
    ),
    "an image is retired": (
        change(**{"base-images__catalog_dot_yml": RETIRED_IMAGE}), "children change from the image two to one"
    ),
    "a task": (
        change(copier_dot_yml=GOOD["copier.yml"] + "_tasks: ['true']\n"),
        "no child can start with the defaults: Template uses potentially unsafe feature: tasks.",
    ),
    "a seed becomes managed": (
        change(**{"t___dot_copier-ownership_dot_yml": ALL_MANAGED}),
        "README.md was the owner's",
    ),
    "a file on no list": (change(t__new="n"), "new is on neither list"),
    "a version is left out": (change(VERSION="1.2.1\n"), "VERSION is 1.2.1, which does not follow 1.0.0"),
    "no changelog": (change(VERSION="1.1.0\n"), "CHANGELOG.md has no section '## 1.1.0'"),
    "a tighter validator": (
        settings(TITLE, SHORT),
        "the answer title=Find topics: ",
    ),
    "several answers in place of one": (
        settings("  default: a\n", "  default: [a]\n  multiselect: true\n"), "the answer flavour=a becomes ['a']"
    ),
    "a new question without a default": (
        settings(TITLE, TITLE + "more: {type: str}\n"), 'Question "more" is required'
    ),
    "a file is gone by an entry of a version before": (
        change(**{"t__only-b": None, "templates__retired_dot_yml": retire("file", "only-b", "0.9.0")}),
        "only-b is gone: ",
    ),
    "conflict markers": (
        change(t__scripts__build="a\n<<<<<<< HEAD\nb\n=======\nc\n>>>>>>> x\n"), "check-merge-conflict: scripts/build"
    ),
    "a broken template": (
        change(**{"t__scripts__build": None, "t__scripts__build_dot_jinja": "{% if %}\n"}),
        "no child can start with the defaults: ",
    ),
    "a broken new choice": (
        change(**{
            "copier_dot_yml": GOOD["copier.yml"].replace("[a, b]", "[a, b, c]"),
            "t__README_dot_md": None, "t__README_dot_md_dot_jinja": "readme\n{{ 'x' if flavour != 'c' else 1 / 0 }}\n",
        }),
        "no child can start with the defaults: division by zero (flavour=c",
    ),
    "a default that some cannot have": (
        settings("gpu: {", "gpu: {validator: \"{% if flavour == 'b' and gpu %}none{% endif %}\", "),
        "children cannot update: Validation error for question 'gpu': none",
    ),
    "an entry without a reason": (change(templates__retired_dot_yml="[{kind: file, name: x}]\n"), "needs name"),
}  # fmt: skip
NO_COMMIT = "{% for k, v in _copier_answers.items() if k != '_commit' %}\n{{ k }}: {{ v | tojson }}\n{% endfor %}\n"
RESET = "{% if title == 'mine' and _copier_answers._commit is defined %}no{% endif %}"
UNASKED = "{{ UNSET if _copier_answers._commit is defined else 'x' }}"
HARMFUL_UPDATES = {
    "a migration": (
        change(copier_dot_yml=GOOD["copier.yml"] + "_migrations: [{version: v1.0.1, command: 'true'}]\n"),
        "plain copier update of a child of 1.0.0: the update fails: ",
    ),
    "_skip_if_exists": (
        change(copier_dot_yml=GOOD["copier.yml"] + "_skip_if_exists: [scripts/build]\n"),
        "scripts/build is managed, and no fix of it arrives",
    ),
    "a message that cannot be written": (
        settings("_subdirectory", "_message_after_update: '{{ _copier_conf.nope.x }}'\n_subdirectory"),
        "plain copier update of a child of 1.0.0: the update fails: ",
    ),
    "a seed that updates overwrite": (settings("    README.md\n", ""), "README.md is the owner's, and it changes it"),
    "a managed file that updates leave out": (
        settings("    README.md\n", "    README.md\n    scripts/build\n"),
        "scripts/build is managed, and no fix of it arrives",
    ),
    "answers without _commit": (
        change(**{ANSWERS_FILE: NO_COMMIT}),
        "the answer _commit is no longer recorded",
    ),
    "an answer that is reset": (
        settings(TITLE, f'title: {{type: str, default: x, validator: "{RESET}"}}\n'),
        "the answer title=mine becomes x",
    ),
    "an update that fails": (
        settings(TITLE, f'{TITLE}more: {{type: str, default: "{UNASKED}"}}\n'),
        "update of a child of 1.0.0: the update fails: ",
    ),
}
MADE_BY_HAND = {
    "an executable bit is lost": (
        lambda t: (t / "t/scripts/build").chmod(0o644),
        "scripts/build is no longer executable",
    ),
    "a file becomes a link": (
        lambda t: ((t / "t/scripts/build").unlink(), (t / "t/scripts/build").symlink_to("../README.md")),
        "t/scripts/build is a link",
    ),
}
ALLOWED = {
    "nothing changes": change(),
    "a listed file is gone": change(
        **{"t__only-b": None, "templates__retired_dot_yml": retire("file", "only-b")}
    ),
    "a listed choice is gone": change(
        copier_dot_yml=NO_B,
        templates__retired_dot_yml=RETIRED_ROWS
    ),
    "a listed image is retired": change(
        **{"base-images__catalog_dot_yml": RETIRED_IMAGE, "templates__retired_dot_yml": RETIRED_ROWS}
    ),
    "the next version": change(VERSION="1.1.0\n", CHANGELOG_dot_md="## 1.1.0\n\n## 1.0.0\n"),
    "the next version in the making": change(VERSION="1.0.1.dev0\n"),
    "a validator that is as wide": settings(TITLE, WIDE),
    "a listed validator": change(
        copier_dot_yml=GOOD["copier.yml"].replace(TITLE, SHORT),
        templates__retired_dot_yml=retire("question", "title"),
    ),
    "settings that are included": change(
        copier_dot_yml=GOOD["copier.yml"] + "---\n!include more.yml\n",
        more_dot_yml="more: {type: bool, default: true}\n"
    ),
    "a new choice": change(copier_dot_yml=GOOD["copier.yml"].replace("[a, b]", "[a, b, c]")),
}  # fmt: skip
