{% include "runtime/src/gpu_repo_runtime/cores.py" %}
