"""Every error that the tools for people raise: one sentence, shown as one line, with an exit code.

    JobsError             exit 1: what was asked for failed
    ├── ConfigError       exit 2: the user's to mend: an option, a variable, a file
    ├── MavenError        a jar cannot be had
    ├── SparkError        Spark does not start, or a job in it failed
    │   ├── RecordsLost       records that the job was to read are gone from Kafka
    │   └── RefusedByBroker   a broker refuses the job's log-in, or what it asks for
    ├── SupervisorError   jobs can't be supervised, or not be told what to do
    ├── Unhealthy         exit 3: a job is not as it should be
    ├── DemoError         the demo cannot go on
    └── BrokerToolError   the local Kafka cannot be started, reached or stopped
        ├── JavaError         no Java, or one too old (exit 2)
        ├── ForeignDirectory  the directory holds something that is not a local Kafka's (exit 2)
        ├── StateDamaged      the state file cannot be read (exit 2)
        ├── AlreadyRunning    the directory's Kafka is running
        ├── NotRunning        there is no Kafka in the directory
        ├── PortTaken         another process listens on the port
        ├── NodeDied          a node ended before it was ready
        └── NotReady          the deadline passed

The command line prints ``kfetch: <sentence>`` and exits with ``exit_code``.
A traceback is for bugs.
"""

from __future__ import annotations

from kfetch.errors import KfetchError


class JobsError(KfetchError):
    """Root of the tree. The text is one sentence: what, where, what to do."""


class ConfigError(JobsError):
    """What the user wrote cannot be used. ``mistakes`` has all that were found."""

    exit_code = 2

    def __init__(self, *mistakes: str) -> None:
        more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
        super().__init__(f"{mistakes[0]}{more}")
        self.mistakes = mistakes


class MavenError(JobsError):
    """A Maven coordinate cannot be resolved to jars."""


class SparkError(JobsError):
    """Spark does not start, or a job in it failed."""


class RecordsLost(SparkError):
    """Records that the job was to read are gone. The next run would end the same way."""


class RefusedByBroker(SparkError):
    """A broker refuses who asks, or what. The next run would end the same way."""


class SupervisorError(JobsError):
    """Jobs can't be supervised: another supervisor does it, or none does."""


class Unhealthy(JobsError):
    """A job has failed, waits after a failure, or is beyond the limits of its ``health``."""

    exit_code = 3


class DemoError(JobsError):
    """A part of the demo ended, or did not get ready in time."""


class BrokerToolError(JobsError):
    """The local Kafka cannot do what was asked."""


class JavaError(BrokerToolError):
    """There is no Java 17 or later."""

    exit_code = 2


class ForeignDirectory(BrokerToolError):
    """A directory with content that no local Kafka of ours wrote. It is never touched."""

    exit_code = 2


class StateDamaged(BrokerToolError):
    """The state file of a local Kafka cannot be read."""

    exit_code = 2


class AlreadyRunning(BrokerToolError):
    """The Kafka of this directory is running."""


class NotRunning(BrokerToolError):
    """The directory has no Kafka, or not this node."""


class PortTaken(BrokerToolError):
    """Another process listens on a port that a node needs."""


class NodeDied(BrokerToolError):
    """A node's process ended before it answered."""


class NotReady(BrokerToolError):
    """A node lives, but did not get ready within the deadline."""
