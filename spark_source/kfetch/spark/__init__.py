"""What Spark calls: the data source, its readers, the columns as Spark's types, the listener."""
