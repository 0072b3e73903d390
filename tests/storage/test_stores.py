"""The conformance suite over both stores."""

from __future__ import annotations

from pathlib import Path

from evodevo.storage import Store
from evodevo.testing.storages import StoreTests


class TestFolderStore(StoreTests):
    def make(self, folder: Path) -> Store:
        return Store.open(folder / "runs")


class TestMemoryStore(StoreTests):
    def make(self, folder: Path) -> Store:
        return Store.memory()
