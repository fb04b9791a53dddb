package jenkinsfile

import groovy.json.JsonOutput
import groovy.transform.CompileStatic
import org.codehaus.groovy.control.MultipleCompilationErrorsException

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

    static List<Problem> syntax(String file, MultipleCompilationErrorsException broken) {
        Syntax.errors(broken).collect { List one ->
            new Problem(file: file, line: (int) one[0], what: "syntax: ${one[1]}".toString(), kind: 'syntax')
        }
    }

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
