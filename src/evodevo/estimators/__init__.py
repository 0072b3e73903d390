"""Scikit-learn estimators of the library's networks: fit, predict, predict_proba, in this process, without a store."""

from evodevo.estimators.growing.classifier import GrowingClassifier
from evodevo.estimators.zoo_classifier import ZooClassifier

__all__ = ["GrowingClassifier", "ZooClassifier"]
