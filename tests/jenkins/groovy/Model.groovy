package jenkinsfile

/** A pipeline or stage as written: its sections, of which most are closures to be evaluated later. */
class Section {
    String name
    int line
    Object agent
    Closure environment
    Closure options
    Closure input
    Closure when
    Closure tools
    Closure steps
    List<Section> stages
    List<Section> parallel
    Section matrix
    Map<String, List> axes = [:]
    List<Map<String, Axis>> excludes = []
    Map<String, Closure> post = [:]
    Closure parameters
    boolean failFast
    StageRecord record
    /** Of a matrix: its cells, each with a name, its axes and stages of its own. */
    List<Section> cells = []
    Map<String, String> values = [:]

    /** A copy for one cell, with copies of the stages inside. */
    Section cell(String name, Map<String, String> values) {
        Section twin = shallow()
        twin.name = name
        twin.values = values
        twin.stages = stages.collect { it.deep() }
        twin
    }

    Section deep() {
        Section twin = shallow()
        twin.stages = stages?.collect { it.deep() }
        twin
    }

    private Section shallow() {
        new Section(name: name, line: line, agent: agent, environment: environment, options: options, input: input,
                    when: when, tools: tools, steps: steps, post: post, failFast: failFast)
    }
}

/** The values of one axis in an exclude. */
class Axis {
    List values
    boolean inverse

    boolean covers(String value) { (value in values*.toString()) != inverse }
}

/** A structural { } of a Jenkinsfile: calls and assignments go to the handlers of that block, names to the script. */
class Block {
    private final PipelineScript script
    private final Map<String, Closure> handlers
    private final Closure assigned
    private final Closure named

    Block(PipelineScript script, Map<String, Closure> handlers, Closure assigned = null, Closure named = null) {
        this.script = script
        this.handlers = handlers
        this.assigned = assigned
        this.named = named
    }

    /** Evaluate a copy of the closure in this block. */
    Object read(Closure body) {
        Closure mine = (Closure) body.clone()
        mine.delegate = this
        mine.resolveStrategy = Closure.DELEGATE_ONLY
        mine.call()
    }

    Object methodMissing(String name, Object arguments) {
        Closure handler = handlers[name]
        handler ? handler.call(*(arguments as Object[])) : script.invokeMethod(name, arguments)
    }

    Object propertyMissing(String name) {
        Object value = named?.call(name)
        value == null ? script.getProperty(name) : value
    }

    void propertyMissing(String name, Object value) {
        if (!assigned) { throw new StepFailure("an assignment to '${name}' has no place here") }
        assigned.call(name, value)
    }
}
