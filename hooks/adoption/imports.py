"""Packages by what the code imports, where no file asks for any: only names that are known to be what they seem."""

from __future__ import annotations

import re

from family import frameworks
from packaging.utils import canonicalize_name

from adoption.packaged import IMPORTS, Packaging
from adoption.requirement_files import Reader, elsewhere, every_file
from adoption.tree import Tree, module

# The name to import and the name of the package. A guess from an unknown name could install a stranger's package.
OTHER_NAMES = {
    "PIL": "pillow", "cv2": "opencv-python-headless", "sklearn": "scikit-learn", "skimage": "scikit-image",
    "yaml": "PyYAML", "bs4": "beautifulsoup4", "pytorch_lightning": "pytorch-lightning", "hydra": "hydra-core",
    "dateutil": "python-dateutil",
}  # fmt: skip
SAME_NAMES = (
    "accelerate albumentations boto3 datasets diffusers einops fastapi fire flask fsspec gradio gymnasium h5py "
    "imageio jax joblib keras librosa lightgbm lightning lmdb matplotlib mlflow networkx nltk numba numpy "
    "omegaconf onnx onnxruntime openai pandas peft plotly psutil pyarrow pydantic requests rich safetensors scipy "
    "seaborn sentencepiece six soundfile spacy streamlit tensorboard tensorflow tiktoken timm tokenizers torch "
    "torchaudio torchmetrics torchtext torchvision tqdm transformers uvicorn wandb xgboost"
)
PYTHON2 = {  # its standard library: what imports it can do without, or needs another Python anyway
    "ConfigParser", "Queue", "StringIO", "Tkinter", "__builtin__", "cPickle", "cStringIO", "commands", "exceptions",
    "httplib", "urllib2", "urlparse",
}  # fmt: skip
OF_NOTEBOOKS = {"IPython", "google", "ipywidgets", "nbformat"}  # what notebooks run in, and no job does
FRAMEWORKS = {*frameworks(), "keras"}  # a test that can do with several of them asks for none
UNKNOWN = "it is imported, no file asks for it, and its package may have another name"
GONE = {"pkg_resources": "setuptools has it no more since 82: importlib.metadata and packaging do what it did"}
KNOWN = OTHER_NAMES | {name: name for name in SAME_NAMES.split()}


def add_tested(packaging: Packaging, tree: Tree) -> None:
    """Let the imports of the tests say what they need, where nothing else says it."""
    asked = packaging.packages.names() | {asked.name for asked in packaging.packages.dev}
    tests = [path for path in tree.python if re.search(r"(^|/)(test_[^/]*|[^/]*_test|conftest)\.py$", path)]
    for name in sorted({name for path in tests for name in module(tree.text(path)).imports}):
        if name in KNOWN and canonicalize_name(KNOWN[name]) not in asked and name not in FRAMEWORKS:
            packaging.packages.add(KNOWN[name], "the imports of its tests", dev=True)


def add_imported(packaging: Packaging, tree: Tree) -> None:
    """Let the imports of the code say what it needs, where nothing else says it."""
    if packaging.packages.run or packaging.makers or packaging.packages.left:
        return
    for path, texts in tree.installed.items() if not tree.core else ():
        for text in texts:
            packaging.packages.add(text, path)
    own = {part.removesuffix(".py") for path in tree.python for part in path.split("/")}
    asked = packaging.packages.names()
    known = KNOWN | named_elsewhere(tree)
    for name in sorted(set(tree.imports) - own - OF_NOTEBOOKS - PYTHON2):
        if canonicalize_name(known.get(name, name)) in asked:
            continue
        if name in known:
            packaging.packages.add(known[name], IMPORTS)
        else:
            packaging.packages.left.append((name, "its code", GONE.get(name, UNKNOWN)))


def named_elsewhere(tree: Tree) -> dict[str, str]:
    """Return what the requirements files of all folders call packages, by the names that they are imported by."""
    asks = Packaging()
    for path in [*every_file(tree.folder), *elsewhere(tree.folder)]:
        Reader(tree.folder, asks).file(path)
    return {asked.name.replace("-", "_"): asked.requirement.name for asked in asks.packages.run}
