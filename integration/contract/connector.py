"""Spark's own Kafka connector as an oracle: its options, its planning and its look-ups in the JVM.

A class loader of its own keeps the connector out of the shared session's class path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from integration.benchmarks.peer import connector_jars

_PACKAGE = "org.apache.spark.sql.kafka010"
_RANGE = re.compile(r"KafkaOffsetRange\((\w+)-(\d+),(\d+),(\d+),None\)")

Range = tuple[str, int, int, int]
"""Topic, partition, start, end."""


class Connector:
    """The connector's options, look-ups, ``KafkaOffsetRangeCalculator`` and ``rateLimit``."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm = spark.sparkContext._jvm
        self._gateway = spark.sparkContext._gateway
        jars = [self._jvm.java.io.File(str(jar)).toURI().toURL() for jar in connector_jars()]
        parent = self._jvm.java.lang.Thread.currentThread().getContextClassLoader()
        self._loader = self._jvm.java.net.URLClassLoader(
            self._array(self._jvm.java.net.URL, jars), parent
        )
        self._range = self._class("KafkaOffsetRange").getConstructors()[0]
        partition = self._loader.loadClass("org.apache.kafka.common.TopicPartition")
        self._partition = partition.getConstructors()[0]
        self._json = self._class("JsonUtils$").getField("MODULE$").get(None)

    def ranges(self, ranges: Sequence[Range], options: Mapping[str, int]) -> list[Range]:
        """Its ranges, one task each, with ``minPartitions`` and ``maxRecordsPerPartition``."""
        companion = self._class("KafkaOffsetRangeCalculator$").getField("MODULE$").get(None)
        calculator = companion.apply(self._options(options))
        nowhere = getattr(calculator, "getRanges$default$2")()
        found = calculator.getRanges(self._ranges(ranges), nowhere).mkString(";")
        return [(t, int(p), int(a), int(b)) for t, p, a, b in _RANGE.findall(found)]

    def admitted(self, limit: int, start: list[int], end: list[int]) -> list[int]:
        """Its end offsets at ``maxOffsetsPerTrigger``, partition by partition."""
        kind = self._class("KafkaMicroBatchStream")
        none = self._jvm.java.util.HashMap()
        latest = self._class("LatestOffsetRangeLimit$").getField("MODULE$").get(None)
        given = [None, none, self._options({}), "", latest, True]
        stream = kind.getConstructors()[0].newInstance(self._array(self._object, given))
        method = next(m for m in kind.getDeclaredMethods() if m.getName() == "rateLimit")
        method.setAccessible(True)
        maps = [self._json.partitionOffsets(json.dumps(_offsets(o))) for o in (start, end)]
        found = method.invoke(stream, self._array(self._object, [limit, *maps]))
        offsets = json.loads(self._json.partitionOffsets(found))["t"]
        return [offsets[str(partition)] for partition in range(len(start))]

    def refusal(self, options: Mapping[str, str], *, batch: bool) -> str:
        """What it says to the options of a query, before the query starts; empty if they are good.

        Options that it reads later, such as startingOffsets of a stream, are read too.
        """
        provider = (
            self._class("KafkaSourceProvider")
            .getConstructors()[0]
            .newInstance(self._array(self._object, []))
        )
        kind = "Batch" if batch else "Stream"
        try:
            self._call(provider, f"validate{kind}Options", self._texts(options))
            start = self._limit(options, "starting", earliest=batch)
            if batch:
                end = self._limit(options, "ending", earliest=False)
                if self.compares_bounds:
                    self._call(self._companion(), "checkOffsetLimitValidity", start, end)
        except Py4JJavaError as error:
            return _message(error)
        return ""

    @property
    def compares_bounds(self) -> bool:
        """Whether it compares start and end before the query starts, as of Spark 4.1."""
        methods = self._companion().getClass().getDeclaredMethods()
        return any(method.getName() == "checkOffsetLimitValidity" for method in methods)

    def positions(self, servers: str, topic: str, options: Mapping[str, str]) -> dict[int, int]:
        """The offset at which it starts in each partition of a topic.

        Raises ValueError with its message.
        """
        thread = self._jvm.java.lang.Thread.currentThread()
        before = thread.getContextClassLoader()
        thread.setContextClassLoader(self._loader)  # Kafka's clients load classes with it
        try:
            reader = self._offset_reader(servers, topic)
            limit = self._limit(options, "starting", earliest=False)
            found = self._call(reader, "fetchPartitionOffsets", limit, True)
            reader.close()
        except Py4JJavaError as error:
            raise ValueError(_message(error)) from None
        finally:
            thread.setContextClassLoader(before)
        offsets = json.loads(self._json.partitionOffsets(found))[topic]
        return {int(partition): offset for partition, offset in offsets.items()}

    def _offset_reader(self, servers: str, topic: str) -> Any:
        topics = self._jvm.PythonUtils.toSeq([topic])
        strategy = (
            self._class("SubscribeStrategy")
            .getConstructors()[0]
            .newInstance(self._array(self._object, [topics]))
        )
        client = self._jvm.PythonUtils.toScalaMap({"bootstrap.servers": servers})
        params = self._call(self._companion(), "kafkaParamsForDriver", client)
        retries = {"fetchOffset.numRetries": "1", "fetchOffset.retryIntervalMs": "1"}
        given = [strategy, params, self._texts(retries), "oracle"]
        kind = self._class("KafkaOffsetReaderAdmin").getConstructors()[0]
        return kind.newInstance(self._array(self._object, given))

    def _limit(self, options: Mapping[str, str], kind: str, *, earliest: bool) -> Any:
        default = "Earliest" if earliest else "Latest"
        name = f"{default}OffsetRangeLimit$"
        names = [f"{kind}timestamp", f"{kind}offsetsbytimestamp", f"{kind}offsets"]
        limit = self._class(name).getField("MODULE$").get(None)
        texts = self._texts(options)
        return self._call(self._companion(), "getKafkaOffsetRangeLimit", texts, *names, limit)

    def _companion(self) -> Any:
        return self._class("KafkaSourceProvider$").getField("MODULE$").get(None)

    def _texts(self, options: Mapping[str, str]) -> Any:
        given = self._jvm.PythonUtils.toScalaMap(dict(options))
        package = self._jvm.org.apache.spark.sql.catalyst.util
        return getattr(getattr(package, "CaseInsensitiveMap$"), "MODULE$").apply(given)

    def _call(self, target: Any, name: str, *given: Any) -> Any:
        """Call a method of a target, though it may be private."""
        methods = target.getClass().getDeclaredMethods()
        method = next(m for m in methods if m.getName().split("$$")[-1] == name)
        method.setAccessible(True)
        return method.invoke(target, self._array(self._object, given))

    @property
    def _object(self) -> Any:
        return self._jvm.java.lang.Object

    def _class(self, name: str) -> Any:
        return self._loader.loadClass(f"{_PACKAGE}.{name}")

    def _array(self, kind: Any, values: Sequence[Any]) -> Any:
        array = self._gateway.new_array(kind, len(values))
        for index, value in enumerate(values):
            array[index] = value
        return array

    def _options(self, options: Mapping[str, int]) -> Any:
        texts = self._jvm.java.util.HashMap()
        for name, value in options.items():
            texts.put(name, str(value))
        return self._jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap(texts)

    def _ranges(self, ranges: Sequence[Range]) -> Any:
        made = self._jvm.java.util.ArrayList()
        nowhere = self._jvm.scala.Option.empty()
        for topic, partition, start, end in ranges:
            tp = self._partition.newInstance(self._array(self._object, [topic, partition]))
            made.add(self._range.newInstance(self._array(self._object, [tp, start, end, nowhere])))
        return self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(made).toSeq()


def _offsets(offsets: list[int]) -> dict[str, dict[str, int]]:
    return {"t": {str(partition): offset for partition, offset in enumerate(offsets)}}


def _message(error: Py4JJavaError) -> str:
    cause = error.java_exception
    return str((cause.getCause() or cause).getMessage())
