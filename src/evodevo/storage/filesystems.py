"""Does a folder lie on this machine's own disk? SQLite's WAL needs memory shared by processes of one kernel."""

from __future__ import annotations

import re
from pathlib import Path

# fmt: off
NETWORK_TYPES = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "fuse", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs",
    "nfs4", "ocfs2", "orangefs", "pvfs2", "smb2", "smb3", "smbfs", "vboxsf", "virtiofs",
})
# fmt: on


def filesystem_type(path: Path, mounts: str | None = None) -> str:
    """The type of the file system that holds a path, as the kernel names it ("ext4", "nfs4", "fuse.sshfs").

    Args:
        path: need not exist yet.
        mounts: the text of /proc/self/mounts; read now when None.

    Returns:
        The type, or "" where the kernel does not say.
    """
    if mounts is None:
        try:
            mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return ""
    real = path.resolve()
    best: tuple[int, str] = (-1, "")
    for line in mounts.splitlines():
        words = line.split(" ")
        if len(words) < 3:
            continue
        point = Path(re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), words[1]))
        # Of mounts stacked on one point the last one is seen, hence >=.
        if real.is_relative_to(point) and len(point.parts) >= best[0]:
            best = (len(point.parts), words[2])
    return best[1]


def is_network(path: Path, mounts: str | None = None) -> bool:
    """Whether other machines may hold the same file system (every FUSE file system but fuseblk counts)."""
    kind = filesystem_type(path, mounts)
    return kind in NETWORK_TYPES or kind.startswith("fuse.")
