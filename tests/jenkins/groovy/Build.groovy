package jenkinsfile

/** One build: what the test asked for, its state, and the context of the running thread. */
class Build {
    static final List<String> PASSED = ['PATH', 'HOME', 'LANG', 'LC_ALL', 'TMPDIR', 'USER', 'LOGNAME', 'SSL_CERT_FILE',
                                        'SSL_CERT_DIR', 'REQUESTS_CA_BUNDLE', 'XDG_CACHE_HOME', 'XDG_RUNTIME_DIR', 'MYPY_CACHE_DIR']
    static final String PREFIXES = /(DOCKER_|UV_|PIP_|https?_|no_|HTTPS?_|NO_|COPIER_|GIT_CONFIG).*/
    /** The arguments of run_pipeline in runner.py. */
    final Map run
    final Trace trace = new Trace()
    final File workdir
    final Locks locks
    final StringBuffer log = new StringBuffer()
    final Map<String, String> environment
    final Map<String, Object> params = [:]
    /** The parameters that are variables too: all but those of which build 1 only learns. */
    final Set<String> exported = []
    final Set<String> replacedTimeouts = Collections.synchronizedSet(new HashSet<String>())
    final Set<Long> milestones = []
    String result
    boolean skipAfterUnstable
    PipelineScript script
    private final ThreadLocal<Context> contexts = new ThreadLocal<Context>()
    private int workspaces

    Build(Map run) {
        this.run = run
        workdir = new File(run.workdir)
        ['workspace', 'stash', 'archive'].each { new File(workdir, it).deleteDir() }
        workdir.mkdirs()
        if (run.stashes) { new Source(this).copy(Glob.files(new File(run.stashes), '**'), new File(run.stashes), new File(workdir, 'stash')) }
        locks = new Locks(run.resources)
        String number = run.build_number
        environment = run.outside.findAll { name, value -> name in PASSED || name ==~ PREFIXES } + [
            CI: 'true', JENKINS_URL: 'http://jenkins.invalid/', JOB_NAME: 'job', BUILD_NUMBER: number, BUILD_ID: number,
            BUILD_TAG: "jenkins-job-${number}" as String] + run.env
        contexts.set(new Context())
    }

    Context getContext() { contexts.get() }

    void setContext(Context context) { contexts.set(context) }

    /** Run `body` in a changed copy of the context. */
    Object within(Closure change, Closure body) {
        Context before = context
        Context inner = before.copy()
        change.call(inner)
        context = inner
        try { body.call() } finally { context = before }
    }

    void event(Map data = [:], String step) { trace.event(context, step, data) }

    /** Write lines to the log, each with its stage, with the secrets of the context masked. */
    void say(Object text) {
        String stage = context.stage ? "[${context.stage.path.join(' / ')}] " : ''
        log.append(context.mask(text as String).split('\n', -1).collect { stage + it + '\n' }.join(''))
    }

    /** Make the build's result worse; it never gets better. */
    synchronized void worsen(String worse) {
        result = Results.worst([result, worse])
        context.stage?.warn(worse)
    }

    /** The value of an environment variable here, or null. Parameters are variables too, as strings. */
    String variable(String name) { variables()[name] }

    Map<String, String> variables() {
        environment + exported.collectEntries { [it, params[it] as String] } + context.overrides
    }

    synchronized File newWorkspace(String label) {
        File folder = new File(workdir, "workspace/${++workspaces}-${label ?: 'any'}")
        folder.mkdirs()
        folder
    }
}

/** Where a step runs: node, workspace, environment, limits. Each block changes a copy of its own. */
class Context {
    StageRecord stage
    String label, cookie, post
    File workspace, temporary
    Map<String, String> overrides = [:]
    List<Deadline> deadlines = []
    List<String> secrets = []

    Context copy() {
        new Context(stage: stage, label: label, cookie: cookie, post: post, workspace: workspace, temporary: temporary,
                    overrides: new LinkedHashMap(overrides), deadlines: deadlines.collect(), secrets: secrets.collect())
    }

    /** Raise Interruption when a time limit has passed. */
    void checkStopped() {
        long now = System.currentTimeMillis()
        for (Deadline deadline : deadlines) {
            if (now >= deadline.at && deadline.seen.add(Thread.currentThread().id)) {
                throw new Interruption('Timeout has been exceeded', deadline)
            }
        }
    }

    String mask(String text) {
        secrets.sort(false) { -it.length() }.inject(text) { masked, secret -> masked.replace(secret, '****') }
    }
}

/** One stage of the build as the trace shows it. */
class StageRecord {
    int number
    String name, label, result, skipped, error
    List<String> path
    Map<String, String> axes
    StageRecord parent
    Long startedMs
    String warning = 'SUCCESS'

    /** Note a result that no error carries, e.g. of failed tests, for this stage and those around it. */
    synchronized void warn(String result) {
        warning = Results.worst([warning, result])
        parent?.warn(result)
    }

    Map asMap() {
        [number: number, name: name, path: path, axes: axes, label: label, result: result ?: 'NOT_BUILT',
         skipped: skipped, error: error, started_ms: startedMs]
    }
}

/** The record of a build; README.md has its schema. */
class Trace {
    private final long started = System.currentTimeMillis()
    final List<StageRecord> stages = []
    final List<Map> events = []

    long now() { System.currentTimeMillis() - started }

    synchronized void event(Context context, String step, Map data) {
        events << [step: step, stage: context.stage?.number, label: context.label, post: context.post] + data
    }

    StageRecord add(String name, StageRecord parent, Map<String, String> axes) {
        stages << new StageRecord(number: stages.size(), name: name, axes: axes, parent: parent,
                                  path: (parent ? parent.path : []) + [name])
        stages.last()
    }
}

/** The lockable resources of a run: a label has as many as the test says, else one. */
class Locks {
    private final Map<String, Integer> sizes
    private final Set<String> held = []

    Locks(Map<String, Integer> sizes) { this.sizes = sizes }

    /** Wait for `quantity` resources of a label (0: all), or for one by its name, and return the names. */
    List<String> take(String resource, String label, int quantity, Context context) {
        List<String> all = resource ? [resource] : (1..(sizes[label] ?: 1)).collect { "${label}-${it}" as String }
        int wanted = quantity ?: all.size()
        if (wanted > all.size()) { throw new StepFailure("lock: ${wanted} resources wanted, '${label}' has ${all.size()}") }
        synchronized (this) {
            while (true) {
                List<String> free = all - held
                if (free.size() >= wanted) {
                    held.addAll(free.take(wanted))
                    return free.take(wanted)
                }
                context.checkStopped()
                wait(20)
            }
        }
    }

    synchronized void release(List<String> names) {
        held.removeAll(names)
        notifyAll()
    }
}
