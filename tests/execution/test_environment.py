from __future__ import annotations

from evodevo.execution.environment import worker_environment


def test_secrets_stay_behind_and_the_rest_is_known() -> None:
    outer = {
        "PATH": "/bin",
        "HOME": "/home/me",
        "AWS_SECRET_ACCESS_KEY": "one not to tell",
        "HF_TOKEN": "two not to tell",
        "PYTHON_PASSWORD": "three not to tell",
        "EVODEVO_DASHBOARD_TOKEN": "four not to tell",
        "DATABASE_URL": "five not to tell",
        "CUDA_VISIBLE_DEVICES": "0",
        "OMP_NUM_THREADS": "64",
    }
    inner = worker_environment(outer, threads=2)
    assert not [value for value in inner.values() if "not to tell" in value]
    assert (inner["PATH"], inner["HOME"], inner["CUDA_VISIBLE_DEVICES"]) == ("/bin", "/home/me", "0")
    assert (inner["OMP_NUM_THREADS"], inner["OPENBLAS_NUM_THREADS"]) == ("2", "1")


def test_the_order_of_sets_does_not_depend_on_the_worker() -> None:
    assert worker_environment({}, threads=1)["PYTHONHASHSEED"] == "0"
    assert worker_environment({"PYTHONHASHSEED": "7"}, threads=1)["PYTHONHASHSEED"] == "7"


def test_what_the_user_adds_is_taken_as_it_is() -> None:
    assert worker_environment({}, threads=1, extra={"MY_TOKEN": "x"})["MY_TOKEN"] == "x"
