"""Files behind a location: on this machine, or in an object store. kfetch-jobs may import it, too.

    locations  pure: what a text means as a location, as Hadoop reads it
    s3, azure, gcs  pure: the settings of Spark's connectors, as the store's client takes them
    settings   pure: one setting among those of Spark
    hdfs       HDFS, with the methods of a store's client
    objects    paths in an object store, with the methods of ``pathlib`` that kfetch needs
    transfer   large objects, written in parts
    versions   files of which one writer makes the next version
    lease      pure: who may write a checkpoint
    lease_holder, processes  takes and renews a lease; who lives, and the end of this process
    permission  lets the holder of a lease allow each plan of a query that it runs
    open       from a location to a path

It never starts a JVM. Decision 115 says why the client is obstore.
"""
