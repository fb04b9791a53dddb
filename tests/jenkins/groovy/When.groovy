package jenkinsfile

/** The `when` of one stage: evaluated once, at the moment that beforeOptions, beforeInput or beforeAgent ask for. */
class When {
    private final Build build
    private final Closure body
    private final Map<String, Boolean> flags = [:]
    private Boolean result

    When(Build build, Closure body) {
        this.build = build
        this.body = body
        if (body) { new FlagReader(build.script, flags).read(body) }
    }

    /** Whether the stage may go on at this moment; null is the last one, inside the agent. */
    boolean passed(String moment) {
        if (!body) { return true }
        if (result == null && (moment == null || flags[moment])) {
            List<Boolean> found = []
            conditions(found).read(body)
            result = found.every()
            build.event('when', passed: result)
        }
        result == null || result
    }

    private Block conditions(List<Boolean> into) {
        Closure group = { Closure combine ->
            { Closure inner ->
                List<Boolean> found = []
                conditions(found).read(inner)
                into << combine.call(found)
            }
        }
        Map<String, Closure> simple = [
            branch: { given -> into << branch(given) },
            tag: { given -> into << compare(given, 'pattern', build.variable('TAG_NAME')) },
            buildingTag: { Object... none -> into << (build.variable('TAG_NAME') != null) },
            changeRequest: { Object... given -> into << changeRequest(given ? given[0] : [:]) },
            changeset: { given -> into << changeset(given) },
            changelog: { given -> into << false },
            environment: { Map given -> into << environment(given) },
            equalsCondition: { Map given -> into << (given.expected == given.actual) },
            expression: { Closure inner -> into << truth(build.script.onScript(inner).call()) },
            triggeredBy: { given -> into << triggeredBy(given) },
            isRestartedRun: { Object... none -> into << false },
        ]
        Map<String, Closure> groups = [
            not: group { List found -> !found[0] }, anyOf: group { List found -> found.any() },
            allOf: group { List found -> found.every() }]
        Map<String, Closure> moments = Catalog.WHEN_MOMENTS.collectEntries { [it, { Object... value -> }] }
        new Block(build.script, simple + groups + moments)
    }

    private static boolean truth(Object value) { value as boolean }

    private boolean branch(Object given) {
        compare(given, 'pattern', build.variable('BRANCH_NAME') ?: build.variable('GIT_LOCAL_BRANCH'))
    }

    private static boolean compare(Object given, String key, String actual) {
        Map asked = given instanceof Map ? (Map) given : [(key): given]
        if (actual == null) { return false }
        String pattern = asked[key]
        if (!pattern) { return true }
        switch ((asked.comparator ?: 'GLOB').toUpperCase()) {
            case 'EQUALS': return actual == pattern
            case 'REGEXP': return actual ==~ pattern
            default: return Glob.matches(pattern, actual, asked.caseSensitive as boolean)
        }
    }

    private boolean changeRequest(Object given) {
        Map asked = given instanceof Map ? (Map) given : [:]
        Map<String, String> names = [id: 'CHANGE_ID', target: 'CHANGE_TARGET', branch: 'CHANGE_BRANCH',
                                     title: 'CHANGE_TITLE', author: 'CHANGE_AUTHOR', url: 'CHANGE_URL',
                                     fork: 'CHANGE_FORK']
        build.variable('CHANGE_ID') != null && names.every { key, variable ->
            !asked.containsKey(key) ||
                compare([pattern: asked[key], comparator: asked.comparator ?: 'EQUALS'], 'pattern',
                        build.variable(variable))
        }
    }

    private boolean changeset(Object given) {
        Map asked = given instanceof Map ? (Map) given : [pattern: given]
        build.settings.list('changed').any { path -> compare([pattern: asked.glob] + asked, 'pattern', path) }
    }

    private boolean environment(Map given) {
        String actual = build.variable(given.name as String) ?: ''
        String wanted = given.value ?: ''
        given.ignoreCase ? actual.equalsIgnoreCase(wanted) : actual == wanted
    }

    private boolean triggeredBy(Object given) {
        Map asked = given instanceof Map ? (Map) given : [cause: given]
        Cause.matches(build.settings['trigger'], asked.cause as String)
    }
}

/** Reads beforeAgent, beforeInput and beforeOptions; evaluates no condition. */
class FlagReader {
    private final PipelineScript script
    private final Map<String, Boolean> flags

    FlagReader(PipelineScript script, Map<String, Boolean> flags) {
        this.script = script
        this.flags = flags
    }

    void read(Closure body) {
        Map<String, Closure> ignored = Catalog.WHEN.keySet().collectEntries { [it, { Object... given -> }] }
        ignored['equalsCondition'] = { Object... given -> }
        Map<String, Closure> moments = Catalog.WHEN_MOMENTS.collectEntries { name ->
            [name, { Object... value -> flags[name] = value ? value[0] : true }] }
        new Block(script, ignored + moments).read(body)
    }
}
