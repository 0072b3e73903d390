"""PostgreSQL; open ``database`` first."""
