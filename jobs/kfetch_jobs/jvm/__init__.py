"""Programs of the JVM: where Java is, jars from Maven, and a Spark session with Delta."""
