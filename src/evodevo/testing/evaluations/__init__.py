"""Evaluations that train nothing, for tests of executors and searches."""
