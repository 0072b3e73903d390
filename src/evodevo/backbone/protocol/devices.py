"""Peak numbers of devices, as their makers publish them, and of what a short calibration has measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evodevo.errors import unknown_name


@dataclass(frozen=True)
class DeviceProfile:
    """The numbers of a roofline.

    Attributes:
        name: Short name of the device.
        memory: Memory in bytes; None where it is not limited by the profile.
        bandwidth: Bytes per second between memory and processor.
        single: FLOPs per second of products in float32.
        half: FLOPs per second of products with bfloat16 factors.
        launch: Seconds that the smallest operation takes.
    """

    name: str
    memory: int | None
    bandwidth: float
    single: float
    half: float
    launch: float = 4e-6

    def seconds(self, size: float, flops: float, *, half: bool) -> float:
        """Seconds of an operation that moves so many bytes and computes so many FLOPs: the longest of its parts."""
        return max(size / self.bandwidth, flops / (self.half if half else self.single), self.launch)


# NVIDIA's data sheets: dense products (half of what is stated "with sparsity"), float32 without TF32, SXM versions:
# "NVIDIA H100 Tensor Core GPU" (2023), "NVIDIA H200 Tensor Core GPU" (2024), "NVIDIA A100 Tensor Core GPU" (2021),
# "NVIDIA L4 Tensor Core GPU" (2023), "NVIDIA Ada GPU architecture" (2023) for the GeForce RTX 4090.
PROFILES: Mapping[str, DeviceProfile] = {
    row.name: row
    for row in (
        DeviceProfile("h100", 80 * 10**9, 3.35e12, 67e12, 989e12),
        DeviceProfile("h200", 141 * 10**9, 4.8e12, 67e12, 989e12),
        DeviceProfile("a100", 80 * 10**9, 2.039e12, 19.5e12, 312e12),
        DeviceProfile("l4", 24 * 10**9, 0.3e12, 30.3e12, 121e12),
        DeviceProfile("rtx4090", 24 * 10**9, 1.008e12, 82.6e12, 165.2e12),
    )
}


def profile_of(name: str) -> DeviceProfile:
    """The published numbers of a device.

    Raises:
        UsageError: a name that is not in the table.
    """
    if name not in PROFILES:
        raise unknown_name("device profile", name, PROFILES)
    return PROFILES[name]
