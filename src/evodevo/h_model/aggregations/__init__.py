"""Kinds of aggregation of the H-Model: how messages of several layers become the input of one."""
