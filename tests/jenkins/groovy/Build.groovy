package jenkinsfile

/** One build: what the test asked for, its state and its trace (README.md has its schema), the context of what runs now. */
class Build {
    static final String PASSED = 'PATH|HOME|LANG|LC_ALL|TMPDIR|USER|LOGNAME|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|MYPY_CACHE_DIR|' +
        'XDG_(CACHE_HOME|RUNTIME_DIR)|(DOCKER_|UV_|PIP_|https?_|no_|HTTPS?_|NO_|COPIER_|GIT_CONFIG).*'
    /** The arguments of run_pipeline in runner.py. */
    final Map run
    final List<Section> stages = []
    final List<Map> events = []
    final File workdir
    final StringBuilder log = new StringBuilder()
    final Map<String, String> environment
    final Map<String, Object> params = [:]
    /** The parameters that are variables too: all but those of which build 1 only learns. */
    final Set<String> exported = []
    final Set<Long> milestones = []
    String result
    boolean skipAfterUnstable
    PipelineScript script
    Context context = new Context()
    int workspaces

    Build(Map run) {
        this.run = run
        workdir = new File(run.workdir)
        ['workspace', 'stash', 'archive'].each { new File(workdir, it).deleteDir() }
        workdir.mkdirs()
        if (run.stashes) { new Source(build: this).copy(Glob.files(new File(run.stashes), '**'), new File(run.stashes), new File(workdir, 'stash')) }
        String number = run.build_number
        environment = run.outside.findAll { name, value -> name ==~ PASSED } + [
            CI: 'true', JENKINS_URL: 'http://jenkins.invalid/', JOB_NAME: 'job', BUILD_NUMBER: number, BUILD_ID: number,
            BUILD_TAG: "jenkins-job-${number}" as String] + run.env
    }

    /** Run `body` in a changed copy of the context. */
    Object within(Closure change, Closure body) {
        Context before = context
        Context inner = before.copy()
        change.call(inner)
        context = inner
        try { body.call() } finally { context = before }
    }

    void event(Map data = [:], String step) {
        events << [step: step, stage: context.stage?.number, label: context.label, post: context.post] + data
    }

    /** Write lines to the log, each with its stage, with the secrets of the context masked. */
    void say(Object text) {
        String stage = context.stage ? "[${context.stage.path.join(' / ')}] " : ''
        log.append(context.mask(text as String).split('\n', -1).collect { stage + it + '\n' }.join(''))
    }

    /** Make the build's result worse; it never gets better. */
    void worsen(String worse) {
        result = Results.worst([result, worse])
        context.stage?.warn(worse)
    }

    /** The value of an environment variable here, or null. Parameters are variables too, as strings. */
    String variable(String name) { variables()[name] }

    Map<String, String> variables() {
        environment + exported.collectEntries { [it, params[it] as String] } + context.overrides
    }
}

/** Where a step runs: node, workspace, environment, limits. Each block changes a copy of its own. */
class Context {
    Section stage
    String label, post
    File workspace, temporary
    Map<String, String> overrides = [:]
    List<Long> deadlines = []
    List<String> secrets = []

    Context copy() {
        new Context(stage: stage, label: label, post: post, workspace: workspace, temporary: temporary,
                    overrides: new LinkedHashMap(overrides), deadlines: deadlines.collect(), secrets: secrets.collect())
    }

    /** Raise Interruption when a time limit has passed. */
    void checkStopped() {
        if (deadlines.any { System.currentTimeMillis() >= it }) { throw new Interruption('Timeout has been exceeded') }
    }

    String mask(String text) {
        secrets.sort(false) { -it.length() }.inject(text) { masked, secret -> masked.replace(secret, '****') }
    }
}
