// serve PORT: files of the folder "www", by the JDK's server, which never blocks. fetch URL: prints
// what is there, by the JDK's client, which never blocks either.

import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.Executors;

public class Web {
    public static void main(String[] words) throws Exception {
        if (words[0].equals("serve")) {
            serve(Integer.parseInt(words[1]));
        } else {
            var request = HttpRequest.newBuilder(URI.create(words[1])).build();
            var client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
            System.out.write(client.send(request, BodyHandlers.ofByteArray()).body());
            System.out.flush();
        }
    }

    static void serve(int port) throws Exception {
        var server = HttpServer.create(new InetSocketAddress(port), 0);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.createContext("/", exchange -> {
            byte[] body = Files.readAllBytes(Path.of("www" + exchange.getRequestURI().getPath()));
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.start();
    }
}
