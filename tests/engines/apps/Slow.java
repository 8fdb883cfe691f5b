/** Waits to be stopped; its shutdown hook then takes as many seconds as it is told. */
public class Slow {
    public static void main(String[] args) throws Exception {
        long seconds = Long.parseLong(args[0]);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> flush(seconds), "flush-to-disk"));
        System.out.println("ready");
        Thread.sleep(600_000);
    }

    private static void flush(long seconds) {
        System.out.println("flushing");
        try {
            Thread.sleep(seconds * 1000);
        } catch (InterruptedException e) {
            System.out.println("interrupted");
        }
    }
}
