// Writes what tests read back: usage: java -cp <Kafka's jars> Producer.java BOOTSTRAP TOPIC
// Partitions 0 to 4: an idempotent producer in each codec. Partition 5: transactions of two
// producers, committed, aborted and one left open.

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.StringSerializer;

public class Producer {
    static String bootstrap, topic;
    static int sent;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        topic = args[1];
        List<String> codecs = List.of("none", "gzip", "snappy", "lz4", "zstd");
        for (int partition = 0; partition < codecs.size(); partition++)
            try (var producer = open(codecs.get(partition), null)) {
                for (int i = 0; i < 500; i++) send(producer, partition);
            }
        try (var one = open("lz4", "one"); var two = open("none", "two")) {
            one.initTransactions();
            two.initTransactions();
            transaction(one, 50, true);
            transaction(one, 50, false);
            one.beginTransaction();
            two.beginTransaction();
            for (int i = 0; i < 40; i++) {
                send(one, 5);
                send(two, 5);
                if (i % 7 == 0) { one.flush(); two.flush(); }
            }
            two.flush();
            two.abortTransaction();
            one.commitTransaction();
            transaction(two, 30, true);
            transaction(two, 30, false);
        }
        // Its last transaction stays open: nobody ends it before the broker's timeout.
        var open = open("snappy", "open");
        open.initTransactions();
        open.beginTransaction();
        for (int i = 0; i < 20; i++) send(open, 5);
        open.flush();
        System.out.println("sent " + sent);
        Runtime.getRuntime().halt(0);
    }

    static KafkaProducer<String, String> open(String codec, String id) {
        Properties given = new Properties();
        given.put("bootstrap.servers", bootstrap);
        given.put("compression.type", codec);
        given.put("enable.idempotence", "true");
        given.put("linger.ms", "5");
        if (id != null) {
            given.put("transactional.id", topic + "-" + id);
            given.put("transaction.timeout.ms", "600000");
        }
        return new KafkaProducer<>(given, new StringSerializer(), new StringSerializer());
    }

    static void transaction(KafkaProducer<String, String> producer, int records, boolean commit) {
        producer.beginTransaction();
        for (int i = 0; i < records; i++) send(producer, 5);
        producer.flush();  // an abort would drop what has not been sent
        if (commit) producer.commitTransaction(); else producer.abortTransaction();
    }

    static void send(KafkaProducer<String, String> producer, int partition) {
        int n = sent++;
        String key = n % 3 == 0 ? null : "key-" + n % 11;
        String value = n % 17 == 0 ? null : "value-" + n + "-" + "größe".repeat(n % 9);
        var record = new ProducerRecord<>(topic, partition, 1_700_000_000_000L + n, key, value);
        for (int h = 0; h < n % 3; h++)
            record.headers().add(new RecordHeader("h" + h, ("v" + n).getBytes(StandardCharsets.UTF_8)));
        producer.send(record, (metadata, failed) -> {
            if (failed != null && !failed.getMessage().contains("aborted")) failed.printStackTrace();
        });
    }
}
