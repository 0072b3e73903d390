"""Networks whose layers have a fixed order, and ensembles of them."""
