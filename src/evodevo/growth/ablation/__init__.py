"""The ablation study of Architect Thyself: its rows, its run, its table."""
