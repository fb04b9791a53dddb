"""The batch job around the model: files in, one prediction for each row out, every row exactly once.

    python -m gpu_repo_runtime.batch PACKAGE run --input texts.jsonl --output result

The output folder holds `data/*.parquet` and `_SUCCESS` when the job is done. While it runs, finished parts wait in
`_parts`, which readers of Parquet folders pass over as they do with every name that begins with an underscore.
"""
