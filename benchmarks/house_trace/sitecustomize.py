"""The recorder of ``house.py``: which source files work in each process of a command, up to which loss.

Python imports this file by its name when a process starts whose ``PYTHONPATH`` holds the folder. Each process appends
to a file of its own one line for each source file when a function of it is called for the first time, and the line
``loss`` at the first call of ``backward``. A forked process begins with an empty list, so that the list of an
evaluation begins where its process begins. Lines are written at once, since an evaluation may be killed when it has
answered.
"""

from __future__ import annotations

import inspect
import os
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

SOURCE = os.environ["EVODEVO_HOUSE_SOURCE"] + os.sep
LISTS = Path(os.environ["EVODEVO_HOUSE_LISTS"])
UNTIL_LOSS = os.environ.get("EVODEVO_HOUSE_UNTIL") == "loss"
BACKWARD = (os.path.join("torch", "_tensor.py"), os.path.join("torch", "autograd", "__init__.py"))

written: set[str] = set()
imports = threading.local()


def write(line: str) -> None:
    """Append a line to the list of this process, unless it has that line."""
    if line not in written:
        written.add(line)
        with (LISTS / f"{os.getppid()}-{os.getpid()}").open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def profile(frame: FrameType, event: str, argument: Any) -> None:
    """Write the file of a function that is called, unless a module is being imported: importing is not yet work."""
    if event not in ("call", "return"):
        return
    code = frame.f_code
    depth = getattr(imports, "depth", 0)
    if code.co_name == "<module>" and frame.f_globals.get("__name__") not in ("__main__", __name__):
        imports.depth = depth + 1 if event == "call" else max(0, depth - 1)
    elif event == "call" and not depth:
        if code.co_filename.startswith(SOURCE):
            if code.co_flags & inspect.CO_OPTIMIZED:  # not the body of a module or of a class
                write(code.co_filename.removeprefix(SOURCE))
        elif code.co_name == "backward" and code.co_filename.endswith(BACKWARD):
            write("loss")
            if UNTIL_LOSS:
                sys.setprofile(None)


os.register_at_fork(after_in_child=written.clear)
threading.setprofile(profile)
sys.setprofile(profile)
