package jenkinsfile

import groovy.json.JsonOutput
import groovy.transform.CompileStatic

/** One stage of the build as the trace shows it. */
@CompileStatic
class StageRecord {
    int number
    String name
    List<String> path
    int line
    Map<String, String> axes = [:]
    StageRecord parent
    String label
    String node
    String image
    String result
    String skipped
    String error
    Long startedMs
    long durationMs
    String warning = 'SUCCESS'

    /** Note a result that no error carries, e.g. of failed tests, for this stage and those around it. */
    synchronized void warn(String result) {
        warning = Results.worst([warning, result])
        parent?.warn(result)
    }

    Map<String, Object> asMap() {
        ([number: number, name: name, path: path, line: line, axes: axes, label: label, node: node, image: image,
          result: result ?: 'NOT_BUILT', skipped: skipped, error: error, started_ms: startedMs,
          duration_ms: durationMs] as Map<String, Object>)
    }
}

/** The record of a build; README.md has its schema. */
@CompileStatic
class Trace {
    final long started = System.currentTimeMillis()
    final List<StageRecord> stages = []
    private final List<Map<String, Object>> events = []

    long now() { System.currentTimeMillis() - started }

    synchronized void event(Context context, String step, Map<String, ?> data) {
        Map<String, Object> entry = [
            number: events.size(), at_ms: now(), step: step, stage: context.stage?.number, label: context.label,
            node: context.node?.name, image: context.image, post: context.post,
        ] as Map<String, Object>
        entry.putAll(data)
        events << entry
    }

    StageRecord add(String name, StageRecord parent, int line, Map<String, String> axes) {
        StageRecord record = new StageRecord(
            number: stages.size(), name: name, line: line, axes: axes, parent: parent,
            path: (parent ? parent.path : []) + [name])
        stages << record
        record
    }

    synchronized void write(File file, Map<String, ?> head) {
        Map<String, Object> whole = [schema: 1] as Map<String, Object>
        whole.putAll(head)
        whole.putAll([duration_ms: now(), stages: stages*.asMap(), events: events])
        file.setText(JsonOutput.prettyPrint(JsonOutput.toJson(whole)) + '\n', 'UTF-8')
    }
}
