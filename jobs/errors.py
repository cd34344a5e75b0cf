"""Every error that the tools for people raise: one sentence, shown as one line, with an exit code.

    JobsError             exit 1: what was asked for failed
    ├── ConfigError       exit 2: the user's to mend: an option, a variable, a file
    ├── MavenError        a jar cannot be had
    ├── SparkError        Spark does not start, or a job in it failed
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

from typing import ClassVar


class JobsError(Exception):
    """Root of the tree. The text is one sentence: what, where, what to do."""

    exit_code: ClassVar[int] = 1


class ConfigError(JobsError):
    """What the user wrote cannot be used."""

    exit_code = 2


class MavenError(JobsError):
    """A Maven coordinate cannot be resolved to jars."""


class SparkError(JobsError):
    """Spark does not start, or a job in it failed."""


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
