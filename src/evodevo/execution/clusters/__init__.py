"""Executors on the nodes of a cluster. Each module is imported when its row of the table is used."""
