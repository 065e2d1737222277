/* java.java - cells of java, by the JShell API of a JDK, 11 or later; started as a single file of
 * source code. The cells run in this very process. docs/internals/execd.md has the protocol. */

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BiConsumer;
import java.util.stream.Collectors;
import jdk.jshell.DeclarationSnippet;
import jdk.jshell.Diag;
import jdk.jshell.EvalException;
import jdk.jshell.JShell;
import jdk.jshell.JShellException;
import jdk.jshell.Snippet;
import jdk.jshell.SnippetEvent;
import jdk.jshell.SourceCodeAnalysis;
import jdk.jshell.SourceCodeAnalysis.Completeness;
import jdk.jshell.SourceCodeAnalysis.CompletionInfo;
import jdk.jshell.UnresolvedReferenceException;

public class Driver {
    private static final int REQUESTS = 3, EVENTS = 4;
    private static final int STOP_AGAIN_MS = 50;
    /** What the jshell program imports, too. */
    private static final String[] PACKAGES = {
        "java.io", "java.math", "java.net", "java.nio.file", "java.util", "java.util.concurrent",
        "java.util.function", "java.util.prefs", "java.util.regex", "java.util.stream",
    };
    /** Cells see nothing of this class; the one map both share is that of properties. */
    private static final String DISPLAY = "execd.display";
    private static final String DISPLAY_METHOD =
        "@SuppressWarnings(\"unchecked\") void display(String type, String data) {"
        + " ((java.util.function.BiConsumer<String, String>) System.getProperties().get(\""
        + DISPLAY + "\")).accept(type, data); }";

    /** Names of errors, those of the IJava kernel: programs compare them. What a cell throws is an
     * EvalException there, whatever its class; the class is in the traceback. */
    private static final String REJECTED = "CompilationException",
        INCOMPLETE = "IncompleteSourceException", INTERRUPTED = "EvaluationInterruptedException";

    private final OutputStream events;
    private final JShell shell;
    private final SourceCodeAnalysis analysis;
    private volatile int cell; // the number of the one that runs, or 0
    private volatile int stopped; // the number of the last one that was interrupted

    private Driver(OutputStream events) {
        this.events = events;
        shell = JShell.builder().executionEngine("local").build();
        analysis = shell.sourceCodeAnalysis();
    }

    public static void main(String[] args) throws Exception {
        InputStream requests = new FileInputStream(descriptor(REQUESTS));
        Driver driver = new Driver(new FileOutputStream(descriptor(EVENTS)));

        driver.prepareStreams();
        driver.prepareShell();
        driver.watchInterrupts();
        driver.send("{\"type\":\"ready\"}");
        driver.serve(new BufferedReader(new InputStreamReader(requests, StandardCharsets.UTF_8)));
        Runtime.getRuntime().halt(0);
    }

    /** By its number: opening /dev/fd would need permissions on the pipe, which another user made. */
    private static FileDescriptor descriptor(int number) throws ReflectiveOperationException {
        Constructor<FileDescriptor> make = FileDescriptor.class.getDeclaredConstructor(int.class);

        make.setAccessible(true);
        return make.newInstance(number);
    }

    /* --- what cells find --- */

