"""The executor on a Slurm cluster."""
