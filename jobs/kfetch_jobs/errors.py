"""Every error that the tools for people raise: one sentence, shown as one line, with an exit code.

    JobsError             exit 1: what was asked for failed
    ├── ConfigError       exit 2: the user's to mend: an option, a variable, a file
    ├── MavenError        a jar cannot be had
    ├── SparkError        Spark does not start, or a job in it failed
    │   ├── RecordsLost       records that the job was to read are gone from Kafka
    │   └── RefusedByBroker   a broker refuses the job's log-in, or what it asks for
    ├── SupervisorError   the supervisor can't run jobs, or can't accept an order
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

The command line prints ``kfetch: <sentence> [CODE]`` and exits with ``exit_code``.
docs/reference/errors.md lists all codes. A traceback is for bugs.
"""

from __future__ import annotations

from typing import Any

from kfetch.errors import KfetchError


class JobsError(KfetchError):
    """The verb could not do what you asked for.

    Read the sentence: it says what to do.
    """

    condition = "JOBS_ERROR"


class ConfigError(JobsError):
    """A file, an option or a variable cannot be used.

    Correct the line that the sentence names; `kfetch validate` lists all mistakes.

    ``mistakes``: all of them.
    """

    condition = "CONFIG_INVALID"
    exit_code = 2

    def __init__(self, *mistakes: str, action: str = "", **where: Any) -> None:
        """``mistakes``: one sentence each, with file and line; ``str`` shows the first."""
        more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
        first = mistakes[0] if mistakes else "the configuration cannot be used"
        super().__init__(f"{first}{more}", action=action, **where)
        self.mistakes = mistakes


class MavenError(JobsError):
    """The jars of a Maven coordinate cannot be downloaded or read.

    Check the coordinate, the network and the repository.
    """

    condition = "JAR_UNAVAILABLE"


class SparkError(JobsError):
    """Spark does not start, or a query in it failed.

    Read the log that the sentence names.
    """

    condition = "SPARK_FAILED"

    @property
    def code_path(self) -> str:
        """The code, a dot, and the code of kfetch's error that ended the query, if one did.

        The latter is ``where["cause_condition"]``.
        """
        cause = self.where.get("cause_condition")
        return f"{self.condition}.{cause}" if cause else self.condition


class RecordsLost(SparkError):
    """Records that the job was to read are gone. The next run would end the same way.

    Move the job past the loss with `kfetch offsets reset`, or set `failOnDataLoss`.
    """

    condition = "RECORDS_LOST"


class RefusedByBroker(SparkError):
    """A broker refuses the job's log-in or its requests. The next run would end the same way.

    Give the job's user the rights that the sentence names.
    """

    condition = "REFUSED_BY_BROKER"


class SupervisorError(JobsError):
    """Jobs cannot be supervised: another supervisor runs, or its database is unusable.

    Stop the other supervisor with `kfetch down`, or do what the sentence says.
    """

    condition = "SUPERVISOR_ERROR"


class Unhealthy(JobsError):
    """A job has failed, waits after a failure, or is beyond the limits of its `health`.

    See `kfetch status` and `kfetch history`.
    """

    condition = "UNHEALTHY"
    exit_code = 3


class DemoError(JobsError):
    """A part of the demo ended, or was not ready in time.

    Run `kfetch demo --keep` and read the logs.
    """

    condition = "DEMO_FAILED"


class BrokerToolError(JobsError):
    """The local Kafka cannot do what you asked for.

    Read the sentence: it says what to do.
    """

    condition = "LOCAL_KAFKA_ERROR"


class JavaError(BrokerToolError):
    """There is no Java 17 or later.

    Install one, or set KFETCH_JAVA or JAVA_HOME.
    """

    condition = "JAVA_MISSING"
    exit_code = 2


class ForeignDirectory(BrokerToolError):
    """The directory holds files that no local Kafka of kfetch wrote. They stay as they are.

    Name another directory with `--dir`.
    """

    condition = "DIRECTORY_FOREIGN"
    exit_code = 2


class StateDamaged(BrokerToolError):
    """The state file of a local Kafka cannot be read.

    Remove the directory, and start Kafka again.
    """

    condition = "STATE_DAMAGED"
    exit_code = 2


class AlreadyRunning(BrokerToolError):
    """The Kafka of this directory is running.

    Use it, or stop it with `kfetch broker stop`.
    """

    condition = "ALREADY_RUNNING"


class NotRunning(BrokerToolError):
    """The directory has no Kafka.

    Start it with `kfetch broker start`.
    """

    condition = "NOT_RUNNING"


class PortTaken(BrokerToolError):
    """Another process listens on a port that a node needs.

    Stop that process, or choose another port.
    """

    condition = "PORT_TAKEN"


class NodeDied(BrokerToolError):
    """A node's process ended before it answered.

    Read the node's log.
    """

    condition = "NODE_DIED"


class NotReady(BrokerToolError):
    """A node runs, but was not ready within the deadline.

    Read the node's log, or wait longer.
    """

    condition = "NOT_READY"
