"""Small models, so that the tests of ``evodevo.fit`` take seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from evodevo.estimators.automatic.candidates import boosting, forest


@pytest.fixture(autouse=True, scope="module")
def _small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boosting, "MOST_ITERATIONS", 40)
        patch.setattr(forest, "TREES", 30)
        yield
