"""What Spark calls: the data source, its readers, the columns as Spark's types, the listener.

``source`` has the classes of a stream, and ``batch`` the reader of a batch read. ``versions`` fits
both to older versions of Spark. With ``release``, only the same kfetch loads what Spark pickles.
``options`` parses all options of a query, and ``schema`` chooses its columns. A task runs
``worker``. ``listener`` reports the lag, which ``lag`` reads from Spark's progress.
"""
