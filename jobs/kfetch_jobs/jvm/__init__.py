"""Programs of the JVM: where Java is, jars from Maven, and a Spark session with Delta.

java.py        finds Java
maven.py       downloads jars
properties.py  gives Spark its settings in a file
spark.py       a Spark session with Delta, local or on a cluster
"""
