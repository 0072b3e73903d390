"""Runs a .pt2 file in a new process that cannot import evodevo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from evodevo.errors import VerificationError
from evodevo.execution.environment import worker_environment
from evodevo.export.base import Logits, Samples

LONGEST = 1800.0
"""Timeout in seconds; the largest paths take minutes to load on a small machine."""

OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
"""Variables with which no library looks for anything on the network."""

# Formats and shapes as one line of JSON, then bytes; back come shapes, then numbers. No file in between, nothing
# unpickled here.
SCRIPT = """\
import json, sys
sys.modules["evodevo"] = None
import torch
program = torch.export.load(sys.argv[1]).module()
given, out = sys.stdin.buffer, sys.stdout.buffer
answers = []
with torch.no_grad():
    for kind, shape, size in json.loads(given.readline()):
        samples = torch.frombuffer(bytearray(given.read(size)), dtype=getattr(torch, kind)).reshape(shape)
        answers.append(program(samples).float().contiguous())
out.write(json.dumps([list(one.shape) for one in answers]).encode() + b"\\n")
for one in answers:
    out.write(one.numpy().astype("<f4").tobytes())
"""


def ask(file: Path, probes: Sequence[Samples]) -> list[Logits]:
    """Outputs of a .pt2 program for batches, each (B, …) -> (B, C).

    Raises:
        VerificationError: It cannot be read, or fails.
    """
    head = json.dumps([[probe.dtype.name, probe.shape, probe.nbytes] for probe in probes]).encode() + b"\n"
    given = head + b"".join(np.ascontiguousarray(probe).tobytes() for probe in probes)
    line, _, rest = run(SCRIPT, file, given).partition(b"\n")
    answers, start = [], 0
    for shape in json.loads(line):
        end = start + 4 * int(np.prod(shape))
        answers.append(np.frombuffer(rest[start:end], "<f4").astype(np.float32).reshape(shape))
        start = end
    return answers


def run(script: str, place: Path, given: bytes, *, isolated: bool = True) -> bytes:
    """What a script, given bytes, prints in a new process.

    Args:
        script: Python; ``sys.argv[1]`` is the place.
        place: File or folder of the export.
        given: Its standard input.
        isolated: Whether the environment's paths and those of the user are left out.

    Raises:
        VerificationError: It fails, or does not end.
    """
    alone = ["-I"] if isolated else ["-P"]
    words = [sys.executable, *alone, "-W", "ignore", "-c", script, os.fspath(place.absolute())]
    variables = worker_environment(os.environ, threads=torch.get_num_threads()) | OFFLINE
    try:
        done = subprocess.run(words, input=given, capture_output=True, timeout=LONGEST, env=variables)
    except subprocess.TimeoutExpired:
        raise VerificationError(f"{place.name} did not answer within {LONGEST:.0f} s in a fresh process.") from None
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise VerificationError(
            f"{place.name} cannot be used in a fresh process: {lines[-1][:500] if lines else done.returncode}."
        )
    return done.stdout
