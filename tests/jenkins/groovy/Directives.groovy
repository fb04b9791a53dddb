package jenkinsfile

/** The sections around a body: parameters, options, input, environment, agent. */
class Directives {
    Build build

    List<List> calls(Closure body) {
        List<List> found = []
        if (body) { new Block(build.script, { name, given -> name == 'logRotator' ?: (found << [name] + given) }).read(body) }
        found
    }

    /** Set the build's parameters: given values over defaults. Raises IllegalArgumentException for unknown or impossible ones. */
    void parameters(Closure declared) {
        Map given = new LinkedHashMap(build.run.params)
        calls(declared).collect { it[1] }.each { Map parameter ->
            String name = parameter.name
            // Jenkins learns the parameters from build 1: there `params` has the defaults, and the shell has none.
            if (given.containsKey(name) || build.run.build_number != '1') { build.exported << name }
            Object value = given.containsKey(name) ? given.remove(name) : parameter.choices ? parameter.choices[0] : parameter.defaultValue
            if (parameter.choices && !(value in parameter.choices)) {
                throw new IllegalArgumentException("parameter ${name}: one of ${parameter.choices.join(', ')}, not '${value}'")
            }
            build.params[name] = value ?: ''
        }
        given.keySet().each { throw new IllegalArgumentException("${it}: no such parameter; there are ${build.params.keySet().join(', ')}") }
    }

    /** Run `body` within the time limit of its options. */
    void withOptions(Closure declared, Closure body) {
        List limit = calls(declared).find { it[0] == 'timeout' }
        limit ? new Steps(build: build).call('timeout', [limit[1], body] as Object[]) : body.call()
    }

    /** Ask as `input` does. Raises Interruption when the answer is no. */
    void ask(Closure input) {
        if (!input) { return }
        Map asked = calls(input).collectEntries { [it[0], it[1] as String] }
        String answer = build.run.approve ? 'approve' : 'abort'
        build.event(asked + [answer: answer], 'input')
        build.say("Input requested: ${asked.message}: ${answer}")
        if (answer == 'abort') { throw new Interruption('Rejected by approver') }
    }

    /** Run `body` with the variables of an `environment` block. */
    void withEnvironment(Closure declared, Closure body) {
        build.within({ }) {
            Closure set = { String name, Object value -> build.context.overrides[name] = value as String }
            if (declared) { new Block(build.script, { name, given -> build.script.invokeMethod(name, given as Object[]) }, set).read(declared) }
            body.call()
        }
    }

    /** Run `body` on a node of the agent's label, in a new workspace with the source. */
    void onAgent(Object declared, Closure body) {
        if (declared == null || declared == 'none') { body.call(); return }
        String label = declared == 'any' ? null : calls((Closure) declared)[0][1]
        String node = label ?: build.run.labels.keySet().first()
        if (!build.run.labels.containsKey(node)) {
            throw new StepFailure("There are no nodes with the label '${label}'; there are: ${build.run.labels.keySet().join(', ')}")
        }
        build.context.stage?.label = node
        build.within({ Context inner ->
            inner.label = node
            inner.workspace = new File(build.workdir, "workspace/${++build.workspaces}-${node}")
            inner.temporary = new File(inner.workspace.path + '@tmp')
            inner.temporary.mkdirs()
            inner.overrides.putAll(WORKSPACE: inner.workspace.path, NODE_NAME: "${node}-node" as String)
            String first = build.run.labels[node]
            if (first) { inner.overrides.PATH = first + File.pathSeparator + build.environment.PATH }
        }) {
            build.event('node', workspace: build.context.workspace.path)
            build.context.overrides.putAll(new Source(build: build).checkout())
            body.call()
        }
    }
}

/** The `when` of one stage: evaluated once, before its agent is taken where beforeAgent asks for it, else on the agent. */
class When {
    private final Build build
    private final Closure body
    private boolean early
    private Boolean result

    When(Build build, Closure body) {
        this.build = build
        this.body = body
        if (body) { new Block(build.script, { name, given -> if (name == 'beforeAgent') { early = given[0] } }).read(body) }
    }

    /** Whether the stage may go on, before its agent is taken or on it. */
    boolean passed(boolean onAgent) {
        if (!body) { return true }
        if (result == null && (onAgent || early)) {
            result = conditions(body).every()
            build.event('when', passed: result)
        }
        result == null || result
    }

    private List<Boolean> conditions(Closure inside) {
        List<Boolean> found = []
        new Block(build.script, { String name, List given ->
            switch (name) {
                case 'not': found << !conditions(given[0])[0]; break
                case 'anyOf': found << conditions(given[0]).any(); break
                case 'branch': found << matches(given[0], build.variable('BRANCH_NAME')); break
                case 'tag': found << matches(given[0], build.variable('TAG_NAME')); break
                case 'buildingTag': found << (build.variable('TAG_NAME') != null); break
                case 'expression': found << (build.script.onScript(given[0]).call() as boolean); break
            }
        }).read(inside)
        found
    }

    private static boolean matches(Object given, String actual) {
        Map asked = given instanceof Map ? given : [pattern: given]
        if (asked.comparator) { throw new StepFailure('a comparator is not run here') }
        actual != null && Glob.matches((asked.pattern ?: '**').toLowerCase(), actual.toLowerCase())
    }
}
