package jenkinsfile

import org.codehaus.groovy.ast.expr.*
import org.codehaus.groovy.ast.stmt.*
import org.codehaus.groovy.control.*
import org.codehaus.groovy.control.messages.SyntaxErrorMessage
import org.codehaus.groovy.runtime.MethodRankHelper

/** One fault of a Jenkinsfile. kind: structure, syntax, or "not run here" for what is right, but nothing that this runner runs. */
class Problem {
    String file, what, right = '', kind = 'structure'
    int line

    Map asMap() { [file: file, line: line, what: what, right: right, kind: kind] }

    static List<Problem> syntax(String file, MultipleCompilationErrorsException broken) {
        broken.errorCollector.errors.collect { one ->
            boolean known = one instanceof SyntaxErrorMessage
            String said = known ? one.cause.originalMessage.readLines()[0] : one
            new Problem(file: file, line: known ? one.cause.line : 1, what: "syntax: ${said}", kind: 'syntax')
        }
    }
}

/** Reads Groovy's syntax tree; nothing in it is resolved or run. */
class Syntax {
    /** Parse a file. Raises MultipleCompilationErrorsException. */
    static Object parse(String text) {
        CompilationUnit unit = new CompilationUnit()
        unit.addSource('Jenkinsfile', text)
        unit.compile(Phases.CONVERSION)
        unit.AST.modules[0]
    }

    static List statements(Object code) {
        Object inner = code instanceof ClosureExpression ? code.code : code
        inner instanceof BlockStatement ? inner.statements : inner == null ? [] : [inner]
    }

    /** The call that a statement is, if it is nothing else. */
    static MethodCallExpression call(Object statement) {
        Object found = statement instanceof ExpressionStatement ? statement.expression : null
        found instanceof MethodCallExpression ? found : null
    }

    static String name(MethodCallExpression call) { call.methodAsString }

    static List arguments(MethodCallExpression call) {
        call.arguments instanceof TupleExpression ? call.arguments.expressions : [call.arguments]
    }

    /** The { } at the end of a call, or null. */
    static ClosureExpression block(MethodCallExpression call) {
        List all = arguments(call)
        all && all.last() instanceof ClosureExpression ? all.last() : null
    }

    /** The arguments with a name. */
    static List named(MethodCallExpression call) {
        List all = arguments(call)
        all && all[0] instanceof MapExpression ? all[0].mapEntryExpressions : []
    }

    /** The arguments without a name, the block left out. */
    static List plain(MethodCallExpression call) {
        arguments(call).findAll { !(it instanceof MapExpression) && !it.is(block(call)) }
    }

    static String key(Object entry) { constant(entry.keyExpression) }

    static Object constant(Object node) { node instanceof ConstantExpression ? node.value : null }

    /** How far apart two names are: ten for a letter. */
    static int distance(String one, String other) {
        MethodRankHelper.damerauLevenshteinDistance(one.toList() as Object[], other.toList() as Object[])
    }

    static boolean isText(Object node) { constant(node) instanceof String || node instanceof GStringExpression }
}
