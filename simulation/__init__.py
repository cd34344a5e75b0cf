"""Runs the product in one thread, in virtual time, from one seed: rare orders, by the million.

world.py    one simulation of a query: a cluster, executors, producers, and what happens to them
scenario.py the options and the events that a seed draws; scenario_file.py reads them from a file
chaos.py    what goes wrong with processes and clocks
planted.py  faults put in on purpose, which a run must find; the folders have their own
parts.py    the parts that can be simulated: source, straight, executor, jobs, leases
kernel/     threads as greenlets, virtual time, stand-ins for the modules that wait
cluster/    a model of a Kafka cluster, and what may happen to it
network/    connections of the product to the model
machine/    the operating system of an executor: processes, files, sockets
spark/      what Spark does with a source: plans, tasks, checkpoint, restarts
history/    what must hold after each step
straight/   tasks that write a Delta table's files, and the driver that commits them
jobs/       the supervisor, runs, moves of offsets, dead letters beside rows
leases/     hosts that want to write one checkpoint
"""
