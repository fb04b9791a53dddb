package jenkinsfile

/** What a Jenkinsfile is compiled to: names are resolved as Jenkins does, steps are looked up in the step classes. */
abstract class PipelineScript extends Script {
    private Build build
    private List<Object> steps
    Closure definition

    void bind(Build build) {
        this.build = build
        steps = [new FlowSteps(build), new FileSteps(build), new ShellSteps(build), new CredentialSteps(build),
                 new ReportSteps(build), new BuildSteps(build)]
    }

    void pipeline(Closure body) { definition = body }

    @Override
    Object getProperty(String name) {
        switch (name) {
            case 'env': return new EnvironmentView(build)
            case 'params': return build.params.asImmutable()
            case 'currentBuild': return new CurrentBuild(build)
            case 'scm': return 'scm'
            case ['binding', 'class', 'metaClass', 'definition']: return super.getProperty(name)
        }
        if (binding.hasVariable(name)) { return binding.getVariable(name) }
        String variable = build.variable(name)
        if (variable != null) { return variable }
        if (build.params.containsKey(name)) { return build.params[name] }
        throw new MissingPropertyException(name, Binding)
    }

    Object methodMissing(String name, Object arguments) {
        Object[] given = arguments as Object[]
        Object provider = steps.find { it.metaClass.respondsTo(it, name, given) && !name.startsWith('_') }
        if (provider) {
            if (given.length && given[-1] instanceof Closure) { given[-1] = onScript((Closure) given[-1]) }
            return provider.metaClass.invokeMethod(provider, name, given)
        }
        if (steps.any { it.metaClass.respondsTo(it, name) }) {
            throw new StepFailure("step '${name}' does not take ${given.collect { it?.class?.simpleName }}")
        }
        throw new StepFailure("No such DSL method '${name}' found among steps")
    }

    /** A block sees steps and variables only, not the sections around it. */
    Closure onScript(Closure body) {
        if (!(body.delegate instanceof Block)) { return body }
        Closure freed = body.rehydrate(this, this, this)
        freed.resolveStrategy = Closure.OWNER_FIRST
        freed
    }
}

/** `env` in a Jenkinsfile. */
class EnvironmentView {
    private final Build build

    EnvironmentView(Build build) { this.build = build }

    Object getProperty(String name) { build.variable(name) }

    void setProperty(String name, Object value) {
        build.environment[name] = value == null ? '' : String.valueOf(value)
    }

    Object getAt(String name) { build.variable(name) }

    void putAt(String name, Object value) { setProperty(name, value) }

    Map<String, String> getEnvironment() { build.variables() }

    String toString() { build.variables().toString() }
}

/** `currentBuild` in a Jenkinsfile. */
class CurrentBuild {
    private final Build build

    CurrentBuild(Build build) { this.build = build }

    String getResult() { build.result }

    void setResult(String result) {
        if (!(result in Results.ORDER)) { throw new StepFailure("'${result}' is no result of a build") }
        build.worsen(result)
    }

    String getCurrentResult() { build.currentResult() }

    boolean resultIsBetterOrEqualTo(String other) {
        Results.ORDER.indexOf(build.currentResult()) <= Results.ORDER.indexOf(other)
    }

    boolean resultIsWorseOrEqualTo(String other) {
        Results.ORDER.indexOf(build.currentResult()) >= Results.ORDER.indexOf(other)
    }

    int getNumber() { (build.settings['build-number'] ?: '1') as int }

    String getDisplayName() { build.displayName ?: "#${number}" }

    void setDisplayName(String name) { build.displayName = name }

    String getFullDisplayName() { "${build.settings['job'] ?: 'job'} ${displayName}" }

    String getDescription() { build.description }

    void setDescription(String text) { build.description = text }

    long getDuration() { build.trace.now() }

    String getDurationString() { "${duration.intdiv(1000)} sec" }

    List getChangeSets() { [] }

    List getBuildCauses(Object kind = null) {
        String name = Cause.of(build.settings['trigger'])
        kind == null || name.endsWith(String.valueOf(kind).tokenize('.$').last()) ? [[_class: name]] : []
    }

    Map getPreviousBuild() {
        String before = build.settings['previous-result']
        before ? [result: before, currentResult: before, number: number - 1] : null
    }
}

/** Why a build started. */
class Cause {
    static final Map<String, String> NAMES = [
        timer: 'TimerTriggerCause', user: 'UserIdCause', upstream: 'UpstreamCause', push: 'BranchEventCause']

    static String of(String trigger) { NAMES[trigger ?: 'push'] }

    /** Jenkins takes TimerTrigger for hudson.triggers.TimerTrigger$TimerTriggerCause, so the short names count too. */
    static boolean matches(String trigger, String wanted) {
        String cause = of(trigger)
        String last = wanted.tokenize('.$').last()
        cause == last || cause == last + 'Cause' || cause == last - 'Trigger' + 'TriggerCause'
    }
}
