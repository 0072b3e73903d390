"""A Slurm cluster of several nodes on this machine, whose nodes can be killed; for tests and benchmarks.

It needs Debian's package ``slurm-wlm`` (or any ``slurmctld``, ``slurmd``, ``srun`` and ``munged``), and root.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from evodevo.execution.family import descendants
from evodevo.testing.ports import free_port

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "squeue", "sinfo", "salloc", "scancel")
START_SECONDS = 60.0
_CONF = """
ClusterName=evodevo
SlurmctldHost=localhost
SlurmctldPort={port}
AuthInfo=socket={folder}/munge.socket
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=256
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
GresTypes=gpu
ReturnToService=2
# a dead node is found within seconds rather than minutes
SlurmdTimeout=4
# twice this long an answer of a dead node is waited for
MessageTimeout=4
SlurmctldTimeout=10
KillWait=2
SchedulerParameters=batch_sched_delay=0,sched_interval=1
SlurmdParameters=config_overrides
"""


def reason_to_skip() -> str:
    """Why no cluster can be started here; empty = it can."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"there is no {missing[0]} here (Debian: slurm-wlm)"
    if os.getuid() != 0:
        return "slurmd runs as root"
    return ""


class ClusterNotStartedError(RuntimeError):
    """Slurm does not work on this machine, for example in a container; the message has the end of its logs."""


@contextmanager
def started(nodes: int) -> Iterator[SlurmCluster]:
    """A cluster for a test, which is skipped where there cannot be one."""
    if reason := reason_to_skip():
        pytest.skip(reason)
    try:
        cluster = SlurmCluster(nodes)
    except ClusterNotStartedError as error:
        pytest.skip(str(error))
    with cluster:
        yield cluster


class SlurmCluster:
    """A controller, and nodes with one CPU and one pretended GPU each; clients find it by the variable SLURM_CONF.

    Args:
        nodes: Number of nodes.

    Raises:
        ClusterNotStartedError: See there.
    """

    def __init__(self, nodes: int = 2) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-"))
        (self.folder / "state").mkdir()
        self.nodes = [f"node{number}" for number in range(1, nodes + 1)]
        text = _CONF.format(port=free_port(), user=pwd.getpwuid(os.getuid()).pw_name, folder=self.folder)
        for name in self.nodes:
            text += (
                f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={free_port()} CPUs=1 "
                "RealMemory=2048 Gres=gpu:1\n"
            )
        text += "PartitionName=main Nodes=ALL Default=YES State=UP\n"
        self.conf = self.folder / "slurm.conf"
        self.conf.write_text(text, encoding="ascii")
        gpus = "".join(f"NodeName={name} Name=gpu File=/dev/null\n" for name in self.nodes)
        (self.folder / "gres.conf").write_text(gpus, encoding="ascii")
        self._before = os.environ.get("SLURM_CONF")
        os.environ["SLURM_CONF"] = str(self.conf)
        (self.folder / "munge.key").write_bytes(secrets.token_bytes(128))
        (self.folder / "munge.key").chmod(0o600)
        self._munge = self._start(
            "munged",
            "-F",
            *(f"--{name}-file={self.folder}/munge.{name}" for name in ("key", "log", "pid", "seed")),
            f"--socket={self.folder}/munge.socket",
            "--force",
        )
        self._controller = self._start("slurmctld", "-D", "-c")
        self._daemons = {name: self._start("slurmd", "-D", "-N", name) for name in self.nodes}
        self._wait_until_idle()

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{command[0]}.out").open("ab") as output:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def _wait_until_idle(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self.is_idle():
            if time.monotonic() > deadline:
                logs = "\n".join(f"{path.name}: {path.read_text()[-2000:]}" for path in self.folder.glob("*.log"))
                self.close()
                raise ClusterNotStartedError(f"no Slurm cluster within {START_SECONDS:g} s:\n{logs}")
            time.sleep(0.1)

    def run(self, *command: str) -> str:
        """Output of one of Slurm's commands; empty where it fails."""
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    def is_idle(self) -> bool:
        """Whether all nodes wait for jobs."""
        return sorted(self.run("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split()) == sorted(self.nodes)

    def jobs(self) -> list[str]:
        """Lines ``id state`` of the jobs that wait or run."""
        return self.run("squeue", "-h", "-t", "PENDING,RUNNING", "-o", "%i %T").splitlines()

    def node_of(self, pid: int) -> str:
        """The node that a process belongs to."""
        return next(name for name in self._daemons if pid in self._processes(name))

    def kill(self, node: str) -> None:
        """End a node as a lost machine does: none of its processes says anything."""
        for pid in self._processes(node):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._daemons.pop(node).wait()

    def add(self) -> None:
        """Start the nodes again that were killed, once the controller has noticed their death.

        It knows a node that is back sooner by the time of its machine's start, which here is that of all nodes.
        """
        for node in self.nodes:
            if node not in self._daemons:
                self._wait(node, down=True)
                self._daemons[node] = self._start("slurmd", "-D", "-N", node)
                self._wait(node, down=False)

    def _wait(self, node: str, *, down: bool) -> None:
        """Until the controller counts a node as dead, or as alive."""
        deadline = time.monotonic() + START_SECONDS
        while ("down" in self.run("sinfo", "-h", "-n", node, "-o", "%T")) is not down:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{node} is not {'down' if down else 'up'} after {START_SECONDS:g} s")
            time.sleep(0.1)

    def _processes(self, node: str) -> list[int]:
        """The daemon of a node, the daemons of its steps, and all that runs below these."""
        log = str(self.folder / f"slurmd-{node}.log")  # which they all have open
        found: set[int] = set()
        for entry in filter(lambda entry: entry.name.isdecimal(), Path("/proc").iterdir()):
            with suppress(OSError):
                if any(os.readlink(file) == log for file in (entry / "fd").iterdir()):
                    found.update(descendants(int(entry.name)))
        return sorted(found)

    def close(self) -> None:
        """End everything."""
        self.run("scancel", "--state=PENDING", "--state=RUNNING", "--full", "--me")
        for node in list(self._daemons):
            self.kill(node)
        for process in (self._controller, self._munge):
            process.terminate()
            process.wait()
        if self._before is None:
            os.environ.pop("SLURM_CONF", None)
        else:
            os.environ["SLURM_CONF"] = self._before
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
