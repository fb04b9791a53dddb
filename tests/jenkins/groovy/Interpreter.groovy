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
        Throwable error = caught {
            directives.parameters(pipeline.parameters)
            build.skipAfterUnstable = directives.options(pipeline.options).any { it[0] == 'skipStagesAfterUnstable' }
            directives.onAgent(pipeline.agent) {
                directives.withEnvironment(pipeline.environment) {
                    directives.withOptions(pipeline.options) {
                        Throwable first = sequence(pipeline.stages)
                        if (first) { throw first }
                    }
                }
            }
        }
        if (error instanceof UsageError) { throw error }
        unreached(pipeline.stages, reason(error) ?: 'failure')
        error
    }

    private void unreached(List<Section> stages, String why) {
        stages.each { Section stage ->
            if (stage.record.startedMs == null && stage.record.skipped == null) { skip(stage, why) }
            unreached(stage.inner, why)
        }
    }

    /** Enter all stages into the trace before anything runs. */
    private void register(List<Section> stages, StageRecord parent, Map<String, String> axes) {
        stages.each { Section stage ->
            stage.record = build.trace.add(stage.name, parent, axes + stage.values)
            register(stage.inner, stage.record, axes + stage.values)
        }
    }

    private Throwable sequence(List<Section> stages) {
        Throwable first = null
        stages.each { Section stage -> first = evaluate(stage, first) ?: first }
        first
    }

    private Throwable evaluate(Section stage, Throwable earlier) {
        String why = reason(earlier)
        if (!why && build.run.only != null && !stage.inner && !(stage.name in build.run.only)) { why = 'only' }
        if (why) { skip(stage, why); return null }
        Throwable error = null
        StageRecord record = stage.record
        build.within({ it.stage = record; it.overrides.STAGE_NAME = stage.name; it.overrides.putAll(stage.values) }) {
            record.startedMs = build.trace.now()
            record.label = build.context.label
            error = single(stage)
            if (record.skipped) { record.startedMs = null; return }
            record.result = Results.worst([record.warning, Results.of(error)])
            if (error) {
                record.error = build.context.mask(Errors.text(error))
                build.event('failed', text: record.error)
                build.say("ERROR: ${record.error}")
            }
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
        stage.inner.each { skip(it, why) }
    }

    /** A stage: options input [when] agent [when] environment body post. */
    private Throwable single(Section stage) {
        When when = new When(build, stage.when)
        caught {
            directives.withOptions(stage.options) {
                directives.ask(stage.input)
                if (!when.passed(false)) { skipByWhen(stage); return }
                directives.onAgent(stage.agent) {
                    if (!when.passed(true)) { skipByWhen(stage); return }
                    directives.withEnvironment(stage.environment) { body(stage) }
                }
            }
        }
    }

    private void body(Section stage) {
        Throwable error = stage.cells ? caught { branches(stage.cells) } :
            stage.steps ? caught { build.script.onScript(stage.steps).call() } : sequence(stage.stages)
        error = post(stage, error)
        if (error) { throw error }
    }

    private static Throwable caught(Closure body) {
        try { body.call() } catch (Throwable thrown) { return thrown }
        null
    }

    /** Run the cells of a matrix at the same time, each in a thread and a context of its own; raise the first failure, else the first stop. */
    private void branches(List<Section> all) {
        List<Throwable> errors = Collections.synchronizedList([])
        Context parent = build.context
        List<Thread> threads = all.collect { Section branch ->
            new Thread({
                build.context = parent.copy()
                Throwable error = caught { Throwable own = evaluate(branch, null); if (own) { throw own } }
                if (error) { errors << error }
            } as Runnable, branch.name)
        }
        threads*.start()
        threads*.join()
        parent.deadlines.each { if (it.seen) { it.seen.add(Thread.currentThread().id) } } // what stopped a branch stopped this
        Throwable first = errors.find { !(it instanceof Interruption) } ?: errors[0]
        if (first) { throw first }
    }

    private void skipByWhen(Section stage) {
        build.say("Stage \"${stage.name}\" skipped due to when conditional")
        skip(stage, 'when')
    }

    /** Run the post blocks in Jenkins' order; return the first error. */
    private Throwable post(Section section, Throwable stageError) {
        Throwable error = stageError
        Checker.POST.findAll { section.post[it] }.each { String condition ->
            Throwable own = caught {
                build.within({ it.post = condition }) {
                    build.event('post', condition: condition)
                    build.script.onScript(section.post[condition]).call()
                }
            }
            if (own) { build.say("Error when executing ${condition} post condition: ${Errors.text(own)}") }
            error = error ?: own
        }
        error
    }
}
