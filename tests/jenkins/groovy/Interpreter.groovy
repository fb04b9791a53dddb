package jenkinsfile

/** Runs the sections in the order of Jenkins' ModelInterpreter; each method returns the error that ended it, or null. */
class Interpreter {
    private final Build build
    private final Directives directives

    Interpreter(Build build) {
        this.build = build
        this.directives = new Directives(build)
    }

    /** Run the whole pipeline and return its first error. */
    Throwable run(Section pipeline) {
        register(pipeline.stages, null, [:])
        Throwable error = null
        boolean posted = false
        try {
            directives.parameters(pipeline)
            directives.prepare(pipeline)
            directives.onAgent(pipeline.agent, false) {
                directives.withEnvironment(pipeline.environment) {
                    directives.withOptions(pipeline.options) {
                        error = sequence(pipeline.stages, null, null)
                        posted = true
                        error = post(pipeline, error)
                        if (error) { throw error }
                    }
                }
            }
        } catch (Throwable thrown) {
            error = error ?: thrown
        }
        Throwable last = posted ? error : post(pipeline, error)
        unreached(pipeline.stages, reason(last) ?: 'failure')
        last
    }

    private void unreached(List<Section> stages, String why) {
        stages.each { Section stage ->
            if (stage.record.startedMs == null && stage.record.skipped == null) { skip(stage, why) }
            unreached(inner(stage), why)
        }
    }

    /** Enter all stages into the trace before anything runs. */
    private void register(List<Section> stages, StageRecord parent, Map<String, String> axes) {
        stages.each { Section stage ->
            Map<String, String> here = axes + stage.values
            stage.record = build.trace.add(stage.name, parent, stage.line, here)
            register(inner(stage), stage.record, here)
        }
    }

    private static List<Section> inner(Section stage) {
        stage.stages ?: stage.parallel ?: stage.matrix?.cells ?: []
    }

    private Throwable sequence(List<Section> stages, Throwable error, String skipped) {
        Throwable first = error
        stages.each { Section stage ->
            Throwable own = evaluate(stage, first, skipped)
            first = first ?: own
        }
        first
    }

    private Throwable evaluate(Section stage, Throwable earlier, String skipped) {
        String why = skipped ?: reason(earlier)
        if (why) { skip(stage, why); return null }
        Throwable error = null
        StageRecord record = stage.record
        build.within({ it.stage = record; it.overrides.STAGE_NAME = stage.name; it.overrides.putAll(stage.values) }) {
            record.skipped = null
            record.startedMs = build.trace.now()
            record.label = build.context.label
            record.node = build.context.node?.name
            record.image = build.context.image
            error = stage.parallel || stage.matrix ? fork(stage) : single(stage)
            record.durationMs = build.trace.now() - record.startedMs
            if (record.skipped) { record.startedMs = null; return }
            record.result = Results.worst([record.warning, Results.of(error)])
            if (error) { report(error) }
        }
        error
    }

    /** Why what follows is left out, or null. */
    private String reason(Throwable earlier) {
        if (earlier) { return Results.of(earlier) == 'ABORTED' ? 'aborted' : 'failure' }
        build.skipAfterUnstable && build.result == 'UNSTABLE' ? 'unstable' : null
    }

    private void skip(Section stage, String why) {
        stage.record.skipped = why
        stage.record.result = 'NOT_BUILT'
        inner(stage).each { skip(it, why) }
    }

    private void report(Throwable error) {
        String text = build.context.mask(Errors.text(error, build))
        build.context.stage.error = text
        build.event('failed', text: text)
        build.say("ERROR: ${text}")
    }

    /** A stage with steps or stages: [when] options [when] input [when] agent [when] environment body post. */
    private Throwable single(Section stage) {
        admitted(stage) { When when ->
            if (!when.passed('beforeAgent')) { skipByWhen(stage); return }
            directives.onAgent(stage.agent, directives.skipsCheckout(stage.options)) {
                if (!when.passed(null)) { skipByWhen(stage); return }
                directives.withEnvironment(stage.environment) { body(stage) }
            }
        }
    }

    private void body(Section stage) {
        Throwable error = null
        if (stage.steps) {
            try {
                build.script.onScript(stage.steps).call()
            } catch (Throwable thrown) {
                error = thrown
            }
        } else {
            error = sequence(stage.stages, null, null)
        }
        error = post(stage, error)
        if (error) { throw error }
    }

