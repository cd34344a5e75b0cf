"""Options: their declarations, and the frozen values that they become.

Each option is declared once, as ``option`` describes: with its name, default, converter and line of
explanation. The files are families: ``subscription``, ``bounds``, ``columns``, ``formats``,
``registry``, ``network``, ``tls``, ``sasl`` and ``oauth``. ``source`` has the rest. ``converters``
turn one text into one value. ``catalogue`` lists all options, and ``kfetch.spark.options`` reads
them. Nothing here connects.

``security`` joins ``tls`` and ``sasl``, and ``secret`` hides a password. ``jaas`` and ``urls`` read
texts of their own.
"""

from kfetch.options.bounds import EARLIEST, LATEST, Ago, Bound, Place
from kfetch.options.network import FetchOptions, NetworkOptions
from kfetch.options.source import SourceOptions
from kfetch.options.subscription import Subscription

__all__ = [
    "EARLIEST",
    "LATEST",
    "Ago",
    "Bound",
    "FetchOptions",
    "NetworkOptions",
    "Place",
    "SourceOptions",
    "Subscription",
]
