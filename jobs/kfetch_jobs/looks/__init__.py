"""Read-only checks of jobs, their checkpoints, clusters and this machine."""
