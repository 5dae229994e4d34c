import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Enumeration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerEntry;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;

/**
 * Apache's own client, told what to do by lines on its standard input; each is answered by one line that begins with "ok" or "error".
 *
 *   create DIGEST PASSWORD E W A       -> ok LEDGER          write LEDGER COUNT PREFIX   -> ok LAST       (payload: PREFIX + number)
 *   close LEDGER                       -> ok LAST LENGTH     recover LEDGER DIGEST PASSWORD -> ok LAST LENGTH
 *   read LEDGER DIGEST PASSWORD        -> ok LAST payload,payload,...
 *   delete LEDGER                      -> ok
 */
public class Peer {
    private static final Map<Long, LedgerHandle> open = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        ClientConfiguration configuration = new ClientConfiguration();
        configuration.setMetadataServiceUri(arguments[0]);
        configuration.setAddEntryTimeout(5);
        configuration.setReadEntryTimeout(5);
        try (BookKeeper client = new BookKeeper(configuration)) {
            System.out.println("ok ready");
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                try {
                    System.out.println("ok " + run(client, line.split(" ")));
                } catch (Exception error) {
                    System.out.println("error " + error.getClass().getSimpleName() + " " + error.getMessage());
                }
            }
        }
    }

    private static byte[] password(String word) {
        return word.equals("-") ? new byte[0] : word.getBytes(StandardCharsets.UTF_8);
    }

    private static String run(BookKeeper client, String[] words) throws Exception {
        switch (words[0]) {
            case "create": {
                LedgerHandle handle = client.createLedger(Integer.parseInt(words[3]), Integer.parseInt(words[4]), Integer.parseInt(words[5]),
                    DigestType.valueOf(words[1]), password(words[2]));
                open.put(handle.getId(), handle);
                return Long.toString(handle.getId());
            }
            case "write": {
                LedgerHandle handle = open.get(Long.parseLong(words[1]));
                List<CompletableFuture<Long>> futures = new ArrayList<>();
                for (int number = 0; number < Integer.parseInt(words[2]); number++) {
                    futures.add(handle.appendAsync((words[3] + number).getBytes(StandardCharsets.UTF_8)));
                }
                long last = -1;
                for (CompletableFuture<Long> future : futures) {
                    last = future.get();
                }
                return Long.toString(last);
            }
            case "close": {
                LedgerHandle handle = open.remove(Long.parseLong(words[1]));
                handle.close();
                return handle.getLastAddConfirmed() + " " + handle.getLength();
            }
            case "recover": {
                try (LedgerHandle handle = client.openLedger(Long.parseLong(words[1]), DigestType.valueOf(words[2]), password(words[3]))) {
                    return handle.getLastAddConfirmed() + " " + handle.getLength();
                }
            }
            case "read": {
                try (LedgerHandle handle = client.openLedger(Long.parseLong(words[1]), DigestType.valueOf(words[2]), password(words[3]))) {
                    StringBuilder payloads = new StringBuilder();
                    if (handle.getLastAddConfirmed() >= 0) {
                        Enumeration<LedgerEntry> entries = handle.readEntries(0, handle.getLastAddConfirmed());
                        while (entries.hasMoreElements()) {
                            payloads.append(payloads.length() == 0 ? "" : ",")
                                .append(new String(entries.nextElement().getEntry(), StandardCharsets.UTF_8));
                        }
                    }
                    return handle.getLastAddConfirmed() + " " + payloads;
                }
            }
            case "delete":
                client.deleteLedger(Long.parseLong(words[1]));
                return "";
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }
}
