package jenkinsfile

/** Steps that decide what runs, how often and for how long. */
class FlowSteps {
    static final Map<String, Long> UNITS = [MILLISECONDS: 1L, SECONDS: 1000L, MINUTES: 60000L, HOURS: 3600000L,
                                            DAYS: 86400000L]
    private final Build build

    FlowSteps(Build build) { this.build = build }

    Object script(Closure body) { body.call() }

    void error(CharSequence message) { throw new StepFailure(message as String) }

    void error(Map given) { error(given.message as String) }

    void unstable(CharSequence message) {
        build.say("WARNING: ${message}")
        build.event('unstable', text: message as String)
        build.worsen('UNSTABLE')
    }

    void unstable(Map given) { unstable(given.message as String) }

    Object timeout(Number time, Closure body) { timeout([time: time], body) }

    Object timeout(Map given, Closure body) {
        String stage = build.context.stage?.name ?: ''
        String limit = build.settings.map('stage-timeout')[stage]
        if (limit) { build.replacedTimeouts << stage }
        long time = limit ? (limit as BigDecimal) * 1000 as long : milliseconds(given, 'MINUTES')
        Deadline deadline = new Deadline(time, given.activity as boolean)
        try {
            return build.within({ it.deadlines << deadline }, body)
        } catch (Interruption stopped) {
            if (stopped.deadline.is(deadline) && stopped.actual) {
                build.event('timeout', seconds: deadline.limitMs / 1000)
                build.say('Cancelling nested steps due to timeout')
                stopped.actual = false
            }
            throw stopped
        }
    }

    private static long milliseconds(Map given, String standard) {
        String unit = given.unit ?: standard
        if (!UNITS.containsKey(unit)) { throw new StepFailure("'${unit}' is no unit of time: ${UNITS.keySet()}") }
        (given.time as BigDecimal) * UNITS[unit] as long
    }

    Object retry(Map given, Closure body) { retry(given.count as int, body) }

    Object retry(Number count, Closure body) {
        int attempt = 1
        while (true) {
            try {
                return body.call()
            } catch (Throwable thrown) {
                if (attempt >= count || (thrown instanceof Interruption && thrown.actual)) { throw thrown }
                attempt += 1
                build.event('retry', attempt: attempt, error: build.context.mask(Errors.text(thrown, build)))
                build.say("ERROR: ${Errors.text(thrown, build)}\nRetrying")
            }
        }
    }

    Object waitUntil(Map given = [:], Closure body) {
        while (!body.call()) { pause(250) }
    }

    void sleepStep(Number seconds) { pause(seconds * 1000 as long) }

    void sleepStep(Map given) { pause(milliseconds(given, 'SECONDS')) }

    private void pause(long milliseconds) {
        long until = System.currentTimeMillis() + milliseconds
        while (true) {
            build.context.checkStopped()
            long left = until - System.currentTimeMillis()
            if (left <= 0) { return }
            Thread.sleep(Math.min(left, 20L))
        }
    }

    Object catchError(Map given = [:], Closure body) {
        try {
            return body.call()
        } catch (Throwable thrown) {
            boolean stopped = thrown instanceof Interruption
            if (stopped && given.containsKey('catchInterruptions') && !given.catchInterruptions) { throw thrown }
            String buildResult = given.buildResult ?: (stopped ? Results.of(thrown) : 'FAILURE')
            caught(thrown, given.message as String)
            if (buildResult != 'SUCCESS') { build.worsen(buildResult) }
            if (given.stageResult) { build.context.stage?.warn(given.stageResult as String) }
        }
    }

    Object warnError(CharSequence message, Closure body) { warnError([message: message], body) }

    Object warnError(Map given, Closure body) {
        catchError(given + [buildResult: 'UNSTABLE', stageResult: 'UNSTABLE'], body)
    }

    private void caught(Throwable thrown, String message) {
        String text = Errors.text(thrown, build)
        if (message) { build.say(message) }
        build.say("ERROR: ${text}")
        build.event('caught', text: build.context.mask(text))
    }

    Object lock(CharSequence resource, Closure body) { lock([resource: resource], body) }

    Object lock(Map given, Closure body) {
        if (!given.resource && !given.label) { throw new StepFailure('lock: either resource or label must be given') }
        if (given.extra) { throw new StepFailure('lock: `extra` cannot be run here') }
        LockRequest request = new LockRequest(resource: given.resource as String, label: given.label as String,
                                              quantity: (given.quantity ?: 0) as int,
                                              skipIfLocked: given.skipIfLocked as boolean)
        long started = System.currentTimeMillis()
        List<String> names = build.locks.take(request, build.context)
        if (!names) { return null }
        long waited = System.currentTimeMillis() - started
        names.each { build.event('lock', resource: it, waited_ms: waited) }
        try {
            return build.within({ Context inner ->
                inner.resources.addAll(names)
                if (given.variable) {
                    inner.overrides[given.variable as String] = names.join(',')
                    names.eachWithIndex { name, at ->
                        inner.overrides["${given.variable}${at}" as String] = name
                        // A resource of a label has the property DEVICE, as docs/jenkins declares them: 0, 1, ...
                        if (given.label) {
                            inner.overrides["${given.variable}${at}_DEVICE" as String] =
                                "${(name - ~/.*-/).toInteger() - 1}" as String
                        }
                    }
                }
            }, body)
        } finally {
            names.each { build.event('unlock', resource: it) }
            build.locks.release(names)
        }
    }

    void parallel(Map given) {
        Map<String, Closure> bodies = given.findAll { it.value instanceof Closure }
            .collectEntries { name, body -> [name as String, body] }
        new Branches(build).run(bodies, given.failFast as boolean || build.failFast)
    }

    Object stage(CharSequence name, Closure body) {
        build.say("Stage ${name}")
        body.call()
    }

    Object node(CharSequence label = null, Closure body) {
        Object value = null
        new Agents(build).onNode(label as String, [:], true) { value = body.call() }
        value
    }

    Object ws(CharSequence path, Closure body) { new FileSteps(build).dir(path, body) }

    Object timestamps(Closure body) { body.call() }

    Object ansiColor(CharSequence kind, Closure body) { body.call() }

    void milestone(Object ordinal = null) {
        if (build.context.parallel) { throw new StepFailure('Using a milestone step within parallel is not allowed') }
        Object number = ordinal instanceof Map ? ordinal.ordinal : ordinal
        long next = number == null ? (build.milestones.max() ?: 0L) + 1 : number as long
        if (build.milestones.any { it >= next }) {
            throw new StepFailure("Milestone ${next} passed after milestone ${build.milestones.max()}")
        }
        build.milestones << next
        build.event('milestone', ordinal: next)
    }

    Object input(CharSequence message) { input([message: message]) }

    Object input(Map given) {
        Map values = new Inputs(build).ask(given)
        values.size() == 1 ? values.values().first() : values ?: null
    }
}
