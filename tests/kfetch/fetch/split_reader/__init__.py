"""Reading splits end to end over a little Kafka: the right rows, once, whatever brokers do."""
