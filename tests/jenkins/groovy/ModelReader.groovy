package jenkinsfile

/** Reads the closures of a checked Jenkinsfile into sections. Only the structure is evaluated here. */
class ModelReader {
    private final PipelineScript script
    private final Iterator<Integer> lines

    /** lines: where the stages start, in the order of the file. */
    ModelReader(PipelineScript script, List<Integer> lines) {
        this.script = script
        this.lines = lines.iterator()
    }

    Section pipeline(Closure body) {
        Section found = new Section(name: '')
        read(body, sections(found) + [
            stages: { Closure inner -> found.stages = stages(inner) }, parameters: { found.parameters = it },
            triggers: { }, libraries: { throw new StepFailure('libraries { } cannot be run here') }])
        found
    }

    private List<Section> stages(Closure body) {
        List<Section> found = []
        read(body, [stage: { String name, Closure inner -> found << stage(name, inner) }])
        found
    }

    private Section stage(String name, Closure body) {
        Section found = new Section(name: name, line: lines.hasNext() ? lines.next() : 0)
        read(body, sections(found) + [
            steps: { found.steps = it }, stages: { found.stages = stages(it) }, failFast: { found.failFast = it },
            parallel: { found.parallel = stages(it) }, matrix: { found.matrix = matrix(found, it) }])
        found
    }

    private Section matrix(Section stage, Closure body) {
        Section found = new Section(name: stage.name, line: stage.line)
        read(body, sections(found) + [
            stages: { found.stages = stages(it) }, axes: { found.axes = axes(it).collectEntries { name, axis ->
                [name, axis.values] } },
            excludes: { inner -> read(inner, [exclude: { found.excludes << axes(it) }]) }])
        found.cells = cells(found).collect { Map<String, String> values ->
            found.cell('Matrix - ' + values.collect { name, value -> "${name} = '${value}'" }.join(', '), values)
        }
        found
    }

    private Map<String, Axis> axes(Closure body) {
        Map<String, Axis> found = [:]
        read(body, [axis: { Closure inner ->
            String axisName = null
            Axis axis = new Axis()
            read(inner, [name: { axisName = it }, values: { Object... all -> axis.values = all as List },
                         notValues: { Object... all -> axis.values = all as List; axis.inverse = true }])
            found[axisName] = axis
        }])
        found
    }

    private static List<Map<String, String>> cells(Section matrix) {
        List<Map<String, String>> all = [[:]]
        matrix.axes.each { name, values ->
            all = all.collectMany { cell -> values.collect { value -> cell + [(name): value.toString()] } }
        }
        all.findAll { cell ->
            !matrix.excludes.any { exclude -> exclude.every { name, axis -> axis.covers(cell[name]) } }
        }
    }

    private Map<String, Closure> sections(Section found) {
        [agent: { found.agent = it }, environment: { found.environment = it }, options: { found.options = it },
         input: { found.input = it }, when: { found.when = it }, tools: { found.tools = it },
         post: { Closure inner ->
             read(inner, Catalog.POST.collectEntries { name -> [name, { found.post[name] = it }] })
         }]
    }

    private void read(Closure body, Map<String, Closure> handlers) {
        new Block(script, handlers, null, { name -> name in ['any', 'none'] ? name : null }).read(body)
    }
}
