import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** HDFS with one node in a directory, until the input ends. Prints its URI. */
class MiniDfs {
    public static void main(String[] arguments) throws Exception {
        var settings = new Configuration();
        settings.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, arguments[0]);
        try (var cluster = new MiniDFSCluster.Builder(settings).numDataNodes(1).build()) {
            cluster.waitActive();
            System.out.println(cluster.getURI());
            System.in.read();
        }
    }
}
