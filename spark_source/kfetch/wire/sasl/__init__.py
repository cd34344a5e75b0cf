"""Log-ins by SASL: a handshake and the mechanism's exchange, on a connection that is just open.

``login`` talks to the broker, and chooses the exchange of the mechanism. Exchanges are generators
without I/O: they yield bytes for the broker, and get its bytes. They are in ``mechanisms``,
``aws`` and ``kerberos``. ``tokens``, ``endpoint``, ``aws`` and
``kerberos`` ask other services, each up to a deadline. ``shared`` keeps what they return.

A new mechanism also has its settings in ``kfetch.options.sasl``.

The mechanisms are kfetch's own. Those of kafka-python 3.0.12 (``kafka.net.sasl``) lack parts: SCRAM
escapes no user name, checks no minimum of iterations, and fails with KeyError if the broker refuses
the password. GSSAPI takes no keytab, and AWS_MSK_IAM takes neither a profile nor a role.
"""
