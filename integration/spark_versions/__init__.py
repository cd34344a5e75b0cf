"""The tests with each supported version of Spark: ``make sparks``.

``environments`` makes an environment for each version, ``features`` says which tests prove which
feature, and ``__main__`` runs them and prints the table.
"""
