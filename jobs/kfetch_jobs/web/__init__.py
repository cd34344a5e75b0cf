"""The supervisor's HTTP server: a page for people, and /metrics for Prometheus.

address.py          the address to listen on, and which requests are refused: pure
serve.py            the server, in a thread beside the supervisor's loop
app.py              the application: its routes and error pages
guard.py            checks before every request, and security headers
login.py forms.py   cookies, and forms
pages.py html.py    requests for pages, and their templates
snapshot.py         the state of all jobs at one moment
job_list.py         which jobs the first page shows, and in which order
template_values.py  the values for the templates
job_status.py curve.py drawing.py units.py   how a page shows jobs, times and numbers: pure
"""
