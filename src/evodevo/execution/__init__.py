"""Executors, which run evaluations in this process or in isolated ones. A job is an evaluator's name and bytes."""
