import java.nio.charset.StandardCharsets;
import java.util.HexFormat;

/** Prints the text of each argument's bytes, as Java's String has it. Both in hexadecimal. */
public class Texts {
    public static void main(String[] arguments) {
        for (String bytes : arguments) {
            String text = new String(HexFormat.of().parseHex(bytes), StandardCharsets.UTF_8);
            byte[] units = text.getBytes(StandardCharsets.UTF_16BE);
            System.out.println(HexFormat.of().formatHex(units));
        }
    }
}
