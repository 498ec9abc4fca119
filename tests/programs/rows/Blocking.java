// serve PORT: the file "www/body" to everybody, a thread each. fetch HOST PORT: prints what comes.

import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;

public class Blocking {
    public static void main(String[] words) throws Exception {
        if (words[0].equals("serve")) {
            serve(Integer.parseInt(words[1]));
        } else {
            try (var socket = new Socket(words[1], Integer.parseInt(words[2]))) {
                socket.getInputStream().transferTo(System.out);
            }
            System.out.flush();
        }
    }

    static void serve(int port) throws Exception {
        byte[] body = Files.readAllBytes(Path.of("www/body"));
        var listener = new ServerSocket(port);
        while (true) {
            var socket = listener.accept();
            new Thread(() -> {
                try (socket) {
                    socket.getOutputStream().write(body);
                } catch (java.io.IOException gone) {
                    gone.printStackTrace();
                }
            }).start();
        }
    }
}
