import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.FileInputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.pulsar.admin.cli.PulsarAdminTool;
import picocli.CommandLine;

/**
 * Many commands of pulsar-admin in one process. Its argument is a client.conf. Each line of the standard input is a command, its
 * arguments in Base64 with tabs between them; each is answered by a line of "=", exit code, output and errors in the same way. With
 * "tree" instead of a file it prints all commands with their options.
 */
public class AdminCommands {
    public static void main(String[] given) throws Exception {
        PrintStream answers = System.out;
        Properties properties = new Properties();
        boolean tree = given[0].equals("tree");
        if (!tree) {
            try (FileInputStream file = new FileInputStream(given[0])) {
                properties.load(file);
            }
        }
        PulsarAdminTool tool = new PulsarAdminTool(properties);
        Field field = PulsarAdminTool.class.getDeclaredField("commander");
        field.setAccessible(true);
        CommandLine commands = (CommandLine) field.get(tool);
        if (tree) {
            print("", commands, answers);
        } else {
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                answers.println(run(commands, line.split("\t")));
                answers.flush();
            }
        }
        System.exit(0);
    }

    private static String run(CommandLine commands, String[] encoded) throws Exception {
        String[] arguments = new String[encoded.length];
        for (int i = 0; i < encoded.length; i++) {
            arguments[i] = new String(Base64.getDecoder().decode(encoded[i]), StandardCharsets.UTF_8);
        }
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        ByteArrayOutputStream errors = new ByteArrayOutputStream();
        System.setOut(new PrintStream(output, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(errors, true, StandardCharsets.UTF_8));
        commands.setOut(new PrintWriter(System.out, true));
        commands.setErr(new PrintWriter(System.err, true));
        int code = commands.execute(arguments);
        return "=\t" + code + "\t" + text(output) + "\t" + text(errors);
    }

    private static String text(ByteArrayOutputStream bytes) {
        return Base64.getEncoder().encodeToString(bytes.toByteArray());
    }

    private static void print(String path, CommandLine command, PrintStream out) {
        Map<String, CommandLine> below = new TreeMap<>(command.getSubcommands());
        below.remove("help");
        if (below.isEmpty()) {
            StringBuilder options = new StringBuilder();
            command.getCommandSpec().options().forEach(option -> options.append(' ').append(option.longestName()));
            out.println(path.trim() + "\t" + options.toString().trim());
        }
        below.forEach((name, one) -> print(path + " " + name, one, out));
    }
}
