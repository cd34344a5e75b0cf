import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Map;
import org.apache.kafka.clients.Metadata;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.consumer.internals.AutoOffsetResetStrategy;
import org.apache.kafka.clients.consumer.internals.SubscriptionState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.internals.ClusterResourceListeners;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.utils.LogContext;

/**
 * Prints each error code of Kafka: number, name, whether its exception is a RetriableException, and
 * what a consumer's FetchCollector does with it in a partition of a Fetch reply.
 *
 * <p>The collector has no public method for that, so this calls a private one.
 */
public class Reactions {
    static final TopicPartition TP = new TopicPartition("t", 0);
    static final String PACKAGE = "org.apache.kafka.clients.consumer.internals.";
    static final sun.misc.Unsafe UNSAFE = unsafe();

    public static void main(String[] arguments) throws Exception {
        for (Errors error : Errors.values()) {
            if (error == Errors.NONE) continue;
            boolean retriable = error.exception() instanceof RetriableException;
            System.out.println(error.code() + " " + error + " " + retriable + " " + fetch(error));
        }
    }

    static String fetch(Errors error) throws Exception {
        LogContext log = new LogContext();
        SubscriptionState positions = new SubscriptionState(log, AutoOffsetResetStrategy.NONE);
        positions.assignFromUser(java.util.Set.of(TP));
        positions.seek(TP, 5);
        Object collector = UNSAFE.allocateInstance(Class.forName(PACKAGE + "FetchCollector"));
        set(collector, "log", log.logger(Reactions.class));
        set(collector, "subscriptions", positions);
        Class<?> metadata = Class.forName(PACKAGE + "ConsumerMetadata");
        Constructor<?> constructor = metadata.getConstructor(long.class, long.class, long.class,
            boolean.class, boolean.class, SubscriptionState.class, LogContext.class,
            ClusterResourceListeners.class);
        set(collector, "metadata", constructor.newInstance(
            100L, 1000L, 10000L, false, false, positions, log, new ClusterResourceListeners()));
        Object fetched = UNSAFE.allocateInstance(Class.forName(PACKAGE + "CompletedFetch"));
        set(fetched, "partition", TP);
        set(fetched, "nextFetchOffset", 5L);
        Method handle = collector.getClass().getDeclaredMethod(
            "handleInitializeErrors", fetched.getClass(), Errors.class);
        handle.setAccessible(true);
        try {
            handle.invoke(collector, fetched, error);
            return "RETRY";
        } catch (InvocationTargetException raised) {
            return raised.getCause() instanceof OffsetOutOfRangeException ? "REPOSITION" : "FAIL";
        }
    }

    static void set(Object target, String name, Object value) throws Exception {
        Field field = target.getClass().getDeclaredField(name);
        field.setAccessible(true);
        field.set(target, value);
    }

    static sun.misc.Unsafe unsafe() {
        try {
            Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
            field.setAccessible(true);
            return (sun.misc.Unsafe) field.get(null);
        } catch (ReflectiveOperationException absent) {
            throw new IllegalStateException(absent);
        }
    }
}
