package jenkinsfile

import groovy.json.JsonOutput
import groovy.transform.CompileStatic

/** One fault of a Jenkinsfile: where, what is wrong, and what would be right. */
@CompileStatic
class Problem {
    static final Map<String, Integer> EXIT_CODES = [structure: 2, syntax: 3]

    String file
    int line
    String what
    String right = ''
    String kind = 'structure'

    String toString() { "${file}:${line}: ${what}${right ? "; ${right}" : ''}" }

    static void print(List<Problem> problems, boolean json, PrintWriter writer) {
        if (json) {
            writer.print(JsonOutput.toJson(problems.collect { Problem one ->
                [file: one.file, line: one.line, what: one.what, right: one.right, kind: one.kind] }))
        } else {
            problems.each { Problem one -> writer.println(one.toString()) }
        }
        writer.flush()
    }

    static int exitCode(List<Problem> problems) {
        problems.collect { Problem one -> EXIT_CODES[one.kind] }.max() ?: 0
    }
}