    /** A stage with parallel stages or a matrix: it has no agent, and its post runs outside of its environment. */
    private Throwable fork(Section stage) {
        Throwable error = admitted(stage) { When when ->
            if (!when.passed(null)) { skipByWhen(stage); return }
            directives.withEnvironment(stage.environment) { branches(stage) }
        }
        stage.record.skipped ? error : post(stage, error)
    }

    /** What every stage begins with, [when] options [when] input, around the rest of it; return what was thrown. */
    private Throwable admitted(Section stage, Closure rest) {
        When when = new When(build, stage.when)
        try {
            if (!when.passed('beforeOptions')) { skipByWhen(stage); return null }
            directives.withOptions(stage.options) {
                if (!when.passed('beforeInput')) { skipByWhen(stage); return }
                directives.withInput(stage.input) { rest(when) }
            }
        } catch (Throwable thrown) {
            return thrown
        }
        null
    }

    private void branches(Section stage) {
        List<Section> all = inner(stage)
        Map<String, Closure> bodies = all.collectEntries { Section branch ->
            [branch.name, {
                Throwable error = evaluate(branch, null, null)
                if (error) { throw error }
            }]
        }
        new Branches(build).run(bodies, stage.failFast || build.failFast)
    }

    private void skipByWhen(Section stage) {
        build.say("Stage \"${stage.name}\" skipped due to when conditional")
        skip(stage, 'when')
    }

    /** Run the post blocks that the result calls for, in Jenkins' order; return the first error. */
    private Throwable post(Section section, Throwable stageError) {
        Throwable error = stageError
        Catalog.POST.each { String condition ->
            Closure body = section.post[condition]
            String whole = Results.worst([build.currentResult(), Results.of(error)])
            String logical = Results.worst([whole, build.context.stage?.warning])
            if (!body || !applies(condition, whole, logical)) { return }
            try {
                build.within({ it.post = condition; it.result = logical }) {
                    build.event('post', condition: condition)
                    build.script.onScript(body).call()
                }
            } catch (Throwable thrown) {
                build.say("Error when executing ${condition} post condition: ${Errors.text(thrown, build)}")
                error = error ?: thrown
            }
        }
        error
    }

    /** whole: the result of the build so far; result: with what the stage has noted for itself. */
    private boolean applies(String condition, String whole, String result) {
        String before = build.settings['previous-result']
        switch (condition) {
            case ['always', 'cleanup']: return true
            case 'changed': return before != whole
            case 'fixed': return whole == 'SUCCESS' && before in ['UNSTABLE', 'FAILURE']
            case 'regression': return before && Results.worst([before, whole]) != before
            case 'unsuccessful': return result != 'SUCCESS'
            case 'notBuilt': return result == 'NOT_BUILT'
            default: return result == condition.toUpperCase()
        }
    }
}

/** Runs branches at the same time, each in a thread and a context of its own. */
class Branches {
    private final Build build

    Branches(Build build) { this.build = build }

    /** Run all; raise the first real error, else the first interruption. With failFast the first error stops all. */
    void run(Map<String, Closure> bodies, boolean failFast) {
        StopSignal stop = new StopSignal()
        List<Throwable> errors = Collections.synchronizedList([])
        Context parent = build.context
        List<Thread> threads = bodies.collect { String name, Closure body ->
            new Thread({
                build.context = parent.copy()
                build.context.parallel = true
                build.context.stops << stop
                try {
                    body.call()
                } catch (Throwable thrown) {
                    errors << thrown
                    if (failFast && !stop.reason) { stop.reason = "Failed in branch ${name}" }
                }
            } as Runnable, name)
        }
        threads*.start()
        threads*.join()
        parent.inherit()
        Throwable first = failFast ? errors[0] : errors.find { !(it instanceof Interruption) } ?: errors[0]
        if (first) { throw first }
    }
}

/** Errors in one line. */
class Errors {
    static String text(Throwable error, Build build) {
        if (error instanceof StepFailure || error instanceof Interruption) { return error.message }
        String where = error.stackTrace.find { it.fileName == Compiler.SCRIPT }?.lineNumber
        String file = build.settings.jenkinsfile.name
        "${where ? "${file}:${where}: " : ''}${error.class.name}: ${error.message}"
    }
}
