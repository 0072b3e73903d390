"""Drawings as SVG strings, made in Python from plain data: no torch, no script, no outside reference.

Every function returns one SVG that stands alone as a file (a notebook, a model card) and that the report puts into
its page. They know nothing of runs: whoever calls them turns genomes into ``LivMark`` and ``Arc``. Routing traces,
plain arrays already, are drawn as they are by ``diagrams.routing``, which stands apart since it loads numpy.
"""

from evodevo.diagrams.axes import Axis
from evodevo.diagrams.bars import Measure, bars_beside, histogram
from evodevo.diagrams.composition import Composition, composition_chart
from evodevo.diagrams.curves import (
    Series,
    TrainingCurve,
    hypervolume_chart,
    line_chart,
    stability_words,
    training_curves,
)
from evodevo.diagrams.front import BaselinePoint, FrontPoint, front_chart
from evodevo.diagrams.genome import Arc, LivMark, backbone_diagram, sharing_groups
from evodevo.diagrams.heat_map import HeatRows, heat_map
from evodevo.diagrams.lineage import LineageNode, ancestors, lineage_chart, lineage_layout
from evodevo.diagrams.strip import StripRow, genome_strip, population_strips, text_strip

__all__ = [
    "Arc",
    "Axis",
    "BaselinePoint",
    "Composition",
    "FrontPoint",
    "HeatRows",
    "LineageNode",
    "LivMark",
    "Measure",
    "Series",
    "StripRow",
    "TrainingCurve",
    "ancestors",
    "backbone_diagram",
    "bars_beside",
    "composition_chart",
    "front_chart",
    "genome_strip",
    "heat_map",
    "histogram",
    "hypervolume_chart",
    "line_chart",
    "lineage_chart",
    "lineage_layout",
    "population_strips",
    "sharing_groups",
    "stability_words",
    "text_strip",
    "training_curves",
]
