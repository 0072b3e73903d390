"""The task ``multitask``: samples of another task with one class as answer, for agents of multitask systems."""
