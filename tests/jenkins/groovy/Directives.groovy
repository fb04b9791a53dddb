package jenkinsfile

/** The sections around a body: agent, environment, options, input, parameters. */
class Directives {
    private final Build build
    private final Agents agents

    Directives(Build build) {
        this.build = build
        this.agents = new Agents(build)
    }

    /** Set the build's parameters: given values over defaults. Raises UsageError for unknown or impossible ones. */
    void parameters(Section pipeline) {
        Map<String, String> given = new LinkedHashMap<>(build.settings.map('param'))
        declared(pipeline.parameters).each { Map parameter ->
            String name = parameter.name
            // Jenkins learns the parameters from build 1: there `params` has the defaults, and the shell has none.
            if (given.containsKey(name) || (build.settings['build-number'] ?: '1') != '1') { build.exported << name }
            build.params[name] = given.containsKey(name) ? Parameters.value(parameter, given.remove(name)) :
                Parameters.standard(parameter)
        }
        if (given) {
            throw new UsageError("--param ${given.keySet().first()}: no such parameter; there are " +
                                 (build.params.keySet().join(', ') ?: 'none'))
        }
    }

    private List<Map> declared(Closure body) {
        List<Map> found = []
        if (body) {
            new Block(build.script, Catalog.PARAMETERS.keySet().collectEntries { kind ->
                [kind, { Map given -> found << given + [kind: kind] }] }).read(body)
        }
        found
    }

    /** Note the pipeline's options that concern all stages. */
    void prepare(Section pipeline) {
        options(pipeline.options).each { Map option ->
            switch (option.name) {
                case 'skipDefaultCheckout': build.skipCheckout = option.arguments ? option.arguments[0] : true; break
                case 'skipStagesAfterUnstable': build.skipAfterUnstable = true; break
                case 'parallelsAlwaysFailFast': build.failFast = true; break
                case 'checkoutToSubdirectory': build.checkoutFolder = option.arguments[0]; break
            }
        }
    }

    boolean skipsCheckout(Closure body) {
        options(body).any { it.name == 'skipDefaultCheckout' && (!it.arguments || it.arguments[0]) }
    }

    private List<Map> options(Closure body) {
        List<Map> found = []
        if (body) {
            Set<String> names = Catalog.OPTIONS + Catalog.STAGE_OPTIONS
            new Block(build.script, names.collectEntries { name ->
                [name, { Object... given -> found << [name: name, arguments: given as List] }]
            } + [logRotator: { Map given = [:] -> given }]).read(body)
        }
        found
    }

    /** Run `body` in the options that wrap it, the first written outermost. */
    void withOptions(Closure declared, Closure body) {
        List<Map> wrappers = options(declared).findAll { it.name in Catalog.WRAPPERS }
        nest(wrappers, body).call()
    }

    private Closure nest(List<Map> wrappers, Closure body) {
        if (!wrappers) { return body }
        Closure inner = nest(wrappers.tail(), body)
        return { ->
            build.script.invokeMethod(wrappers[0].name, (wrappers[0].arguments + [{ -> inner.call() }]) as Object[])
        }
    }

    /** Ask, then run `body` with the answers in the environment. */
    void withInput(Closure written, Closure body) {
        if (!written) { body.call(); return }
        Map asked = [parameters: []]
        Map<String, Closure> fields = ['message', 'id', 'ok', 'submitter', 'submitterParameter'].collectEntries { name ->
            [name, { given -> asked[name] = given }] }
        new Block(build.script, fields + [parameters: { Closure inner -> asked.parameters = declared(inner) }])
            .read(written)
        Map answers = new Inputs(build).ask(asked)
        build.within({ inner -> answers.each { name, value -> inner.overrides[name] = String.valueOf(value) } }, body)
    }

    /** Run `body` with the variables of an `environment` block; its credentials are bound and masked. */
    void withEnvironment(Closure declared, Closure body) {
        if (!declared) { body.call(); return }
        CredentialSteps credentials = new CredentialSteps(build)
        build.within({ Context inner ->
            Context before = build.context
            build.context = inner
            try {
                new Block(build.script, [credentials: { id -> new EnvironmentCredential(id: id as String) }],
                          { String name, Object value ->
                              if (value instanceof EnvironmentCredential) {
                                  credentials.bindEnvironment(inner, name, value.id)
                              } else {
                                  build.override(inner, name, value)
                              }
                          }).read(declared)
            } finally {
                build.context = before
            }
        }, body)
    }

    void onAgent(Object declared, boolean skipCheckout, Closure body) {
        agents.run(declared, skipCheckout || build.skipCheckout, body)
    }
}

/** credentials('id') in an environment block. */
class EnvironmentCredential {
    String id
}

/** The values of parameters of builds and inputs. */
class Parameters {
    static Object standard(Map parameter) {
        if (parameter.kind == 'choice') { return choices(parameter)[0] }
        if (parameter.kind == 'booleanParam') { return (parameter.defaultValue ?: false) as String == 'true' }
        parameter.defaultValue == null ? '' : parameter.defaultValue as String
    }

    static Object value(Map parameter, String given) {
        if (parameter.kind == 'booleanParam') {
            if (!(given in ['true', 'false'])) {
                throw new UsageError("parameter ${parameter.name}: true or false, not '${given}'")
            }
            return given == 'true'
        }
        if (parameter.kind == 'choice' && !(given in choices(parameter))) {
            throw new UsageError("parameter ${parameter.name}: one of ${choices(parameter).join(', ')}, not '${given}'")
        }
        given
    }

    private static List<String> choices(Map parameter) {
        parameter.choices instanceof List ? parameter.choices*.toString() : (parameter.choices as String).readLines()
    }
}

/** The answers to `input`. */
class Inputs {
    private final Build build

    Inputs(Build build) { this.build = build }

    /** Return the values by name. Raises Interruption when the answer is to abort. */
    Map ask(Map asked) {
        build.context.checkStopped()
        String stage = build.context.stage?.name
        String answer = build.settings.map('input-for')[stage] ?: build.settings['input'] ?: 'approve'
        Map<String, String> given = build.settings.map('input-value')
        Map values = (asked.parameters ?: []).collectEntries { Map parameter ->
            String name = parameter.name
            [name, given.containsKey(name) ? Parameters.value(parameter, given[name]) : Parameters.standard(parameter)]
        }
        if (asked.submitterParameter) { values[asked.submitterParameter] = given[asked.submitterParameter] ?: 'approver' }
        build.event('input', message: asked.message as String, answer: answer, values: values)
        build.say("Input requested: ${asked.message}: ${answer}")
        if (answer == 'abort') { throw new Interruption('Rejected by approver') }
        values
    }
}
