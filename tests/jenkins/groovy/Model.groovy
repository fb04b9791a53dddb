package jenkinsfile

/** What a Jenkinsfile is compiled to: names are resolved as Jenkins does, steps are looked up in the class of steps. */
abstract class PipelineScript extends Script {
    private Build currentRun
    private Steps steps
    Closure pipelineDefinition

    void bind(Build build) {
        currentRun = build
        build.script = this
        steps = new Steps(build: build)
    }

    void pipeline(Closure body) { pipelineDefinition = body }

    @Override
    Object getProperty(String name) {
        switch (name) {
            case 'env': return new EnvironmentView(build: currentRun)
            case 'params': return currentRun.params.asImmutable()
            case 'currentBuild': return new CurrentBuild(build: currentRun)
            case ['binding', 'class', 'metaClass', 'pipelineDefinition']: return super.getProperty(name)
        }
        if (binding.hasVariable(name)) { return binding.getVariable(name) }
        String variable = currentRun.variable(name)
        if (variable == null) { throw new MissingPropertyException(name, Binding) }
        variable
    }

    Object methodMissing(String name, Object arguments) { steps.call(name, arguments as Object[]) }

    /** A block of the pipeline as a step sees it: with steps and variables, without the sections around it. */
    Closure onScript(Closure body) {
        Closure freed = body.rehydrate(this, this, this)
        freed.resolveStrategy = Closure.OWNER_FIRST
        freed
    }
}

/** `env` in a Jenkinsfile. */
class EnvironmentView {
    Build build

    Object getProperty(String name) { build.variable(name) }
}

/** `currentBuild` in a Jenkinsfile. */
class CurrentBuild {
    Build build

    String getCurrentResult() { build.result ?: 'SUCCESS' }

    List getBuildCauses(String kind) {
        String name = build.run.timer ? 'TimerTriggerCause' : 'BranchEventCause'
        name == kind.tokenize('.$').last() ? [[_class: name]] : []
    }
}

/** A pipeline or stage: its sections as written, most of them closures to be evaluated later, and what came of it. */
class Section {
    String name, label, result, skipped, error
    Object agent
    Closure environment, options, input, when, steps, parameters
    /** The stages inside; of a matrix its cells, each with a name, its axes and stages of its own. */
    List<Section> stages = []
    boolean matrix
    Map<String, Closure> post = [:]
    Map<String, String> values = [:]
    Section parent
    int number
    Long startedMs
    String warning = 'SUCCESS'

    List<String> getPath() { (parent ? parent.path : []) + [name] }

    Map<String, String> getAxes() { (parent ? parent.axes : [:]) + values }

    /** Note a result that no error carries, e.g. of failed tests, for this stage and those around it. */
    void warn(String worse) {
        warning = Results.worst([warning, worse])
        parent?.warn(worse)
    }

    Map asMap() {
        [number: number, name: name, path: path, axes: axes, label: label, result: result ?: 'NOT_BUILT',
         skipped: skipped, error: error, started_ms: startedMs]
    }
}

/** A structural { } of a Jenkinsfile: calls and assignments go to the handlers of that block, names to the script. */
class Block {
    private final PipelineScript script
    private final Closure called
    private final Closure assigned

    /** called: takes a name and its arguments; assigned: takes a name and its value. */
    Block(PipelineScript script, Closure called, Closure assigned = null) {
        this.script = script
        this.called = called
        this.assigned = assigned
    }

    Object read(Closure body) {
        Closure mine = (Closure) body.clone()
        mine.delegate = this
        mine.resolveStrategy = Closure.DELEGATE_ONLY
        mine.call()
    }

    Object methodMissing(String name, Object arguments) { called.call(name, arguments as List) }

    Object propertyMissing(String name) { name in ['any', 'none'] ? name : script.getProperty(name) }

    void propertyMissing(String name, Object value) { assigned.call(name, value) }
}

/** Reads the closures of a checked Jenkinsfile into sections. Only the structure is evaluated here. */
class ModelReader {
    PipelineScript script

    Section pipeline(Closure body) { section(new Section(name: ''), body) }

    private Section section(Section found, Closure body) {
        read(body) { String name, List given ->
            switch (name) {
                case 'stages': found.stages = stages(given[0]); break
                case 'matrix': matrix(found, given[0]); break
                case 'post': read(given[0]) { condition, inner -> found.post[condition] = inner[0] }; break
                case 'triggers': break
                default: found[name] = given[0]
            }
        }
        found
    }

    private List<Section> stages(Closure body) {
        List<Section> found = []
        read(body) { name, given -> found << section(new Section(name: given[0]), given[1]) }
        found
    }

    private void matrix(Section stage, Closure body) {
        Closure inside = null
        List<Map<String, String>> all = [[:]]
        read(body) { name, given ->
            if (name == 'stages') { inside = given[0]; return }
            read(given[0]) { axis, inner ->
                Map fields = [:]
                read(inner[0]) { field, values -> fields[field] = values }
                all = all.collectMany { cell -> fields.values.collect { cell + [(fields.name[0]): it as String] } }
            }
        }
        stage.matrix = true
        stage.stages = all.collect { Map values ->
            String name = 'Matrix - ' + values.collect { axis, value -> "${axis} = '${value}'" }.join(', ')
            new Section(name: name, values: values, stages: stages(inside))
        }
    }

    private void read(Closure body, Closure called) { new Block(script, called).read(body) }
}
