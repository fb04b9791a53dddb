"""What your own tests on a GPU take: `cuda` skips without one, or fails where scripts/smoke --require requires one."""

from gpu_repo_runtime.testing import cuda as cuda
