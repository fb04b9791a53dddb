package jenkinsfile

import java.lang.reflect.Modifier

/** What a Jenkinsfile is compiled to: names are resolved as Jenkins does, steps are looked up in the step classes. */
abstract class PipelineScript extends Script {
    private Build currentRun
    private StepLibrary stepLibrary
    Closure pipelineDefinition

    void bind(Build build) {
        this.currentRun = build
        this.stepLibrary = new StepLibrary(build)
    }

    void pipeline(Closure body) { pipelineDefinition = body }

    @Override
    Object getProperty(String name) {
        switch (name) {
            case 'env': return new EnvironmentView(currentRun)
            case 'params': return currentRun.params.asImmutable()
            case 'currentBuild': return new CurrentBuild(currentRun)
            case 'scm': return 'scm'
            case ['binding', 'class', 'metaClass', 'pipelineDefinition']: return super.getProperty(name)
        }
        if (binding.hasVariable(name)) { return binding.getVariable(name) }
        String variable = currentRun.variable(name)
        if (variable != null) { return variable }
        if (metaClass.hasProperty(this, name)) { return metaClass.getProperty(this, name) }
        throw new MissingPropertyException(name, Binding)
    }

    /** A @Field is set where it is; every other name becomes a variable of the whole script. */
    @Override
    void setProperty(String name, Object value) {
        if (metaClass.hasProperty(this, name)) {
            metaClass.setProperty(this, name, value)
        } else {
            super.setProperty(name, value)
        }
    }

    Object methodMissing(String name, Object arguments) { stepLibrary.call(name, arguments as Object[]) }

    /** A block of the pipeline as a step sees it: with steps and variables, without the sections around it. */
    Closure onScript(Closure body) {
        Closure freed = body.rehydrate(this, this, this)
        freed.resolveStrategy = Closure.OWNER_FIRST
        freed
    }
}

/** The steps by name: the public methods of the step classes. */
class StepLibrary {
    private final Map<String, Object> providers = [:]

    StepLibrary(Build build) {
        [new FlowSteps(build), new FileSteps(build), new ShellSteps(build), new CredentialSteps(build),
         new ReportSteps(build), new BuildSteps(build)].each { Object provider ->
            provider.class.declaredMethods.findAll { Modifier.isPublic(it.modifiers) && !it.synthetic }
                .each { providers[it.name] = provider }
        }
    }

    Object call(String name, Object[] arguments) {
        Object provider = providers[name]
        if (provider == null) { throw new StepFailure("No such DSL method '${name}' found among steps") }
        Object[] given = takes(provider, name, arguments) ? arguments : unnamed(arguments)
        if (!takes(provider, name, given)) {
            throw new StepFailure("step '${name}' does not take ${given.collect { it?.class?.simpleName }}")
        }
        provider.metaClass.invokeMethod(provider, name, given)
    }

    private static boolean takes(Object provider, String name, Object[] given) {
        provider.metaClass.respondsTo(provider, name, given) as boolean
    }

    /** dir(path: 'x') is dir('x'). */
    private static Object[] unnamed(Object[] given) {
        if (!given || !(given[0] instanceof Map) || ((Map) given[0]).size() != 1) { return given }
        ([((Map) given[0]).values().first()] + (given.tail() as List)) as Object[]
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

    String getResult() { build.result ?: build.context.result }

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

    /** Jenkins compares with the beginning of the class' own name, so that TimerTrigger is TimerTriggerCause too. */
    static boolean matches(String trigger, String wanted) { of(trigger).toLowerCase().startsWith(wanted.toLowerCase()) }
}
