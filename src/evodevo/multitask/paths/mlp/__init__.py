"""Paths over vectors and rows of tables: residual multilayer perceptrons."""
