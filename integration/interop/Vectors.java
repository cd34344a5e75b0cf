// Record batches as Apache Kafka's own classes write and read them: what tests/vectors/ was made with.
// Usage: java -cp <kafka-clients and its codecs> Vectors.java DIRECTORY
// For each case: NAME.bin, the bytes, and NAME.jsonl, the rows that Java reads from them.

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.utils.BufferSupplier;

public class Vectors {
    static final long T0 = 1_700_000_000_000L;
    static Path target;

    public static void main(String[] args) throws Exception {
        target = Path.of(args[0]);
        for (byte magic = 0; magic <= 2; magic++)
            for (CompressionType type : CompressionType.values())
                if (type != CompressionType.ZSTD || magic == 2)
                    for (TimestampType time : List.of(TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME))
                        if (magic > 0 || time == TimestampType.CREATE_TIME) {
                            String name = "v" + magic + "-" + type.name + (time == TimestampType.CREATE_TIME ? "" : "-append");
                            MemoryRecords records = set(magic, type, time, 1000);
                            write(name, records);
                            write(name + "-compacted", compacted(records));
                        }
        write("mixed", joined(
            set((byte) 0, CompressionType.GZIP, TimestampType.CREATE_TIME, 10),
            set((byte) 0, CompressionType.NONE, TimestampType.CREATE_TIME, 40),
            set((byte) 1, CompressionType.LZ4, TimestampType.LOG_APPEND_TIME, 70),
            set((byte) 1, CompressionType.NONE, TimestampType.CREATE_TIME, 100),
            set((byte) 2, CompressionType.ZSTD, TimestampType.CREATE_TIME, 130)));
        write("v2-idempotent", producer(2000, 77L, (short) 3, 5, false));
        write("v2-transactional", joined(
            producer(10, 77L, (short) 3, 0, true),
            MemoryRecords.withEndTransactionMarker(30, T0, 7, 77L, (short) 3,
                new EndTransactionMarker(ControlRecordType.COMMIT, 4)),
            producer(31, 78L, (short) 0, 0, true),
            MemoryRecords.withEndTransactionMarker(60, T0, 7, 78L, (short) 0,
                new EndTransactionMarker(ControlRecordType.ABORT, 4)),
            set((byte) 2, CompressionType.NONE, TimestampType.CREATE_TIME, 61)));
        ByteBuffer empty = ByteBuffer.allocate(61);
        DefaultRecordBatch.writeEmptyHeader(empty, (byte) 2, 5L, (short) 1, 9, 100, 120, 6,
            TimestampType.CREATE_TIME, T0, true, false);
        empty.flip();
        write("v2-empty", joined(set((byte) 2, CompressionType.NONE, TimestampType.CREATE_TIME, 60),
            MemoryRecords.readableRecords(empty), set((byte) 2, CompressionType.LZ4, TimestampType.CREATE_TIME, 121)));
    }

    static MemoryRecords set(byte magic, CompressionType type, TimestampType time, long base) {
        return build(magic, type, time, base, -1, (short) -1, -1, false);
    }

    static MemoryRecords producer(long base, long id, short epoch, int sequence, boolean transactional) {
        return build((byte) 2, CompressionType.SNAPPY, TimestampType.CREATE_TIME, base, id, epoch, sequence, transactional);
    }

    static MemoryRecords build(byte magic, CompressionType type, TimestampType time, long base,
                               long id, short epoch, int sequence, boolean transactional) {
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(ByteBuffer.allocate(1 << 16), magic,
            Compression.of(type).build(), time, base, T0 + 500, id, epoch, sequence, transactional, false, 7, 1 << 16);
        for (int i = 0; i < 12; i++) {
            byte[] key = i % 3 == 0 ? null : i % 3 == 1 ? new byte[0] : ("key " + i).getBytes(StandardCharsets.UTF_8);
            byte[] value = i % 7 == 6 ? null : "value ".repeat(i % 5).getBytes(StandardCharsets.UTF_8);
            long stamp = magic == 0 ? RecordBatch.NO_TIMESTAMP : T0 + i * 37 % 100 - 50;
            Header[] headers = new Header[magic == 2 ? i % 3 : 0];
            for (int h = 0; h < headers.length; h++)
                headers[h] = new RecordHeader("naïve " + h, h == 1 ? null : new byte[] {1, 2, (byte) i});
            builder.appendWithOffset(base + i, stamp, key, value, headers);
        }
        return builder.build();
    }

    static MemoryRecords compacted(MemoryRecords records) {
        ByteBuffer out = ByteBuffer.allocate(1 << 17);
        records.filterTo(new MemoryRecords.RecordFilter(T0 - 1000, 50) {
            protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
                return new BatchRetentionResult(
                    batch.magic() < 2 ? BatchRetention.DELETE_EMPTY : BatchRetention.RETAIN_EMPTY, false);
            }
            protected boolean shouldRetainRecord(RecordBatch batch, Record record) {
                return record.offset() % 4 == 1;
            }
        }, out, BufferSupplier.NO_CACHING);
        out.flip();
        return MemoryRecords.readableRecords(out);
    }

    static MemoryRecords joined(MemoryRecords... parts) {
        ByteBuffer out = ByteBuffer.allocate(1 << 18);
        for (MemoryRecords part : parts) out.put(part.buffer().duplicate());
        out.flip();
        return MemoryRecords.readableRecords(out);
    }

    static void write(String name, MemoryRecords records) throws Exception {
        ByteBuffer buffer = records.buffer().duplicate();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        Files.write(target.resolve(name + ".bin"), bytes);
        List<String> lines = new ArrayList<>();
        for (RecordBatch batch : records.batches()) {
            if (batch.isControlBatch()) continue;
            for (Record record : batch) {
                record.ensureValid();
                lines.add(line(batch, record));
            }
        }
        Files.write(target.resolve(name + ".jsonl"), lines);
    }

    static String line(RecordBatch batch, Record record) {
        StringBuilder headers = new StringBuilder();
        for (Header header : record.headers())
            headers.append(headers.length() == 0 ? "" : ", ")
                .append("[\"").append(header.key()).append("\", ").append(hex(ByteBuffer.wrap(
                    header.value() == null ? new byte[0] : header.value()), header.value() != null)).append("]");
        return String.format("{\"offset\": %d, \"timestamp\": %d, \"type\": %d, \"epoch\": %d, \"key\": %s, \"value\": %s, \"headers\": [%s]}",
            record.offset(), record.timestamp(), batch.timestampType().id, batch.partitionLeaderEpoch(),
            hex(record.key(), record.hasKey()), hex(record.value(), record.hasValue()), headers);
    }

    static String hex(ByteBuffer buffer, boolean present) {
        if (!present) return "null";
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return "\"" + HexFormat.of().formatHex(bytes) + "\"";
    }
}
