"""Schema registries: the headers of values, the client, and what decoders of such values share.

``client`` asks registries, and ``schemas`` is what decoders see of them. ``headers`` reads the
headers of values, and ``framing`` is what their decoders share.
"""