    /** Output leaves at once, in UTF-8 whatever the locale is; input is refused. */
    private void prepareStreams() throws IOException {
        System.setOut(new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8"));
        System.setErr(new PrintStream(new FileOutputStream(FileDescriptor.err), true, "UTF-8"));
        System.setIn(new InputStream() {
            @Override
            public int read() {
                throw new UnsupportedOperationException(
                    "a cell has no standard input: pass what it needs as code or files");
            }
        });
    }

    /** The last line is of no use but that the first cell finds the compiler warm. */
    private void prepareShell() {
        String path = System.getenv("CLASSPATH");
        BiConsumer<String, String> display = this::display;

        if (path != null && !path.isEmpty())
            shell.addToClasspath(path);
        for (String name : PACKAGES)
            shell.eval("import " + name + ".*;");
        System.getProperties().put(DISPLAY, display);
        shell.eval(DISPLAY_METHOD);
        shell.eval("{ }");
    }

    private synchronized void display(String type, String data) {
        String plain = type.equals("text/plain") ? "" : ",\"text/plain\":" + quote("<" + type + ">");
        boolean json = type.equals("application/json") || type.endsWith("+json");

        send("{\"type\":\"display\",\"id\":\"\",\"update\":false,\"data\":{" + quote(type) + ":"
             + (json ? data.replace('\n', ' ') : quote(data)) + plain + "}}");
    }

    /* --- interrupts --- */

    /** By reflection: a compiler warns of sun.misc.Signal, and there is no way to tell it not to. */
    private void watchInterrupts() throws ReflectiveOperationException {
        Class<?> signal = Class.forName("sun.misc.Signal");
        Class<?> handler = Class.forName("sun.misc.SignalHandler");
        Object ours = Proxy.newProxyInstance(Driver.class.getClassLoader(), new Class<?>[] {handler},
            (proxy, method, args) -> {
                if (method.getName().equals("handle"))
                    interrupt();
                return null;
            });

        signal.getMethod("handle", signal, handler)
            .invoke(null, signal.getConstructor(String.class).newInstance("INT"), ours);
    }

    /** Until it helped: a cell that is being compiled does not run yet, and cannot be stopped. */
    private void interrupt() throws InterruptedException {
        int number = cell;

        if (number == 0)
            return;
        stopped = number;
        while (cell == number) {
            wakeCell();
            shell.stop();
            Thread.sleep(STOP_AGAIN_MS);
        }
    }

    /** stop() ends what computes, but in some releases not what waits. */
    private void wakeCell() {
        for (Thread thread : Thread.getAllStackTraces().keySet()) {
            ThreadGroup group = thread.getThreadGroup();

            if (group != null && group.getName().startsWith("JShell process local"))
                thread.interrupt();
        }
    }

    /* --- cells --- */

    private void serve(BufferedReader requests) throws IOException {
        int number = 0;

        for (String line; (line = requests.readLine()) != null;) {
            String id = member(line, "id");

            cell = ++number;
            send("{\"type\":\"begin\",\"id\":" + quote(id) + "}");
            String outcome = run(member(line, "code"), number);
            cell = 0;
            awaitEnd();
            if (stopped == number)
                outcome = error(INTERRUPTED, "the cell was interrupted",
                                List.of(INTERRUPTED + ": the cell was interrupted"));
            if (outcome != null)
                send(outcome);
            send("{\"type\":\"done\",\"id\":" + quote(id) + "}");
        }
    }

    /** After System.exit() the shell comes back, but the cell did not: then this does not, either. */
    private static void awaitEnd() {
        Thread hook = new Thread();

        try {
            Runtime.getRuntime().addShutdownHook(hook);
            Runtime.getRuntime().removeShutdownHook(hook);
        } catch (IllegalStateException ending) {
            LockSupport.park();
        }
    }

    /** The event it ends with, or null: the value of the last snippet, or what went wrong first. */
    private String run(String code, int number) {
        List<Snippet> undefined = new ArrayList<>();
        String outcome = null;
        String rest = code;

        while (!rest.isBlank() && stopped != number) {
            CompletionInfo info = analysis.analyzeCompletion(rest);

            if (info.completeness() == Completeness.EMPTY)
                break;
            String source = info.source() == null ? rest : info.source();
            int line = lines(code.substring(0, code.length() - rest.length()));

            outcome = null;
            for (SnippetEvent event : shell.eval(source)) {
                if (event.causeSnippet() != null)
                    continue; // of an earlier one, which this one changes
                String failure = failureOf(event, info.completeness(), line);

                if (failure != null)
                    return failure;
                if (event.status() == Snippet.Status.RECOVERABLE_NOT_DEFINED)
                    undefined.add(event.snippet());
                outcome = resultOf(event);
            }
            rest = info.source() == null || info.remaining() == null ? "" : info.remaining();
        }
        for (Snippet snippet : undefined) // unless a later declaration of this cell defined it
            if (shell.status(snippet) == Snippet.Status.RECOVERABLE_NOT_DEFINED)
                return error(REJECTED, unresolved(snippet), List.of(snippet.source().strip()));
        return outcome;
    }

    private static String resultOf(SnippetEvent event) {
        Snippet snippet = event.snippet();
        boolean expression = snippet.kind() == Snippet.Kind.EXPRESSION
            || snippet.subKind() == Snippet.SubKind.TEMP_VAR_EXPRESSION_SUBKIND;

        if (!expression || event.value() == null || event.value().isEmpty())
            return null;
        return "{\"type\":\"result\",\"data\":{\"text/plain\":" + quote(event.value()) + "}}";
    }

    private static int lines(String text) {
        return (int) text.chars().filter(c -> c == '\n').count();
    }

    /* --- what went wrong --- */

    private String failureOf(SnippetEvent event, Completeness completeness, int line) {
        if (event.status() == Snippet.Status.REJECTED)
            return rejection(completeness.isComplete() ? REJECTED : INCOMPLETE, event.snippet(),
                             line);
        if (event.exception() != null)
            return thrown(event.exception());
        return null;
    }

    /** As a compiler tells it: place, sentence, the line and where in it. */
    private String rejection(String name, Snippet snippet, int line) {
        List<Diag> errors = shell.diagnostics(snippet).filter(Diag::isError)
            .collect(Collectors.toList());
        List<String> trace = new ArrayList<>();
        String source = snippet.source();

        for (Diag diag : errors) {
            int at = (int) Math.max(0, Math.min(diag.getPosition(), source.length()));
            int start = source.lastIndexOf('\n', at - 1) + 1;
            int end = source.indexOf('\n', at) < 0 ? source.length() : source.indexOf('\n', at);

            trace.add("line " + (line + lines(source.substring(0, at)) + 1) + ": error:");
            trace.addAll(sentences(diag));
            trace.add(source.substring(start, Math.max(start, end)));
            trace.add(" ".repeat(at - start) + "^");
        }
        String first = errors.isEmpty() ? "the cell cannot be compiled"
                                        : String.join("\n", sentences(errors.get(0)));
        return error(name, first, trace);
    }

    /** Without the class that JShell puts around everything. */
    private static List<String> sentences(Diag diag) {
        return diag.getMessage(Locale.ENGLISH).lines()
            .filter(line -> !line.strip().equals("location: class")).collect(Collectors.toList());
    }

    private String unresolved(Snippet snippet) {
        return "it uses what is not defined yet: "
            + shell.unresolvedDependencies((DeclarationSnippet) snippet)
                .collect(Collectors.joining(", "));
    }

    private String thrown(JShellException exception) {
        List<String> trace = new ArrayList<>();
        String value = exception instanceof UnresolvedReferenceException
            ? unresolved(((UnresolvedReferenceException) exception).getSnippet())
            : exception.getMessage();
        String thrown = classOf(exception);

        trace.add(value == null ? thrown : thrown + ": " + value);
        addFrames(exception, trace);
        return error(exception.getClass().getSimpleName(), value == null ? "" : value, trace);
    }

    /** Of what the cell threw, when JShell wraps it in an exception of its own. */
    private static String classOf(Throwable exception) {
        return exception instanceof EvalException
            ? ((EvalException) exception).getExceptionClassName() : exception.getClass().getName();
    }

    /** Frames of snippets are what JShell made of them, "#12:3" for line 3 of the twelfth. */
    private static void addFrames(Throwable exception, List<String> trace) {
        for (StackTraceElement frame : exception.getStackTrace()) {
            String name = frame.getClassName();

            if (name.startsWith("jdk.jshell.") || name.startsWith("Driver$"))
                continue;
            trace.add("    at " + (name.isEmpty() ? "" : name + "." + frame.getMethodName())
                      + "(" + frame.getFileName() + ":" + frame.getLineNumber() + ")");
        }
        Throwable cause = exception.getCause();

        if (cause != null && trace.size() < 200) {
            trace.add("Caused by: " + classOf(cause) + ": " + cause.getMessage());
            addFrames(cause, trace);
        }
    }

    private static String error(String name, String value, List<String> trace) {
        return "{\"type\":\"error\",\"ename\":" + quote(name) + ",\"evalue\":" + quote(value)
            + ",\"traceback\":["
            + trace.stream().map(Driver::quote).collect(Collectors.joining(",")) + "]}";
    }

    /* --- JSON --- */

    private synchronized void send(String event) {
        System.out.flush();
        System.err.flush();
        try {
            events.write((event + "\n").getBytes(StandardCharsets.UTF_8));
        } catch (IOException e) {
            Runtime.getRuntime().halt(1); // execd is gone
        }
    }

    private static String quote(String text) {
        StringBuilder out = new StringBuilder("\"");

        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\')
                out.append('\\').append(c);
            else if (c < ' ' || Character.isSurrogate(c))
                out.append(String.format("\\u%04x", (int) c));
            else
                out.append(c);
        }
        return out.append('"').toString();
    }

