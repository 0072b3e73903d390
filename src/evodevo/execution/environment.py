"""Selection of the environment variables of workers: those that an evaluation needs, and no secrets."""

from __future__ import annotations

from collections.abc import Mapping

_NAMES = {
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "TMPDIR", "VIRTUAL_ENV",
    "LD_LIBRARY_PATH", "XDG_CACHE_HOME", "TORCH_HOME", "HF_HOME", "HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE",
    "TRITON_CACHE_DIR", "KMP_AFFINITY", "KMP_BLOCKTIME",
}  # fmt: skip
_PREFIXES = ("LC_", "PYTHON", "CUDA_", "NVIDIA_", "PYTORCH_", "CUBLAS_", "OMP_", "EVODEVO_")
_SECRET_PARTS = ("TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "API_KEY")

WORKER_FOLDER = "EVODEVO_WORKER_FOLDER"
"""Variable of an evaluation: a folder that all evaluations of its worker share, removed with the worker."""


def worker_environment(
    outer: Mapping[str, str], *, threads: int, extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The variables of a worker process.

    Args:
        outer: Variables of the coordinator; only known and harmless ones are passed on.
        threads: Number of threads per evaluation.
        extra: Variables that the user adds, passed on unchanged.
    """
    kept = {
        name: value
        for name, value in outer.items()
        if (name in _NAMES or name.startswith(_PREFIXES)) and not any(part in name for part in _SECRET_PARTS)
    }
    kept.pop(WORKER_FOLDER, None)
    # With random hashes the order of sets of text, and so a result, could depend on the worker that got the job.
    kept.setdefault("PYTHONHASHSEED", "0")
    kept |= {
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "RAYON_NUM_THREADS": str(threads),
        # OpenBLAS starts its threads when numpy is imported, and a process that forks must have one thread.
        "OPENBLAS_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    return kept | dict(extra or {})
