"""One evaluation in several processes: ``torchrun`` starts them, and the evaluation's own process waits and forwards.

    evaluation          asks for replicas; forwards messages and the answer
    └─ torchrun         starts the replicas, and ends all where one fails
       └─ replica 0     evaluates; writes checkpoints, messages and the answer
       └─ replica 1, …  train beside it, write nothing, and end with the training

All are below the evaluation's process, so that its limits of time and memory count for all together, and whoever ends
it ends them. Files pass between the processes in a folder of the evaluation.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from evodevo import canonical
from evodevo.errors import EvodevoError
from evodevo.execution.base import EVALUATORS, PAYLOAD_BYTES, Report
from evodevo.execution.failures import describe_exception
from evodevo.registry import enable_packages, enabled_packages
from evodevo.scratch import scratch
from evodevo.training import replicas

POLL_SECONDS = 0.1
PAYLOAD, MESSAGES, ANSWER, FAILURE = "payload", "messages", "answer", "failure"


class ReplicaFailedError(EvodevoError):
    """A replica raised an exception or ended without an answer."""


def evaluate_replicated(entry: str, payload: bytes, report: Report, count: int) -> bytes:
    """The answer of an evaluator whose training has replicas.

    Args:
        entry: Name of the evaluator.
        payload: Its payload.
        report: Receiver of its live messages.
        count: Number of replicas.

    Raises:
        MemoryError: A replica had too little memory.
        ReplicaFailedError: Another failure; the message has the traceback.
    """
    with scratch() as folder:
        (folder / PAYLOAD).write_bytes(payload)
        (folder / MESSAGES).touch()
        command = [
            *(sys.executable, "-P", "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"),
            *("--max-restarts=0", "-m", __name__, str(folder), entry, *enabled_packages()),
        ]
        environment = {"OMP_NUM_THREADS": "1", **os.environ}  # torchrun would set it with a warning
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, env=environment)
        try:
            with (folder / MESSAGES).open("rb") as messages:
                rest = b""
                while True:
                    ended = process.poll() is not None
                    *lines, rest = (rest + messages.read()).split(b"\n")
                    for line in lines:
                        report(canonical.loads(line, what="a message", max_bytes=PAYLOAD_BYTES))
                    if ended:
                        break
                    time.sleep(POLL_SECONDS)
        finally:
            process.kill()
            process.wait()
        if (folder / FAILURE).exists():
            failure = canonical.loads((folder / FAILURE).read_bytes(), what="a failure")
            raise (MemoryError if failure["reason"] == "memory" else ReplicaFailedError)(failure["detail"])
        if process.returncode or not (folder / ANSWER).exists():
            raise ReplicaFailedError(
                f"a replica ended without an answer; torchrun ended with status {process.returncode}. Its messages are "
                "in the log."
            )
        return (folder / ANSWER).read_bytes()


def main(folder: Path, entry: str, packages: tuple[str, ...]) -> None:
    """Evaluate as one of the replicas."""
    try:
        enable_packages(packages)
        replicas.join()
        leads = replicas.rank() == 0
        with (folder / MESSAGES).open("ab", buffering=0) as messages:

            def report(message: dict[str, Any]) -> None:
                if leads:
                    messages.write(canonical.dumps(message).encode() + b"\n")

            answer = EVALUATORS.get(entry)((folder / PAYLOAD).read_bytes(), report)
        if leads:
            whole = folder / "answer.new"
            whole.write_bytes(answer)
            whole.rename(folder / ANSWER)
    except BaseException as error:
        reason, detail = describe_exception(error)
        try:
            # The first failure is the cause; the others follow from it.
            with (folder / FAILURE).open("xb") as file:
                file.write(canonical.dumps({"reason": reason, "detail": detail}).encode())
        except FileExistsError:
            pass
        raise


def end() -> None:
    """End this process at once, with status 0: what is called at the end of Python and of C++ is left out.

    A replica that has done its part has nothing to tidy up, and ``torchrun`` ends all where one of them aborts there.
    One has aborted ("terminate called without an active exception"), probably there.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], tuple(sys.argv[3:]))
    end()
