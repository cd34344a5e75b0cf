"""Options: from the text that a user wrote to one frozen value, or one clear error.

Each option is declared once, as ``option`` describes: with its name, default, converter and line of
explanation. The files are families: ``subscription``, ``bounds``, ``columns``, ``formats``,
``registry``, ``network``, ``tls``, ``sasl`` and ``oauth``. ``values`` has the rest. ``converters``
turn one text into one value. ``catalogue`` lists all options, and ``parsing`` reads them. Nothing
here connects.
"""

from kfetch.options.bounds import EARLIEST, LATEST, Ago, Bound, Place
from kfetch.options.formats import AvroColumn, JsonColumn, ProtobufColumn
from kfetch.options.network import FetchOptions, NetworkOptions
from kfetch.options.parsing import parse
from kfetch.options.subscription import Subscription
from kfetch.options.values import SourceOptions

__all__ = [
    "EARLIEST",
    "LATEST",
    "Ago",
    "AvroColumn",
    "Bound",
    "FetchOptions",
    "JsonColumn",
    "NetworkOptions",
    "Place",
    "ProtobufColumn",
    "SourceOptions",
    "Subscription",
    "parse",
]
