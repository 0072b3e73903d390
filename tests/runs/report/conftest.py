"""The made-up report of ``sample_report.py`` as a fixture."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from evodevo.runs.report.data import EvolutionReport


@pytest.fixture(scope="session")
def sample_report() -> EvolutionReport:
    spec = importlib.util.spec_from_file_location("report_sample", Path(__file__).with_name("sample_report.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    report = module.sample_report()
    assert isinstance(report, EvolutionReport)
    return report