    /** A string of a request. execd wrote it: strings, one number, nothing nested. */
    private static String member(String object, String name) {
        for (int at = object.indexOf('"'); at >= 0; at = object.indexOf('"', at)) {
            StringBuilder key = new StringBuilder();

            at = object.indexOf(':', unquote(object, at, key)) + 1;
            while (object.charAt(at) == ' ')
                at++;
            if (object.charAt(at) != '"')
                continue; // a number; the next quote opens the next name
            StringBuilder value = new StringBuilder();

            at = unquote(object, at, value);
            if (key.toString().equals(name))
                return value.toString();
        }
        return "";
    }

    /** Appends the string whose opening quote is at `at`; returns what comes after its closing one. */
    private static int unquote(String json, int at, StringBuilder out) {
        for (at++; json.charAt(at) != '"'; at++) {
            char c = json.charAt(at);

            if (c == '\\')
                c = json.charAt(++at);
            else {
                out.append(c);
                continue;
            }
            int plain = "bfnrt".indexOf(c);

            if (c == 'u') {
                out.append((char) Integer.parseInt(json.substring(at + 1, at + 5), 16));
                at += 4;
            } else {
                out.append(plain < 0 ? c : "\b\f\n\r\t".charAt(plain));
            }
        }
        return at + 1;
    }
}
