"""Looking at jobs, their checkpoints, clusters and this machine: nothing here changes anything."""
