package jenkinsfile

import groovy.transform.CompileStatic

/** One build: its settings, its state, and the context of the running thread. */
@CompileStatic
class Build {
    final Settings settings
    final Trace trace = new Trace()
    final File workdir
    final File source
    final Nodes nodes
    final Locks locks
    final CredentialStore credentials
    final Map<String, String> environment
    final Map<String, Object> params = [:]
    /** The parameters that are variables too: all but those of which build 1 only learns. */
    final Set<String> exported = []
    final Console console
    final Set<Long> milestones = []
    final Set<String> replacedTimeouts = Collections.synchronizedSet(new HashSet<String>())
    String result
    String description
    String displayName
    boolean failFast
    boolean skipAfterUnstable
    boolean skipCheckout
    String checkoutFolder
    PipelineScript script
    private final ThreadLocal<Context> contexts = new ThreadLocal<Context>()
    private int workspaces

    Build(Settings settings, Console console) {
        this.settings = settings
        this.console = console
        workdir = new File(settings['workdir']).canonicalFile
        source = new File(settings['source']).canonicalFile
        List<Node> declared = []
        settings.list('label').eachWithIndex { String given, int at ->
            List<String> parts = given.split('=', 2) as List<String>
            declared << new Node(at + 1, parts[0], parts.size() > 1 ? parts[1] : null)
        }
        nodes = new Nodes(declared ?: [new Node(1, 'built-in', null)])
        locks = new Locks(settings.map('lockable').collectEntries { String label, String count ->
            [label, count as Integer] } as Map<String, Integer>)
        credentials = new CredentialStore(settings.map('credential'))
        environment = Collections.synchronizedMap(new LinkedHashMap<String, String>(BaseEnvironment.of(settings)))
        contexts.set(new Context())
    }

    Context getContext() { contexts.get() }

    void setContext(Context context) { contexts.set(context) }

    /** Run `body` in a changed copy of the context. */
    def <T> T within(Closure change, Closure<T> body) {
        Context before = context
        Context inner = before.copy()
        change.call(inner)
        context = inner
        try { body.call() } finally { context = before }
    }

    void event(Map<String, ?> data, String step) { trace.event(context, step, data) }

    /** Write lines to the console, each with its stage, with the secrets of the context masked. */
    void say(Object text) { console.say(context, String.valueOf(text)) }

    /** Make the build's result worse; it never gets better. */
    synchronized void worsen(String worse) {
        result = Results.worst([result, worse])
        context.stage?.warn(worse)
    }

    String currentResult() { Results.worst([result, context.result]) }

    /** The value of an environment variable here, or null. Parameters are variables too, as strings. */
    String variable(String name) {
        Context here = context
        if (here.overrides.containsKey(name)) { return here.overrides[name] }
        name in exported ? String.valueOf(params[name]) : environment[name]
    }

    /** All environment variables here. */
    Map<String, String> variables() {
        Map<String, String> all = new LinkedHashMap<String, String>(environment)
        exported.each { String name -> all[name] = String.valueOf(params[name]) }
        all.putAll(context.overrides)
        all
    }

    /** Set a variable in a context as `withEnv` does: PATH+X=folder goes in front, $NAME is replaced. */
    void override(Context inner, String name, Object value) {
        String text = String.valueOf(value).replaceAll(/\$(?:\{(\w+)\}|(\w+))/) { List<String> match ->
            String found = inner.overrides[match[1] ?: match[2]] ?: environment[match[1] ?: match[2]]
            found == null ? match[0] : found
        }
        int plus = name.indexOf('+')
        if (plus < 0) { inner.overrides[name] = text; return }
        String base = name.substring(0, plus)
        String before = inner.overrides[base] ?: environment[base]
        inner.overrides[base] = before ? text + File.pathSeparator + before : text
    }

    synchronized File newWorkspace(String label) {
        File folder = new File(workdir, "workspace/${++workspaces}-${(label ?: 'any').replaceAll(/\W+/, '_')}")
        folder.mkdirs()
        folder
    }
}

/** The console text of a build, written as it comes. */
@CompileStatic
class Console {
    private final Writer writer

    Console(Writer writer) { this.writer = writer }

    synchronized void say(Context context, String text) {
        String stage = context?.stage ? "[${context.stage.path.join(' / ')}] " : ''
        for (String line : (context ? context.mask(text) : text).split('\n', -1)) { writer.write(stage + line + '\n') }
        writer.flush()
    }

    void close() { writer.close() }
}
