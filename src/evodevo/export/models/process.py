"""Arrays to a fresh process and back: one line of JSON, then bytes; nothing is unpickled here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from evodevo.export.fresh_process import run
from evodevo.export.models.base import Arrays

# ``LOAD`` defines answers(*tensors): a list of ways, each a list of tensors.
_SCRIPT = """\
import json, os, sys
place = sys.argv[1]
given, out = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
{block}
import numpy, torch
{load}
probes = [
    [numpy.frombuffer(given.read(size), kind).reshape(shape) for kind, shape, size in probe]
    for probe in json.loads(given.readline())
]
found = []
with torch.no_grad():
    for probe in probes:
        tensors = [torch.from_numpy(array.copy()) for array in probe]
        found.append([[one.float().contiguous().numpy() for one in way] for way in answers(*tensors)])
out.write(json.dumps([[[one.shape for one in way] for way in ways] for ways in found]).encode() + b"\\n")
for ways in found:
    for way in ways:
        for one in way:
            out.write(one.astype("<f4").tobytes())
out.close()
"""
_BLOCK = 'sys.modules["evodevo"] = None'


def ask(load: str, folder: Path, probes: Sequence[Arrays], *, without_evodevo: bool = True) -> list[list[Arrays]]:
    """Outputs of an export for probes.

    Args:
        load: Python that reads ``place`` and defines ``answers(*tensors)``, a list of ways, each a list of tensors.
        folder: Folder of the export.
        probes: Arrays of each probe.
        without_evodevo: Whether evodevo cannot be imported there.

    Raises:
        VerificationError: It fails.
    """
    head = [[(array.dtype.str, array.shape, array.nbytes) for array in probe] for probe in probes]
    body = b"".join(np.ascontiguousarray(array).tobytes() for probe in probes for array in probe)
    script = _SCRIPT.format(block=_BLOCK if without_evodevo else "", load=load)
    line, _, rest = run(script, folder, json.dumps(head).encode() + b"\n" + body, isolated=without_evodevo).partition(
        b"\n"
    )
    start = 0

    def array(shape: list[int]) -> np.ndarray:
        nonlocal start
        begin, start = start, start + 4 * int(np.prod(shape))
        return np.frombuffer(rest[begin:start], "<f4").astype(np.float32).reshape(shape)

    return [[tuple(array(shape) for shape in way) for way in ways] for ways in json.loads(line)]
