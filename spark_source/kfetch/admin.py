"""The only door for tools: look-ups, checkpoints, agents and option parsing.

Code outside of kfetch imports this module, ``kfetch.errors`` and ``kfetch.model``, nothing else.
"""
