"""My flowers in scikit-learn, exported to the ONNX file that own/flowers.py serves."""

import sys
from pathlib import Path

from skl2onnx import to_onnx
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

iris = load_iris()
numbers = iris.data.astype("float32")
model = LogisticRegression(max_iter=1000).fit(numbers, iris.target)
exported = to_onnx(model, numbers[:1], options={"zipmap": False})
Path(sys.argv[1]).write_bytes(exported.SerializeToString())
