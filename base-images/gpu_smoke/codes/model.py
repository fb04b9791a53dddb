"""Findings of the project's own model: GS911 to GS916."""

from __future__ import annotations

from . import Code

CODES = [
    Code(
        id="GS911",
        layer="model",
        title="The model cannot be loaded",
        symptom="an error before the first prediction",
        cause="the entry point {value} does not exist, or its load() failed",
        detect="import, construct and load on CPU and GPU",
        fix="Correct --model (MODULE:CLASS), the class or its files; the evidence has the error.",
        source="this project's model contract",
    ),
    Code(
        id="GS912",
        layer="model",
        title="The model predicts differently on GPU and CPU",
        symptom="answers in production differ from those on a laptop",
        cause="wrong numbers on the GPU, or a tolerance tighter than the precision",
        detect="the class's examples on both devices, compared item by item: {value}",
        fix=("Compare the named item; set the class's `tolerance` if the difference is the precision you chose."),
        apart=(
            "run the model twice on the CPU: differences there, it is not deterministic; none, raise the "
            "precision and compare"
        ),
        source="this project's model contract",
    ),
    Code(
        id="GS913",
        layer="model",
        title="The model's prediction failed",
        symptom="an error in predict()",
        cause="see the error in the evidence",
        detect="predict(examples) on CPU and GPU",
        fix="Correct predict(): it takes the class's `examples` and gives one result per item.",
        source="this project's model contract",
    ),
    Code(
        id="GS914",
        layer="model",
        title="The model has no examples",
        symptom="nothing to compare",
        cause="the class has no `examples`, or the list is empty",
        detect="read the class attribute",
        fix="Give the class a list `examples` with one or more inputs.",
        source="this project's model contract",
    ),
    Code(
        id="GS915",
        layer="model",
        severity="info",
        title="CPU only",
        symptom="the model ran, but not on a GPU",
        cause="there is no usable GPU here",
        detect="the model ran on the CPU and the GPU comparison was left out",
        fix="Run with --require model on a GPU to prove the GPU result.",
        source="this project's model contract",
    ),
    Code(
        id="GS916",
        layer="model",
        title="The model did not finish in time, and the GPU works",
        symptom="load() or predict() takes longer than --timeout",
        cause=(
            "loading or the first prediction takes long (downloads, kernels that are compiled at first use); else the "
            "model waits for something that does not come"
        ),
        detect="the model ran over --timeout while kernels of our own computed right",
        fix="Run again with a larger `--timeout`; the evidence has the call that {value} was in.",
        apart="run it again: much faster, it was compiling or loading; as slow, look where it waits (`py-spy dump`)",
        source="this project's model contract",
    ),
]
