"""Drawings as SVG strings, made in Python from plain data: no torch, no script, no outside reference.

Every function returns one SVG that stands alone as a file (a notebook, a model card) and that the report puts into
its page. They know nothing of runs or spaces: whoever calls them turns genomes into ``LivMark`` and ``Arc``.
"""

from evodevo.diagrams.axes import Axis
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
from evodevo.diagrams.lineage import LineageNode, ancestors, lineage_chart, lineage_layout
from evodevo.diagrams.strip import StripRow, genome_strip, population_strips, text_strip

__all__ = [
    "Arc",
    "Axis",
    "BaselinePoint",
    "Composition",
    "FrontPoint",
    "LineageNode",
    "LivMark",
    "Series",
    "StripRow",
    "TrainingCurve",
    "ancestors",
    "backbone_diagram",
    "composition_chart",
    "front_chart",
    "genome_strip",
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
