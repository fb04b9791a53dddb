package jenkinsfile

/** Runs the sections in the order of Jenkins' ModelInterpreter; each method returns the error that ended it, or null. */
class Interpreter {
    Build build

    Directives getDirectives() { new Directives(build: build) }

    /** Run the whole pipeline and return its first error. */
    Throwable run(Section pipeline) {
        register(pipeline.stages, null)
        directives.parameters(pipeline.parameters)
        build.skipAfterUnstable = directives.calls(pipeline.options).any { it[0] == 'skipStagesAfterUnstable' }
        Throwable error = caught {
            directives.onAgent(pipeline.agent) {
                directives.withEnvironment(pipeline.environment) {
                    Throwable first = sequence(pipeline.stages)
                    if (first) { throw first }
                }
            }
        }
        build.stages.findAll { it.startedMs == null && !it.skipped }.each { it.skipped = reason(error) ?: 'failure' }
        error
    }

    /** Enter all stages into the trace before anything runs. */
    private void register(List<Section> stages, Section parent) {
        stages.each { Section stage ->
            stage.parent = parent
            stage.number = build.stages.size()
            build.stages << stage
            register(stage.stages, stage)
        }
    }

    private Throwable sequence(List<Section> stages) {
        stages.inject(null) { Throwable first, Section stage -> evaluate(stage, first) ?: first }
    }

    private Throwable evaluate(Section stage, Throwable earlier) {
        String why = reason(earlier)
        if (!why && build.run.only != null && !stage.stages && !(stage.name in build.run.only)) { why = 'only' }
        if (why) { skip(stage, why); return null }
        Throwable error = null
        inside(stage) {
            error = single(stage)
            if (stage.skipped) { stage.startedMs = null } else { ended(stage, error) }
        }
        error
    }

    private void inside(Section stage, Closure body) {
        build.within({ it.stage = stage; it.overrides.STAGE_NAME = stage.name; it.overrides.putAll(stage.values) }) {
            stage.startedMs = stage.startedMs ?: System.currentTimeMillis()
            stage.label = build.context.label
            body.call()
        }
    }

    private void ended(Section stage, Throwable error) {
        stage.result = Results.worst([stage.warning, Results.of(error)])
        if (error) {
            stage.error = build.context.mask(Errors.text(error))
            build.event('failed', text: stage.error)
            build.say("ERROR: ${stage.error}")
        }
    }

    /** Why what follows is left out, or null. */
    private String reason(Throwable earlier) {
        if (earlier) { return Results.of(earlier) == 'ABORTED' ? 'aborted' : 'failure' }
        build.skipAfterUnstable && build.result == 'UNSTABLE' ? 'unstable' : null
    }

    private void skip(Section stage, String why) {
        stage.skipped = why
        stage.stages.each { skip(it, why) }
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
        Throwable error = stage.matrix ? matrix(stage.stages) :
            stage.steps ? caught { build.script.onScript(stage.steps).call() } : sequence(stage.stages)
        error = post(stage, error)
        if (error) { throw error }
    }

    private static Throwable caught(Closure body) {
        try { body.call() } catch (Throwable thrown) { return thrown }
        null
    }

    /** The cells stage by stage, so that each meets what the others leave; the first failure counts, else the first stop. */
    private Throwable matrix(List<Section> cells) {
        Map<Section, Throwable> errors = [:]
        cells[0].stages.indices.each { at ->
            cells.each { cell -> inside(cell) { errors[cell] = evaluate(cell.stages[at], errors[cell]) ?: errors[cell] } }
        }
        cells.each { cell -> inside(cell) { ended(cell, errors[cell]) } }
        List<Throwable> all = errors.values() - null
        all.find { !(it instanceof Interruption) } ?: all[0]
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
                build.within({ it.post = condition; it.deadlines = [] }) { // what was stopped is cleaned up all the same
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
