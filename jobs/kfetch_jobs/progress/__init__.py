"""What jobs wrote about their micro-batches: ``history`` is one file, ``follow`` reads on."""
