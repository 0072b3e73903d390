"""Runs as Python objects: the same verbs as the command line.

from evodevo import evolve, open
run = evolve("backbone.demo")
print(run.front())
"""

from evodevo.growth.run import grow
from evodevo.runs.archive import Archive, Individual, Run
from evodevo.runs.evolve import evolve, resume
from evodevo.runs.train import experiment, train

__all__ = ["Archive", "Individual", "Run", "evolve", "experiment", "grow", "resume", "train"]
