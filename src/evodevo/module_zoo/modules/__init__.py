"""Genotypes of modules: graphs, costs, mutations, and the modules built from them."""
