"""What a supervisor tells over HTTP.

address.py    where it listens, and who may ask: pure
app.py        the pages: /metrics
serve.py      the server beside the supervisor's loop
"""
